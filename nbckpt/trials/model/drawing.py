"""Drawing: the configurations of a search space, and the values that vary in it."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Any

from nbckpt.trials.model.metrics import PLAIN, plain, without_addresses
from nbckpt.trials.model.space import Choice, Domain, Drawing, Grid, SampleFrom

Keys = tuple[Any, ...]
"""The keys that lead to a value in a space."""

MISSING = object()
"""Stands for a value that a configuration does not have."""


def configs(space: Mapping[str, Any], num_samples: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield configurations: the whole grid *num_samples* times, each time with new draws of other values.

    The same space and seed give the same configurations. More samples only add configurations at the end.
    """
    grids = [(path, value) for path, value in leaves(space) if isinstance(value, Grid)]
    source = random.Random(seed)
    for _ in range(num_samples):
        for combination in itertools.product(*(grid.values for _, grid in grids)):
            tried = dict(zip((path for path, _ in grids), combination, strict=True))
            yield complete(space, tried, source)


def complete(space: Mapping[str, Any], given: Mapping[Keys, Any], source: random.Random) -> dict[str, Any]:
    """Return the configuration of a space with the values *given*; the others are drawn or computed."""
    config = with_values(space, given)
    for path, domain in domains(space).items():
        if path not in given and not isinstance(domain, SampleFrom):
            _put(
                config,
                path,
                source.choice(domain.values) if isinstance(domain, Grid) else domain.draw(source),
            )
    drawing = Drawing(config)
    for path in computed(space):
        reduce(getitem, path, drawing.config)
    return config


def has_grid(space: Mapping[str, Any]) -> bool:
    """Return whether a space has a grid."""
    return any(isinstance(value, Grid) for _, value in leaves(space))


def computed(space: Mapping[str, Any]) -> list[Keys]:
    """Return the keys that lead to the values of `sample_from` in a space."""
    return [path for path, value in _drawn(space) if isinstance(value, SampleFrom)]


def without(config: Mapping[str, Any], paths: Iterable[Keys]) -> dict[str, Any]:
    """Return a configuration with None in place of the values that these keys lead to."""
    return with_values(config, {path: None for path in paths if _has(config, path)})


def with_earlier(
    config: Mapping[str, Any], earlier: Mapping[str, Any], paths: Iterable[Keys]
) -> dict[str, Any]:
    """Return a configuration with the values of an earlier one where these keys lead."""
    return with_values(
        config, {path: reduce(getitem, path, earlier) for path in paths if _has(earlier, path)}
    )


def domains(space: Mapping[str, Any]) -> dict[Keys, Grid | Domain]:
    """Return the values that vary in a space, by the keys that lead to them."""
    return {path: value for path, value in leaves(space) if isinstance(value, (Grid, Domain))}


def with_values(space: Mapping[str, Any], values: Mapping[Keys, Any]) -> dict[str, Any]:
    """Return the configuration of a space with these values, by the keys that lead to them."""
    config = _copied(space)
    for path, value in values.items():
        _put(config, path, value)
    return config


def recalled(
    space: Mapping[str, Any],
    kept: Mapping[str, Any],
    *,
    is_changed: bool = False,
    picks: Callable[[], Mapping[str, int]] = dict,
) -> dict[str, Any]:
    """Return a configuration from a file, with the space's own values in place of their texts.

    A configuration that does not come from this space is returned unchanged. If a scheduler has changed some
    of its values, the others come from the space. *picks* reads which of the values that look the same the
    configuration has, as `picks_of` returned it. If that is not known, their text stays.
    """
    if not space:
        return dict(kept)
    try:
        values = {path: _original(domain, kept, path, picks) for path, domain in domains(space).items()}
    except (KeyError, TypeError):
        return dict(kept)
    config = with_values(space, values)
    _compute_again(config, space, kept)
    if _looks_like(config, kept):
        return config
    if not is_changed:
        return dict(kept)
    same = {path: value for path, value in leaves(config) if _looks_like(value, value_at(kept, path))}
    return with_values(kept, same)


