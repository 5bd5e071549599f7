"""Programs that change files in the folder `top`. The object `disk` notes what is not synced."""

from __future__ import annotations

SAVE = """
from nbckpt import Tracker
tracker = Tracker(str(top / "new" / "store"))
tracker.save({"a": 1, "large": bytearray(300_000)}, "one")
"""
RUN = """
import nbckpt
from nbckpt.trials import Catalog
def train(config):
    nbckpt.report(loss=1, checkpoint={"i": 1})
e = nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2, 3])}, name="e", executor="inline", folder=top / "x")
e.wait(60)
"""
OWNER = """
import nbckpt, subprocess, sys, threading
def train(config):
    while True:
        nbckpt.report(loss=1, checkpoint={"i": 1})
        threading.Event().wait(0.01)
e = nbckpt.run(train, {"lr": nbckpt.grid_search([1, 2])}, name="e", executor="thread", folder=top / "x")
subprocess.run([sys.executable, "-c", ASK, str(top / "x")], check=True, timeout=60)
e.wait(60)
"""
ASK = """
import sys, threading
from pathlib import Path
from nbckpt.trials import Catalog, Status
e = Catalog(Path(sys.argv[1])).open("e")
e.pause("t0")
while e.trial("t0").status != Status.PAUSED:
    threading.Event().wait(0.01)
    e.refresh()
e.resume("t0")
e.checkpoint("t0")
e.stop()
"""
PROMISES: dict[str, str] = {
    "save": SAVE,
    "tag and rm": SAVE
    + """
tracker.save({"b": 2}, "two")
tracker.tag("two", "best")
disk.look()
tracker.remove(["one"])
""",
    "rm and undo": SAVE + "tracker.save({'b': 2}, 'two')\ntracker.remove(['two'])\ntracker.undo({})\n",
    "rm and gc": SAVE + "tracker.remove(['one'])\ntracker.collect()\n",
    "export": SAVE + "tracker.export('one', top / 'one.ckpt')\n",
    "import": SAVE + "tracker.export('one', top / 'one.ckpt')\n"
    "Tracker(str(top / 'other')).import_file(top / 'one.ckpt')\n",
    "to_directory": """
from nbckpt import Checkpoint
from nbckpt.core.files import FILES
made = Checkpoint.from_dict({"a": 1, FILES: {"x/y": b"1", "z": b"2"}})
made.to_directory(top / "new" / "folder" / "c")
made.to_directory(top / "again")
Checkpoint.from_dict({"a": 2}).to_directory(top / "again", overwrite=True)
""",
    "states": """
import nbckpt
kept = nbckpt.State.of("n", [1])
for _ in range(3):
    nbckpt.save_all_states(top / "new" / "job")
nbckpt.states.save_state(kept, top / "new" / "own")
nbckpt.states.save_state(kept, top / "new" / "own")
""",
    "run": RUN,
    "rm of an experiment": RUN + "Catalog(top / 'x').remove('e')\n",
    "undo of rm of an experiment": RUN + "Catalog(top / 'x').remove('e').bring_back()\n",
    "rm of a trial's checkpoint": RUN + "Catalog(top / 'x').remove('e/t0@1')\n",
    "undo of rm of a trial's checkpoint": RUN + "Catalog(top / 'x').remove('e/t0@1').bring_back()\n",
    "gc of an experiment": RUN
    + """
from nbckpt.trials.trash import empty
Catalog(top / "x").remove("e")
empty(top / "x")
""",
    "trial checkpoints": """
from nbckpt.trials.checkpoints.folder import CheckpointFolder
from nbckpt.trials.checkpoints.record import Record
folder = CheckpointFolder(top / "new" / "t0")
for _ in range(2):
    with folder.staged() as stage:
        (stage / "deep").mkdir()
        (stage / "deep" / "model").write_bytes(b"x")
        (stage / "config").write_bytes(b"y")
        folder.commit(stage, Record("checkpoint_000001", "files", 1))
folder.commit(None, Record("checkpoint_null_1", "null", 0))
""",
    "a request": RUN
    + "from nbckpt.trials.engine import control\ncontrol.ask(e.folder, control.ControlRequest('pause'))\n",
    "another kernel pauses, resumes and stops": f"ASK = {ASK!r}\n{OWNER}",
    "pull": SAVE
    + RUN.replace('top / "x"', 'top / "new" / "store" / "experiments"')
    + """
from nbckpt.mirror import Mirror
from nbckpt.store import LocalStore
def mirror(name):
    return Mirror(LocalStore(top / name), top / name / "experiments", str(top / "url"))
mirror("new/store").push()
mirror("there").pull()
with open(top / "new" / "store" / "experiments" / "e" / "mine.txt", "w") as file:
    file.write("x")
    file.flush()
    import os
    os.fsync(file.fileno())
fd = os.open(top / "new" / "store" / "experiments" / "e", 0)
os.fsync(fd)
mirror("new/store").push()
mirror("there").pull()
""",
    "a plot": """
from matplotlib.figure import Figure
from nbckpt.trials.views.plots.style import write
for _ in range(2):
    write(Figure(), top / "plot.png")
""",
    "sync note": """
from nbckpt.mirror import note
note.write(top / "new" / "store" / "sync.json", note.Note("memory://x", 7))
note.write(top / "new" / "store" / "sync.json", note.Note("memory://y", 7))
""",
    "artifacts": """
from nbckpt.sync.files import FileStat
from nbckpt.trials.executors.artifacts import take_in
(top / "t0").mkdir()
import os
fd = os.open(top, 0)
os.fsync(fd)
take_in(top / "t0", {"a/b.txt": FileStat(1, 0, 0)}, lambda path, start, stop: b"x"[start:stop])
""",
}

