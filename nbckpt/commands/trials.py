"""run, trials, pause, stop, checkpoint, resume, best, plot: run experiments and look at their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nbckpt.commands import values
from nbckpt.commands.meaning import is_trial
from nbckpt.commands.table import Command, Option, Session, option, switch
from nbckpt.errors import Interrupted, NbckptError, UsageError
from nbckpt.render import Hint, Page, Result
from nbckpt.sync import SyncConfig
from nbckpt.trials.catalog import Catalog
from nbckpt.trials.engine.experiment import Experiment
from nbckpt.trials.model.space import grid_search
from nbckpt.trials.model.stopping import Stop
from nbckpt.trials.model.trial import Status, Trial
from nbckpt.trials.run import run as run_experiment
from nbckpt.trials.views.curves import Curves, curves
from nbckpt.trials.views.statuses import CUT, counted, states_of
from nbckpt.trials.views.table import MOST_ROWS, TrialTable
from nbckpt.trials.views.trial_page import TrialShown

_MOST_OTHERS = 10


def run(
    session: Session,
    function: str,
    config: Sequence[str],
    grid: Sequence[str],
    stop: Sequence[str],
    resume: Any,
    sync: str,
    wait: bool,  # noqa: FBT001  argparse passes it by name
    **options: Any,
) -> Experiment:
    """Run a function, once for every configuration, in the background; the same --name continues it."""
    namespace = session.namespace
    found = values.find_function(function, namespace)
    grids = {key: grid_search(those) for key, those in values.lists(grid, namespace).items()}
    experiment = run_experiment(
        found,
        values.with_lists(values.assignments(config, namespace), grids),
        stop=_stop(stop, session),
        resume=resume,
        folder=session.library.folder,
        sync_config=SyncConfig(upload_dir=sync) if sync else None,
        **options,
    )
    return _under_way(session, experiment, wait=wait)


def _stop(words: Sequence[str], session: Session) -> Stop:
    """Return the condition for `--stop loss=0.1`, or for `--stop 60`, which means seconds."""
    if len(words) == 1 and "=" not in words[0]:
        stop: Stop = values.evaluate(words[0], session.namespace, f"--stop {words[0]}")
        return stop
    return values.assignments(words, session.namespace) or None


def _under_way(session: Session, experiment: Experiment, *, wait: bool) -> Experiment:
    """Show a started experiment. Wait for its end with --wait, and always in a shell."""
    waits = wait or session.namespace is None
    try:
        if session.watch is not None:
            session.watch(experiment, experiment)
        if waits:
            experiment.wait()
    except KeyboardInterrupt:
        if not waits:
            raise
        experiment.rest()
        raise Interrupted(_interrupted(experiment)) from None
    finally:
        if waits and session.watch is not None:
            session.watch(experiment, experiment)
    return experiment


def _interrupted(experiment: Experiment) -> str:
    states = states_of(experiment)
    if set(states.values()) & {Status.PAUSED, Status.RUNNING}:
        return f"interrupted: {counted(states)}. Resume: %ckpt resume {experiment.name}"
    return f"interrupted: {counted(states)}. Show: %ckpt trials {experiment.name}"


def trials(
    session: Session,
    experiment: str,
    most: int,
    sort: bool,  # noqa: FBT001  argparse passes it by name
    columns: str,
    **options: Any,
) -> TrialTable:
    """Show the trials of an experiment, the newest by default, and what other experiments there are."""
    library = session.library
    found = library.open(experiment) if experiment else library.newest_whole()
    sort = sort or bool(options["metric"] or options["mode"])
    table = found.table(columns.split(",") if columns else None, most=most, sort=sort, **options)
    if not experiment:
        table = replace(table, others=_others(library, found.name))
    if session.watch is not None and found.running:
        session.watch(table, found)
    return table


def _others(library: Catalog, name: str) -> tuple[tuple[str, str], ...]:
    """Return a row for each other experiment, newest first."""
    names = [it for it in reversed(library.names()) if it != name]
    rows = []
    for other in names[:_MOST_OTHERS]:
        try:
            rows.append((other, counted(states_of(library.open(other)))))
        except NbckptError as error:
            rows.append((other, str(error)))
    if len(names) > _MOST_OTHERS:
        rows.append(("…", f"{len(names) - _MOST_OTHERS} more"))
    return tuple(rows)


@dataclass(frozen=True, repr=False)
class Asked(Result):
    """The request that was sent to trials, as text, and the next command."""

    what: str
    hint: Hint

    def page(self) -> Page:
        """See `Result.page`."""
        return Page(self.what, hints=(self.hint,))


def pause(session: Session, target: str) -> Asked:
    """Pause an experiment or one trial, each after its next result; resume continues it."""
    return _ask(session, target, "pause")


def stop(session: Session, target: str) -> Asked:
    """Stop an experiment or one trial, each after its next result; a stopped trial is finished."""
    return _ask(session, target, "stop")


def checkpoint(session: Session, target: str) -> Asked:
    """Have an experiment or one trial save a checkpoint, each with its next result, and go on."""
    return _ask(session, target, "checkpoint")


def _ask(session: Session, target: str, verb: Literal["pause", "stop", "checkpoint"]) -> Asked:
    experiment, trial = _target(session.library, target)
    name = experiment.name if trial is None else f"{experiment.name}/{trial.id}"
    states = states_of(experiment)
    asked = [it for it in (experiment.trials if trial is None else [trial]) if _can(verb, it, states)]
    if not asked:
        raise UsageError(f"there is nothing to {verb} in {name}: {counted(states)}")
    running = [it for it in asked if it.status == Status.RUNNING and states[it.id] != CUT]
    getattr(experiment, verb)(trial)
    names = ", ".join(it.id for it in asked[:8]) + (", …" if len(asked) > 8 else "")
    what = {
        "pause": f"pausing {names} of {experiment.name}",
        "stop": f"stopping {names} of {experiment.name}",
        "checkpoint": f"{names} of {experiment.name} {'save' if len(asked) > 1 else 'saves'} a checkpoint",
    }[verb]
    after = ", with the next result" if verb == "checkpoint" else ", after the next result" if running else ""
    resume = Hint("Resume", f"%ckpt resume {name}")
    hint = resume if verb == "pause" else Hint("Show", f"%ckpt trials {experiment.name}")
    return Asked(f"{what}{after}", hint)


def _can(verb: str, trial: Trial, states: Mapping[str, str]) -> bool:
    if verb == "checkpoint":
        return trial.status == Status.RUNNING and states[trial.id] != CUT
    return not trial.finished and not (verb == "pause" and trial.status == Status.PAUSED)


def resume(
    session: Session,
    target: str,
    errored: bool,  # noqa: FBT001  argparse passes these by name
    trust: bool,  # noqa: FBT001
    wait: bool,  # noqa: FBT001
) -> Experiment:
    """Resume what is paused or interrupted from its last checkpoint, also after a restart."""
    experiment, trial = _target(session.library, target)
    if session.namespace is None:
        values.add_working_folder()
    experiment.resume(trial, errored=errored, trust=trust)
    return _under_way(session, experiment, wait=wait)


def best(session: Session, experiment: str, metric: str, mode: str) -> TrialShown:
    """Show the trial with the best last value of a metric."""
    found = session.library.open(experiment)
    metric, mode = metric or found.spec.metric, mode or found.spec.mode
    if not metric or not mode:
        raise UsageError("say what is best: best --metric loss --mode min, or --mode max")
    trial = found.best(metric, mode)
    return TrialShown(found, trial, f"best of {found.name} by {metric} ({mode}): ")


def plot(session: Session, targets: Sequence[str], metric: str, mode: str) -> Curves:
    """Draw how a metric went, a line for each trial: all of an experiment, or those that are named."""
    library, words = session.library, list(targets)
    first = words.pop(0) if words and (words[0] in library.names() or not is_trial(words[0])) else ""
    pairs = [word.rpartition("/")[::2] for word in words]
    places = {place for place, _ in pairs if place} | ({first} if first else set())
    if len(places) > 1:
        raise UsageError(f"{', '.join(sorted(places))} are different experiments: draw one at a time")
    experiment = library.open(places.pop() if places else "")
    return curves(experiment, metric, [trial for _, trial in pairs] or None, mode)


def _target(library: Catalog, target: str) -> tuple[Experiment, Trial | None]:
    """Return the experiment and the trial that a word refers to; by default the newest experiment."""
    if not target or target in library.names():
        return library.open(target), None
    return library.trial(target)


_TARGET = option(
    "target",
    nargs="?",
    default="",
    metavar="EXP|TRIAL",
    kind="trial",
    help="an experiment, a trial of the newest one (t3) or EXP/t3; by default the newest experiment",
)
_EXPERIMENT = option(
    "experiment",
    nargs="?",
    default="",
    metavar="EXP",
    kind="experiment",
    help="which experiment; by default the newest",
)
_METRIC = option(
    "--metric", default="", metavar="M", help="by which trials are compared; a/b for b in the dict a"
)
_MODE = option("--mode", default="", choices=("min", "max"), help="which of its values is best")
_WAIT = switch(
    "--wait", help="wait until no trial runs; an interrupt pauses them all, a second one stops them"
)


def _many(*flags: str, help: str, metavar: str = "k=v") -> Option:  # noqa: A002  argparse's word
    return option(*flags, help=help, metavar=metavar, action="append", default=[])


COMMANDS = (
    Command(
        "run",
        run,
        (
            option(
                "function",
                metavar="FUNC",
                kind="function",
                help="a function or Trainable class; module:function or file.py:function",
            ),
            option(
                "config",
                nargs="*",
                metavar="k=v",
                help="its configuration: Python literals or names of variables",
            ),
            _many("--grid", metavar="k=a,b", help="try each of these values, with those of every other grid"),
            option(
                "--samples",
                dest="num_samples",
                type=int,
                default=1,
                metavar="N",
                help="the whole grid N times",
            ),
            option("--executor", default="thread", metavar="E", help="thread, process, ray or inline"),
            option(
                "--name", default="", metavar="NAME", help="the experiment's name; the same again goes on"
            ),
            _many("--stop", help="end a trial at this value of a metric, or after N seconds"),
            option(
                "--concurrent", dest="max_concurrent", type=int, metavar="N", help="how many run side by side"
            ),
            option(
                "--failures",
                dest="max_failures",
                type=int,
                default=0,
                metavar="N",
                help="how often a failed trial begins anew",
            ),
            option(
                "--keep",
                dest="keep_checkpoints",
                type=int,
                metavar="N",
                help="how many checkpoints of each trial are kept; all by default",
            ),
            option("--sync", default="", metavar="URL", help="send the trials there while they run, too"),
            option(
                "--every",
                dest="checkpoint_every",
                type=int,
                default=0,
                metavar="N",
                help="save a Trainable, or a function's states, after every N results",
            ),
            _METRIC,
            _MODE,
            option(
                "--resume",
                default="auto",
                choices=("auto", "must", "never"),
                help="whether there must or must not be an experiment of this name",
            ),
            _WAIT,
        ),
    ),
    Command(
        "trials",
        trials,
        (
            _EXPERIMENT,
            option(
                "-n",
                "--most",
                type=int,
                default=MOST_ROWS,
                metavar="N",
                help=f"how many rows at most ({MOST_ROWS}); 0: all",
            ),
            option("--page", type=int, default=0, metavar="K", help="page K, in order"),
            switch("--sort", help="the best trial first, by the experiment's metric and mode or these:"),
            _METRIC,
            _MODE,
            option("--columns", default="", metavar="M,M", help="the metrics to show"),
        ),
    ),
    Command("pause", pause, (_TARGET,)),
    Command("stop", stop, (_TARGET,)),
    Command("checkpoint", checkpoint, (_TARGET,)),
    Command(
        "resume",
        resume,
        (
            _TARGET,
            switch("--errored", help="with what failed, too"),
            switch("--trust", help="load the function and the checkpoints even if someone else wrote them"),
            _WAIT,
        ),
    ),
    Command("best", best, (_EXPERIMENT, _METRIC, _MODE)),
    Command(
        "plot",
        plot,
        (
            option(
                "targets",
                nargs="*",
                metavar="EXP|TRIAL",
                kind="trial",
                help="an experiment, by default the newest, and which of its trials, by default the best 20",
            ),
            option("--metric", default="", metavar="M", help="what to draw; a/b for b in the dict a"),
            _MODE,
        ),
    ),
)
