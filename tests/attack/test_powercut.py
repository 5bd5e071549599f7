"""What a call promised is there after a power cut, when the call has returned."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from attack.powercut import lost

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

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
PROMISES = {
    "save": SAVE,
    "tag and rm": SAVE + "tracker.save({'b': 2}, 'two')\ntracker.remove(['one'])\n",
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
    "sync note": """
from nbckpt.mirror import note
note.write(top / "new" / "store" / "sync.json", note.Note("memory://x", 7))
note.write(top / "new" / "store" / "sync.json", note.Note("memory://y", 7))
""",
    "trust": SAVE + "tracker.trust(['one'])\n",
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


@pytest.mark.slow
@pytest.mark.parametrize("code", PROMISES.values(), ids=PROMISES)
def test_a_power_cut_loses_no_acknowledged_change(tmp_path: Path, code: str) -> None:
    assert lost(code, tmp_path) == []


@pytest.mark.parametrize(
    ("code", "unsynced"),
    [
        ("(top / 'a').write_bytes(b'x')", ["the data of a was not synced", "the name a was not synced"]),
        ("(top / 'a').mkdir()", ["the name a was not synced"]),
        (
            "from nbckpt.store.fsync import sync_folder\n"
            "(top / 'b').write_bytes(b'x')\n(top / 'b').replace(top / 'a')\nsync_folder(top)",
            ["a was named before b was synced", "the data of a was not synced"],
        ),
        (
            "from nbckpt.store.files import *\nwrite_file(top / 'a' / 'b', b'x')\n"
            "(top / 'a').rename(top / 'c')\n(top / 'c' / 'b').unlink()",
            [
                "c/b was removed before its new name was synced",
                "the name c was not synced",
                "the removal of a was not synced",
                "the removal of c/b was not synced",
            ],
        ),
        ("from nbckpt.store.files import *\nwrite_file(top / 'a' / 'b', b'x')", []),
    ],
)
def test_the_check_detects_unsynced_files(tmp_path: Path, code: str, unsynced: list[str]) -> None:
    assert lost(code, tmp_path) == unsynced