ASK_LINES = """
from attack.asking import Asking
ask = Asking(top / "new" / "store", disk)
"""
TRAIN = (
    ASK_LINES
    + """
import nbckpt
def train(config):
    for i in range(2):
        nbckpt.report(loss=i, checkpoint={"i": i})
ask.names["train"] = train
ask("run train --grid lr=1,2 --name e --executor inline")
"""
)
STRANGER = """
import os
own, os.environ["NBCKPT_SECRET_FILE"] = os.environ["NBCKPT_SECRET_FILE"], str(top / "other" / "secret")
"""
SPOILED = (
    ASK_LINES
    + """
ask.names["a"] = ask.noise(500_000)
ask("save one")
ask.start("sync copy")
ask.start("sync --now")
ask.spoil()
"""
)
PROMISES |= {
    "save, tag, rm and undo in a notebook": ASK_LINES
    + """
ask.names["a"] = ask.noise(300_000)
ask("save one")
ask("save two")
ask("tag one best")
ask("rm two")
ask("undo")
ask("restore one")
assert len(ask.tracker.entries()) == 2
""",
    "undo of rm by another process": ASK_LINES
    + """
ask.names["a"] = 1
ask("save one")
ask("rm one")
ask = Asking(top / "new" / "store", disk)
ask("undo")
assert ask.tracker.entries()
""",
    "gc that compacts": ASK_LINES
    + """
ask.names |= {"a": ask.noise(100_000, 1), "b": ask.noise(900_000, 2)}
ask("save both")
ask("save part a")
ask("rm both")
assert ask("gc").collected.rewritten
""",
    "trust of a checkpoint": STRANGER
    + ASK_LINES
    + """
ask.names["a"] = 1
ask("save theirs")
os.environ["NBCKPT_SECRET_FILE"] = own
ask = Asking(top / "new" / "store", disk)
assert ask("trust theirs").signed
""",
    "trust of an experiment": STRANGER
    + TRAIN
    + """
os.environ["NBCKPT_SECRET_FILE"] = own
ask = Asking(top / "new" / "store", disk)
assert len(ask("trust e").experiments) == 5
""",
    "a damaged pack is set aside by verify": SPOILED
    + """
assert ask("verify").exit_status == 2
assert list((top / "new" / "store" / "damaged").iterdir())
""",
    "a damaged pack is set aside by restore": SPOILED
    + """
assert ask("restore one").restored.failed
assert list((top / "new" / "store" / "damaged").iterdir())
""",
    "a save after damage writes the data again": SPOILED
    + """
ask("verify")
ask("save one")
assert ask("verify").exit_status == 0
ask("gc")
assert not list((top / "new" / "store" / "damaged").iterdir())
""",
    "verify --repair": SPOILED
    + """
assert ask("verify --repair").verified.repaired
assert ask("verify").exit_status == 0
""",
    "sync, push and pull": ASK_LINES
    + """
ask.names["a"] = ask.noise(300_000)
ask("save one")
ask("sync copy")
ask("sync --now")
ask("push copy")
ask = Asking(top / "there", disk)
ask("pull copy")
assert ask.tracker.entries()
""",
    "export and import in a notebook": ASK_LINES
    + """
ask.names["a"] = ask.noise(300_000)
ask("save one")
ask("export one one.ckpt")
ask = Asking(top / "there", disk)
ask("import one.ckpt")
""",
    "an exported page": TRAIN
    + """
ask("export e e.html")
ask("export e/t0 t0.md")
ask("export e/t0@1 t0.ckpt")
""",
    "an experiment comes back from the trash": TRAIN
    + """
ask("rm e")
assert not (top / "new" / "store" / "experiments" / "e").exists()
ask("undo")
assert (top / "new" / "store" / "experiments" / "e").exists()
ask("rm e/t0@1")
ask("undo")
ask("tag e/t0@1 step")
ask("rm e")
ask("gc")
""",
    "notes and tags of a trial": TRAIN
    + """
ask("note e/t0 better edges")
ask("tag e/t0 good")
ask("tag e/t0 blue")
ask("untag e/t0 good")
ask("untag e/t0 blue")
""",
    "pause, resume, checkpoint and stop": ASK_LINES
    + """
import nbckpt, threading
def train(config):
    while True:
        nbckpt.report(loss=1, checkpoint={"i": 1})
        threading.Event().wait(0.01)
ask.names["train"] = train
e = ask.start("run train --grid lr=1,2 --name e --executor thread")
ask.start("pause e")
assert e.wait(60)
disk.look()
e = ask.start("resume e")
while any(trial.status != nbckpt.trials.Status.RUNNING for trial in e.trials):
    threading.Event().wait(0.01)
ask.start("checkpoint e")
ask.start("stop e")
assert e.wait(60)
""",
    "a tracked trial": ASK_LINES
    + """
trial = ask.start("track loop lr=1")
for i in range(2):
    trial.report(loss=1, checkpoint={"i": i})
    disk.look()
trial.save({"i": 9})
disk.look()
trial.update_config({"lr": 2})
disk.look()
trial.report(loss=2)
trial.finish()
""",
    "media and provenance of a trial": """
import os
os.environ["NBCKPT_PROVENANCE"] = "1"
import nbckpt
from nbckpt.media import Image
from nbckpt.provenance import background
import numpy as np
def train(config):
    nbckpt.report(loss=1, ramp=Image(np.arange(64, dtype=np.uint8).reshape(8, 8)), checkpoint={"i": 1})
e = nbckpt.run(train, {"lr": 1}, name="e", executor="inline", folder=top / "x")
background.settle()
assert (top / "x" / "e" / "t0" / "provenance.json").exists()
assert len(list((top / "x" / "e" / "media").rglob("*"))) == 1
""",
    "points after cells": ASK_LINES
    + """
ask("auto on --budget 1000000% --keep 3")
for number in range(4):
    ask.point(number=number, noise=ask.noise(200_000, number))
ask("undo")
ask("redo")
ask("save named")
ask.point(number=9)
ask("checkout named")
ask("auto off")
""",
    "the note of a trial is cleared": TRAIN
    + """
ask("note e/t0 better edges")
ask("note e/t0 --clear")
""",
    "the sync is turned off": ASK_LINES
    + """
ask("sync copy")
ask("sync off")
""",
    "gc of removed points": ASK_LINES
    + """
ask("auto on --budget 1000000% --keep 2")
for number in range(5):
    ask.point(noise=ask.noise(300_000, number))
ask("auto off")
assert ask("gc").collected.packs
""",
    # A trial's provenance follows its start in the background.
    "reproduce a trial": "import os\nos.environ['NBCKPT_PROVENANCE'] = '1'\n"
    + TRAIN.replace("ask(", "ask.start(")
    + """
from nbckpt.provenance import background
background.settle(60)
ask("reproduce e/t0 -o again")
""",
    "kept cells": ASK_LINES
    + """
for number in range(7):
    ask.names["k"] = number
    ask.cell("cell prep", "y = [k] * 100_000")
ask.names.pop("y")
assert ask("cell prep", "y = [k] * 100_000").kept
""",
}
READING = {
    "status": "status",
    "ls": "ls --all",
    "show": "show one",
    "diff": "diff one two",
    "history": "history",
    "snippet": "snippet one",
    "trials": "trials e",
    "results": "results e",
    "best": "best e --metric loss --mode min",
    "compare": "compare e/t0 e/t1",
    "plot": "plot e --metric loss",
    "panel": "panel",
    "doctor": "doctor",
    "help": "help ls",
}
"""A line of each command that writes nothing."""

READS = (
    TRAIN
    + "ask.names['a'] = 1\nask('save one')\nask.names['a'] = 2\nask('save two')\n"
    + "".join(f"ask.read({line!r})\n" for line in READING.values())
)
