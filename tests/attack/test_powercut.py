"""What a call promised is there after a power cut, when the call has returned."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from attack.powercut import lost
from attack.promises import PROMISES, READING, READS
from nbckpt.commands import TABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def commands(code: str) -> set[str]:
    """Return the commands that a program runs."""
    return {*re.findall(r'\bask(?:\.start|\.cell)?\("(\w+)', code)}


def test_every_writing_command_has_a_power_cut_program() -> None:
    ran = set[str]().union(*map(commands, PROMISES.values()))
    assert ran == set(TABLE) - READING.keys()


@pytest.mark.slow
def test_commands_that_only_read_change_no_file(tmp_path: Path) -> None:
    assert lost(READS, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMISES)
def test_a_power_cut_loses_no_acknowledged_change(tmp_path: Path, name: str) -> None:
    assert lost(PROMISES[name], tmp_path) == []


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