def value_at(config: Mapping[str, Any], path: Keys) -> Any:
    """Return the value of a configuration that these keys lead to; `MISSING` if there is none."""
    return reduce(getitem, path, config) if _has(config, path) else MISSING


def canonical(config: Mapping[str, Any]) -> str:
    """Return a text that is equal for configurations that look the same in a file."""
    return json.dumps(plain(config), sort_keys=True)


def lookalikes(space: Mapping[str, Any]) -> dict[Keys, tuple[Any, ...]]:
    """Return the lists of values of which some look the same in a file, by the keys that lead to them."""
    lists = {
        path: domain.values for path, domain in domains(space).items() if isinstance(domain, (Choice, Grid))
    }
    opaque = {path: values for path, values in lists.items() if not PLAIN.issuperset(map(type, values))}
    return {path: values for path, values in opaque.items() if len({*map(_look, values)}) < len(values)}


def picks_of(lists: Mapping[Keys, Sequence[Any]], config: Mapping[str, Any]) -> dict[str, int]:
    """Return the place in its list of each value of a configuration that comes from one of `lookalikes`."""
    return {
        name_of(path): at
        for path, values in lists.items()
        for at, value in enumerate(values)
        if value is value_at(config, path)
    }


def _look(value: Any) -> str:
    return canonical({"": value})


def _looks(kept: Any) -> set[str]:
    """Return the looks of the value that has this JSON form in a file. An older nbckpt kept addresses."""
    return {_look(kept), without_addresses(_look(kept))}


def _looks_like(value: Any, kept: Any) -> bool:
    return kept is not MISSING and _look(value) in _looks(kept)


def _original(
    domain: Grid | Domain, config: Mapping[str, Any], path: Keys, picks: Callable[[], Mapping[str, int]]
) -> Any:
    """Return the value of a domain whose JSON form is in a configuration from a file."""
    kept = _at(config, path)
    if not isinstance(domain, (Choice, Grid)) or any(value is kept for value in domain.values):
        return kept
    looks = _looks(kept)
    alike = {at: value for at, value in enumerate(domain.values) if _look(value) in looks}
    is_clear = len(alike) == 1 or PLAIN.issuperset(map(type, alike.values()))
    at = next(iter(alike), -1) if is_clear else picks().get(name_of(path), -1)
    return alike.get(at, kept)


def _compute_again(config: dict[str, Any], space: Mapping[str, Any], kept: Mapping[str, Any]) -> None:
    """Replace the texts of values that `sample_from` computed, if it computes values that look like them."""
    texts = {path: _at(kept, path) for path in computed(space) if isinstance(_at(kept, path), str)}
    again = with_values(config, {path: value_at(space, path) for path in texts})
    drawing = Drawing(again)
    for path, text in texts.items():
        with suppress(Exception):  # a function of the user's may raise anything
            reduce(getitem, path, drawing.config)
            if _looks_like(value_at(again, path), text):
                _put(config, path, value_at(again, path))


def name_of(path: Keys) -> str:
    """Return the name of the value that these keys lead to: `a/b` means the key b of the dict a."""
    return "/".join(map(str, path))


def _at(config: Any, path: Keys) -> Any:
    for part in path:
        config = config[str(part)]
    return config


def _drawn(space: Mapping[str, Any]) -> Iterator[tuple[Keys, Domain]]:
    return ((path, value) for path, value in leaves(space) if isinstance(value, Domain))


def _has(config: Mapping[str, Any], path: Keys) -> bool:
    try:
        reduce(getitem, path, config)
    except (KeyError, TypeError):
        return False
    return True


def leaves(space: Mapping[str, Any], above: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield the values of a space, or of a configuration, with the keys that lead to them."""
    for key, value in space.items():
        path = (*above, key)
        if isinstance(value, dict):
            yield from leaves(value, path)
        else:
            yield path, value


def _copied(space: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in space.items()}


def _put(config: dict[str, Any], path: Keys, value: Any) -> None:
    for part in path[:-1]:
        config = config[part]
    config[path[-1]] = value
