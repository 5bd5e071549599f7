"""A trial's page: one trial in full, with its configuration, its metrics and its checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from nbckpt.errors import NbckptError, NotFoundError
from nbckpt.provenance.lines import SHORT, described
from nbckpt.provenance.trial import read_attempts
from nbckpt.render import Column, Fold, Hint, Page, Result, Table, age, count, duration, short, size
from nbckpt.trials.checkpoints.record import Record
from nbckpt.trials.model.log import FILE
from nbckpt.trials.model.metrics import flat, plain
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.model.view import ExperimentView
from nbckpt.trials.views.data import TrialData, trial_data
from nbckpt.trials.views.formats import shown_value
from nbckpt.trials.views.load import load_tables
from nbckpt.trials.views.media import media_page, newest_media
from nbckpt.trials.views.metrics import inferred, metric_cell
from nbckpt.trials.views.statuses import last_line, states_of
from nbckpt.trials.views.takeovers import scheduled, takeovers

_MOST_CHECKPOINTS = 10
_LONGEST_ORIGIN = 100


@dataclass(frozen=True, repr=False)
class TrialShown(Result):
    """One trial in full.

    Attributes:
        experiment: The experiment that the trial belongs to.
        trial: The trial.
        why: Why the trial is shown; it comes before the name in the headline.
        notes: Further sentences below the tables.
        step: Show only the media of this result; None for the newest.
        name: Show only the media of this name; empty for all.
    """

    experiment: ExperimentView
    trial: Trial
    why: str = ""
    notes: tuple[str, ...] = ()
    step: int | None = None
    name: str = ""

    def page(self) -> Page:
        """See `Result.page`."""
        trial = self.trial
        name = f"{self.experiment.name}/{trial.id}"
        state = states_of(self.experiment)[trial.id]
        attempts = f", started {trial.attempts} times" if trial.attempts > 1 else ""
        results = count(trial.iteration, "result")
        headline = f"{self.why}{name}: {state}{attempts}, {results} in {duration(trial.elapsed_s)}"
        failed = trial.error and trial.status == Status.ERROR
        fold = Fold(last_line(trial), trial.traceback or trial.error, open=True)
        records, damages = trial.checkpoints.scan()
        checkpoints = _checkpoints(trial, records[::-1])
        media = media_page(trial, self.step, self.name)
        return Page(
            headline,
            (
                *(self._config(), takeovers(trial), self._metrics()),
                *load_tables(trial),
                checkpoints,
                *media.tables,
            ),
            (
                *self._origin(),
                *self._annotation(),
                *self._note(),
                *scheduled(trial),
                *damages,
                *self.notes,
                *media.notes,
                *provenance_of(trial),
                f"kept in {trial.folder}",
            ),
            ((fold,) if failed else ()) + self._log() + tuple(media.folds),
            tuple(media.pictures),
            hints=(Hint("Restore the newest", f"%ckpt restore {name}"),) if checkpoints.rows else (),
            frames=tuple(media.frames),
        )

    def for_json(self) -> TrialData:
        """Return the trial; see render/json.py."""
        data = trial_data(self.trial, states_of(self.experiment)[self.trial.id])
        chosen = newest_media(self.trial, self.step, self.name)
        provenance: Mapping[str, Any] = {}
        with suppress(NbckptError):  # the page says what is damaged
            provenance = read_attempts(self.trial.folder)[-1].document
        return replace(data, media=tuple(media.for_json() for media in chosen), provenance=provenance)

    def _log(self) -> tuple[Fold, ...]:
        lines = self.trial.log()
        # Open, because a panel that follows the trial redraws it, and would close an opened fold.
        return (Fold(f"last output ({FILE})", "\n".join(lines), open=True),) if lines else ()

    def _origin(self) -> tuple[str, ...]:
        """Return where the checkpoint is from that the trial started from."""
        origin = self.trial.origin
        return (f"It started from {short(origin, _LONGEST_ORIGIN)}.",) if origin else ()

    def _annotation(self) -> tuple[str, ...]:
        """Return the note and the tags that a user gave the trial."""
        annotation = self.trial.annotation
        tags = f"Tags: {', '.join(annotation.tags)}" if annotation.tags else ""
        note = f"Note: {annotation.note}" if annotation.note else ""
        return tuple(filter(None, (tags, note, annotation.damage)))

    def _note(self) -> tuple[str, ...]:
        """Return the trial's damage, and its note if the note says more than the status."""
        note = self.trial.note if self.trial.note not in {"done", "paused"} else ""
        return tuple(filter(None, (self.trial.damage, note)))

    def _config(self) -> Table:
        rows = tuple((key, shown_value(value)) for key, value in flat(plain(self.trial.config)))
        return Table("configuration", (Column("key", code=True), Column("value")), rows)

    def _metrics(self) -> Table:
        names = inferred([self.trial], self.experiment.spec.metric, most=None)
        rows = tuple((name, metric_cell(self.trial, name)) for name in names)
        return Table("metrics", (Column("metric", code=True), Column("last", number=True)), rows)


def provenance_of(trial: Trial) -> tuple[str, ...]:
    """Return what is needed to do the trial again, in four lines, and a warning about uncommitted changes."""
    try:
        attempts = read_attempts(trial.folder)
    except NotFoundError:
        return ()
    except NbckptError as error:
        return (str(error),)
    newest, first = attempts[-1], attempts[0]
    changed = bool(first.code) and first.code["commit"] != newest.code.get("commit")
    earlier = (f"It began at another commit: {first.code['commit'][:SHORT]}",) if changed else ()
    return (*described(newest), *earlier)


def _checkpoints(trial: Trial, records: Sequence[Record]) -> Table:
    rows = tuple(
        (
            f"{trial.id}@{record.step}",
            size(record.size),
            "dict" if record.kind == "fields" else "folder",
            age(record.created_at),
        )
        for record in records[:_MOST_CHECKPOINTS]
    )
    more = f"; {_MOST_CHECKPOINTS} of {len(records)}" if len(records) > _MOST_CHECKPOINTS else ""
    columns = (Column("checkpoint"), Column("size", number=True), Column("kind"), Column("saved"))
    return Table(f"checkpoints, newest first{more}", columns, rows)
