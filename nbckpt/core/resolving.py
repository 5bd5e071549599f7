"""Which checkpoint a reference means: `latest`, a name, `name@3`, the start of an id, each with `~2`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from nbckpt.core.names import CELL, composed, encode_name, name_trouble
from nbckpt.core.references import SHORT, Entry, Kind, References
from nbckpt.errors import NotFoundError, UsageError
from nbckpt.suggestion import suggestion

_LATEST: tuple[Kind, ...] = "checkpoints", "points"  # see docs/decisions/0097
"""The kinds that `latest` looks for: the results of cells are parts of a namespace."""

_PREFIX = re.compile(r"[0-9a-f]{4,64}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def resolve(references: References, ref: str) -> Entry:
    """Return the checkpoint that *ref* refers to.

    *ref* is `latest`, a name (its newest version), `name@3`, or at least four characters of an id. Each
    may end in `~2`, for the checkpoint two places older in the same list.

    Raises:
        NotFoundError: No checkpoint matches. The message names similar ones.
        UsageError: Several checkpoints match.
    """
    base, tilde, back = ref.partition("~")
    if tilde and not _NUMBER.fullmatch(back):
        raise UsageError(f"{ref!r} has no number after '~'. Write one, as in 'latest~2'")
    spellings = dict.fromkeys((base, composed(base)))
    for spelling in spellings if not tilde else ():
        if entry := _newest(references, spelling):
            return entry
    candidates = [entry for spelling in spellings for entry in _candidates(references, spelling)]
    if not candidates:
        raise _unknown(references, base, references.entries())
    at = int(back or 0)
    if at >= len(candidates):
        raise NotFoundError(f"{ref!r} goes too far back: {base!r} has {len(candidates)}. See `%ckpt ls`")
    return candidates[at]


def fallbacks(references: References, ref: str) -> Iterator[tuple[str, Entry]]:
    """Yield the checkpoints that can stand in for *ref*, newest first, each with a reference to it.

    These are the versions of the same name; all checkpoints for `latest` and for an id.
    """
    name, _ = _split(ref.partition("~")[0])
    refs = [] if name == "latest" or name_trouble(name) else references.refs(name)
    yield from ((str(ref), entry) for ref, entry in reversed(references.named(refs)))
    if not refs and (name == "latest" or _PREFIX.fullmatch(name)):
        yield from ((entry.id, entry) for entry in references.living(_LATEST))


def _split(base: str) -> tuple[str, str]:
    """Return the name and the version of `name@3`. Without a version, it is ""."""
    name, at, version = base.rpartition("@")
    return (name, version) if at and _NUMBER.fullmatch(version) else (base, "")


def _newest(references: References, base: str) -> Entry | None:
    """Return the checkpoint of `latest` or a name by one listing, or None if this does not decide it."""
    # see docs/decisions/0059
    if base == "latest":
        return max(filter(None, (_last(references, kind) for kind in _LATEST)), default=None)
    name, version = _split(base)
    if name_trouble(name) or name.startswith(CELL):
        return None
    if version:
        keys = [ref.key for ref in references.refs(name) if ref.version == int(version)]
    else:
        keys = list(references.store.keys(f"refs/{encode_name(name)}/"))
    return references.named_by(keys[-1]) if keys else None


def _last(references: References, kind: Kind) -> Entry | None:
    """Return the newest checkpoint of one kind, or None if there is none."""
    return next(filter(None, map(Entry.parse, reversed(list(references.store.keys(f"{kind}/"))))), None)


def _candidates(references: References, base: str) -> list[Entry]:
    """Return the checkpoints that *base* can refer to, best match first."""
    if base == "latest":
        return references.living(_LATEST)
    name, version = _split(base)
    named = [] if name_trouble(name) else references.named(references.refs(name))
    if version:
        named = [(ref, entry) for ref, entry in named if ref.version <= int(version)]
        named = named if named and named[-1][0].version == int(version) else []
    if named:
        return [entry for _, entry in reversed(named)]
    if not _PREFIX.fullmatch(base):
        return []
    entries = references.living()
    matching = [entry for entry in entries if entry.id.startswith(base)]
    if len(matching) > 1:
        ids = ", ".join(entry.id[: SHORT + 4] for entry in matching[:4])
        raise UsageError(f"several ids begin with {base!r} ({ids}). Give more characters")
    same_kind = [entry for entry in entries if matching and entry.kind == matching[0].kind]
    return same_kind[same_kind.index(matching[0]) :] if matching else []


def _unknown(references: References, base: str, entries: Sequence[Entry]) -> NotFoundError:
    if not name_trouble(base) and references.named(references.refs(kept := CELL + base)):
        return NotFoundError(f"no checkpoint matches {base!r}. Did you mean {kept!r}?")
    if not entries:
        place = references.store.url
        return NotFoundError(
            f"no checkpoint {base!r}: {place} has none. Make one in a notebook with `%ckpt save`"
        )
    names = sorted({ref.name for ref, _ in references.named(references.refs())})
    hint = suggestion(base, [*names, "latest"])
    return NotFoundError(f"no checkpoint matches {base!r}. {hint}See `%ckpt ls`")
