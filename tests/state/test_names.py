"""Names of states: any text is one, each has a file of its own, and none leads out of the folder."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import nbckpt
from nbckpt.states.folder import StateFolder
from nbckpt.states.save import file_name
from state.conftest import Number, restarted

ODD = [
    *("", ".", "..", "...", "../../x", "/etc/passwd", "x/y", "x\\y", "C:\\x", "c:x", "~", "~root", "a~b"),
    *("con", "CON", "nul", "nul.txt", "com1", "lpt9.x", "aux ", "aux.", "con.state", "conin$"),
    *("a", "A", "ä", "a\u0308", "ß", "ss", "ſ", "İ", "i\u0307", "K", "k", "ﬁ", "fi"),  # noqa: RUF001  are alike
    *(" a", "a ", "a.", "a\n", "a\0", "\x7f", "*?<>|\"'", "%41", "\ud800", "\udfff\ud800", "-rf", "$(x)"),
    *("a" * 80, "a" * 81, "a" * 82, "é" * 300, "x" * 100_000),
    *("manifest.json", "manifest", "n.state", ".nbckpt-tmp"),
]
# With what systems do not tell apart close together.
texts = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(categories=None), max_size=30),
    st.text("aAbB.~_-/\\ä1", max_size=6),
)


def folded(file: str) -> str:
    """Return what is equal for files that some system does not tell apart."""
    return unicodedata.normalize("NFKC", file.casefold()).casefold().rstrip(". ")


@pytest.mark.slow
@settings(max_examples=500)
@given(texts, texts)
def test_two_names_never_share_a_file_on_any_system(one: str, other: str) -> None:
    assume(one != other)
    assert folded(file_name(one)) != folded(file_name(other))


def test_no_two_odd_names_share_a_file() -> None:
    names = defaultdict(list)
    for name in ODD:
        names[folded(file_name(name))].append(name)
    assert [alike for alike in names.values() if len(alike) > 1] == []


@pytest.mark.slow
@settings(max_examples=500)
@given(texts)
def test_every_file_name_is_valid_and_safe_on_every_system(name: str) -> None:
    file = file_name(name)
    assert re.fullmatch(r"[a-z0-9._~-]{0,94}\.state", file)
    assert PurePosixPath(file).name == PureWindowsPath(file).name == file
    assert not PureWindowsPath(file).is_reserved()


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@example(ODD)
@given(st.lists(texts, min_size=1, max_size=5, unique=True))
def test_states_with_any_names_load_their_own_values(tmp_path: Path, names: list[str]) -> None:
    job = tmp_path / "job"
    with nbckpt.states.use_folder(job):
        kept = [Number(name, value) for value, name in enumerate(names)]
        nbckpt.save_all_states()
        for state in kept:
            state.close()
    assert [restarted(job, name) for name in names] == [(True, value) for value in range(len(names))]
    assert [entry.name for entry in tmp_path.iterdir()] == ["job"]
    newest = StateFolder(job).newest()
    assert newest is not None
    assert len(list(newest.folder.glob("*.state"))) == len(names)


def test_a_plain_name_is_also_the_file_name() -> None:
    names = ["model", "step-1", "epoch_2", ".adaptdl-epoch", "v1.0"]
    assert list(map(file_name, names)) == [f"{name}.state" for name in names]


def test_an_odd_name_is_recognizable_in_its_file_name() -> None:
    assert file_name("Model/Encoder 1").startswith("model_encoder_1~")
