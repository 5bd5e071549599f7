"""Write docs/guides/objects.md: each row of tests/world, and how it ends with nbckpt, cloudpickle and dill.

    PYTHONPATH=tests python -m world.guide [CHAPTER …]

nbckpt's column is what the table says, and test_world.py proves it. The others are measured. A row
keeps what was measured before if its library is not installed, or other chapters are given.
"""

from __future__ import annotations

import re
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from core.behaviour import WORLD, Row, asked, chapters, installed
from world.peers import PEERS

GUIDE = Path(__file__).parents[2] / "docs/guides/objects.md"
HEAD = """\
# What comes back

Each row is an object that people make in a notebook. A test saves it with nbckpt, changes it, and restores it
in the same kernel and in a new one. It also undoes and redoes the change. Then one expression must give the
same as before.

* **right**: it comes back as it was.
* **named**: the save names it, with the reason. The other variables are saved.
* **not yet**: something comes back wrong, and the save does not say so. The fault is in brackets.

cloudpickle and dill pickle the same variables, and load them in a new kernel. For them, *named* is an
error of `dumps`, and then nothing is saved. They have no undo. Versions: {versions}.

Your object is not in the list? `%ckpt doctor` checks all variables before you need it.
"""


def measured(chapter: str) -> dict[str, list[str]]:
    """Return how each row of a chapter ends with each peer."""
    ends: dict[str, list[str]] = {row.case: [] for row in installed(chapter)}
    with tempfile.TemporaryDirectory() as folder:
        for peer in PEERS:
            saved, loaded = (
                asked(f"{step}_with_{peer}", Path(folder), chapter, "world.peers")
                for step in ("save", "load")
            )
            for case, outcomes in ends.items():
                same = loaded.get(case) == saved[case]
                outcomes.append("named" if "refused" in saved[case] else "right" if same else "not yet")
    return ends


def line(row: Row, peers: list[str]) -> str:
    """Return the line of a row."""
    reason = row.mark.removeprefix("not yet: ") if row.outcome == "not yet" else ""
    return f"| {row.case} | {row.outcome}{f' ({reason})' if reason else ''} | {' | '.join(peers)} |"


def main(chosen: list[str]) -> None:
    """Measure the rows of chapters whose libraries are installed, and write the page."""
    ends = {case: peers for chapter in chosen for case, peers in measured(chapter).items()}
    before = dict(re.findall(r"^\| (.+?) \| .*? \| ([^|]+ \| [^|]+) \|$", GUIDE.read_text(), re.MULTILINE))
    text = HEAD.format(versions=", ".join(f"{peer} {version(peer)}" for peer in PEERS))
    for chapter in chapters(WORLD):
        text += f"\n## {chapter}\n\n| object | nbckpt | {' | '.join(PEERS)} |\n| --- | --- | --- | --- |\n"
        for row in WORLD:
            if row.chapter == chapter:
                text += line(row, ends.get(row.case) or before.get(row.case, "? | ?").split(" | ")) + "\n"
    GUIDE.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or chapters(WORLD))
