"""find_trials: the trials of all experiments of a store, a folder or a URL, as a frame."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nbckpt.errors import CorruptError, NbckptError, NotFoundError, UsageError
from nbckpt.store import PrefixStore, Store, local_folder, open_store
from nbckpt.sync.download import download
from nbckpt.sync.target import index_of
from nbckpt.sync.transfer import TransferOptions
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine.sheets import (
    EXPERIMENTS,
    prefixes_there,
    read_sheets,
    sheet_at,
    sheet_now,
    trials_of,
)
from nbckpt.trials.home import experiments_folder, inside_store
from nbckpt.trials.model import annotation, journal, params, spec_file
from nbckpt.trials.model.frame import beside, pandas_for
from nbckpt.trials.model.metrics import flat
from nbckpt.trials.model.trial import Trial
from nbckpt.trials.model.where import Where
from nbckpt.trials.views.fields import fields, own_fields
from nbckpt.trials.views.statuses import states_of

if TYPE_CHECKING:
    import pandas

_READ = {spec_file.FILE, params.FILE, journal.FILE, annotation.FILE}

_log = logging.getLogger("nbckpt")


def find_trials(path_or_url: str | os.PathLike[str] | None = None, where: str = "") -> pandas.DataFrame:
    """Return the trials of all experiments as a frame: a row for each trial that passes the filter.

    The columns are the trial's own fields (`experiment`, `trial`, `status`, `iteration`, `elapsed_s`, `note`,
    `tags` and others), its last metrics, and its configuration under `config/`. A metric with the name of
    such a field is under `metrics/`. Checkpoints and media are not read. An experiment that cannot be read
    is left out, and the log says so. While a run uploads its trials to the URL, they are as they were when it
    began its newest upload.

    Args:
        path_or_url: A store's folder, a folder of experiments, or the URL of a store or of an `upload_dir`;
            by default the store.
        where: A filter such as `lr < 0.1 and tag == 'good'`: comparisons, `and`, `or`, `not`, `in`, names and
            constants. A name is a metric, a value of the configuration or a field; `a.b` is b in the dict a.
            A comparison with a value that a trial does not have is false.

    Raises:
        UsageError: The filter cannot be read, no trial has one of its names, or pandas is not installed.
        StoreError: The storage failed.

    Examples:
        >>> for lr in (0.1, 0.3):
        ...     with nbckpt.track("baseline", lr=lr) as run:
        ...         run.report(loss=lr / 2)
        >>> nbckpt.find_trials(where="loss < 0.1")["trial"].to_list()
        ['t0']
    """
    pandas = pandas_for("find_trials()")
    test = Where(where) if where.strip() else None
    _check_no_filter(path_or_url)
    rows = _listed(path_or_url)
    if rows is None:
        with _catalogs(path_or_url) as catalogs:
            rows = [row for catalog in catalogs for row in _rows(catalog)]
    values = [fields(trial, own, test.names) for trial, own in rows] if test is not None else []
    if test is not None and values:
        test.check(name for row in values for name in row)
        rows = [row for row, given in zip(rows, values, strict=True) if test.matches(given)]
    return pandas.DataFrame([_columns(trial, own) for trial, own in rows])


def _check_no_filter(path_or_url: str | os.PathLike[str] | None) -> None:
    """Refuse a filter in the place of the folder: no trial would be found there."""
    given = path_or_url if isinstance(path_or_url, str) else ""
    folder = local_folder(given) if {*"<>="} & {*given} else None
    if folder is not None and not folder.exists():
        advice = f"For a filter write find_trials(where={given!r})"
        raise UsageError(f"the folder {given!r} does not exist. {advice}")


def _listed(path_or_url: str | os.PathLike[str] | None) -> list[tuple[Trial, dict[str, Any]]] | None:
    """Return each trial at a URL with its own fields, from the sheets there; None if there are none."""
    if path_or_url is None or local_folder(path_or_url) is not None:
        return None
    target = open_store(path_or_url)
    sheets = read_sheets(target)
    if not sheets.exist:
        return None
    folders = sorted({*sheets.sheets, *sheets.changing}, key=lambda folder: "/" in folder)
    by_name = {folder.rpartition("/")[2]: folder for folder in folders}  # pushed ones before synced ones
    work = TransferOptions().work(target.url)
    rows = []
    for _, folder in sorted(by_name.items()):
        try:
            trials = list(trials_of(folder, sheet_now(target, sheets, folder, work)))
        except CorruptError:
            trials = list(trials_of(folder, sheet_at(PrefixStore(target, folder), work, {})))
        rows += [(trial, own_fields(trial, status, said)) for trial, status, said in trials]
    return rows


@contextmanager
def _catalogs(path_or_url: str | os.PathLike[str] | None) -> Iterator[list[Catalog]]:
    """Provide the experiments at a place. Those at a URL are read into a temporary folder."""
    if path_or_url is None:
        yield [Catalog(inside_store(experiments_folder()))]
        return
    folder = local_folder(path_or_url)
    if folder is not None:
        yield [Catalog(folder.absolute() / EXPERIMENTS), Catalog(folder.absolute())]
        return
    with TemporaryDirectory(prefix="nbckpt-find-") as name:
        _fetch(open_store(path_or_url), Path(name))
        yield [Catalog(Path(name))]


def _fetch(target: Store, folder: Path) -> None:
    """Copy what describes the experiments at a URL, without checkpoints and other files."""
    options = TransferOptions()
    for name, prefix in prefixes_there(target).items():
        there = PrefixStore(target, prefix)
        try:
            paths = index_of(there, options.work(there.url)).items
            others = [glob.escape(path) for path in paths if path.rpartition("/")[2] not in _READ]
            download(there, folder / name, exclude=others, options=options)
        except NotFoundError as error:
            _log.warning("%s is left out: %s", name, error)


def _rows(catalog: Catalog) -> Iterator[tuple[Trial, dict[str, Any]]]:
    """Yield each trial with its own fields."""
    for name in catalog.names():
        try:
            experiment = catalog.open(name)
            states = states_of(experiment)
        except NbckptError as error:
            _log.warning("%s is left out: %s", name, error)
            continue
        for trial in experiment.trials:
            yield trial, own_fields(trial, states[trial.id], trial.annotation)


def _columns(trial: Trial, own: Mapping[str, Any]) -> dict[str, Any]:
    config = {f"config/{name}": value for name, value in flat(trial.config)}
    return {**own, **beside({**own, **config}, dict(flat(trial.metrics))), **config}
