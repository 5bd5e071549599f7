"""JSON from a file or another machine is checked before it is used."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbckpt.core.schema import CHECKSUM, OneOf, check, read, seal, unseal
from nbckpt.errors import CorruptError

FORM = {
    "format": int,
    "name": re.compile("[a-z]+"),
    "size?": OneOf(int, None),
    "rate?": float,
    "on?": bool,
    "files?": {str: (int, str)},
    "tags?": [str],
    "rest?": object,
}
WHOLE: dict[str, Any] = {
    "format": 2,
    "name": "net",
    "size": None,
    "rate": 1,
    "on": True,
    "files": {"a/b": [3, "ff"]},
    "tags": ["x", "y"],
    "rest": [{"deep": None}],
    "unknown": 1,
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_a_valid_document_is_returned_unchanged() -> None:
    assert read(json.dumps(WHOLE).encode(), FORM, "it") == WHOLE


def test_an_error_names_the_field_and_the_expected_type(subtests: pytest.Subtests) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"name": "Net"}, "name is not a text like [a-z]+"),
        ({"name": 3}, "name is not a text like [a-z]+"),
        ({"size": "3"}, "size is not a count or null"),
        ({"size": -1}, "size is not a count or null"),
        ({"size": 1 << 63}, "size is not a count or null"),
        ({"size": True}, "size is not a count or null"),
        ({"rate": "fast"}, "rate is not a number"),
        ({"on": 1}, "on is not true or false"),
        ({"files": {"a": [1]}}, "files['a'] is not a list of 2"),
        ({"files": {"a": [1, 2]}}, "files['a'][1] is not a text"),
        ({"files": []}, "files is not an object"),
        ({"tags": ["x", 1]}, "tags[1] is not a text"),
        ({"tags": "x"}, "tags is not a list"),
    ]
    for change, message in wrong:
        with (
            subtests.test(**change),
            pytest.raises(CorruptError, match=re.escape(f"it is damaged: {message}")),
        ):
            check(WHOLE | change, FORM, "it")


def test_a_missing_field_is_named() -> None:
    with pytest.raises(CorruptError, match="name is not there"):
        check({"format": 1}, FORM, "it")


def test_invalid_json_is_refused(subtests: pytest.Subtests) -> None:
    for data in (b"", b"{", b"\xff", b"[" * 200_000, b'"\\ud800', b"nul"):
        with subtests.test(data=data[:9]), pytest.raises(CorruptError):
            read(data, object, "it")


@given(_JSON)
def test_any_invalid_document_is_refused(document: Any) -> None:
    with suppress(CorruptError):
        assert check(document, FORM, "it") is document


def test_a_sealed_document_can_be_unsealed() -> None:
    assert unseal(seal(WHOLE), FORM, "it") == WHOLE


@given(st.data())
def test_a_changed_byte_in_a_sealed_document_is_found(data: st.DataObject) -> None:
    sealed = bytearray(seal(WHOLE))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] = data.draw(st.integers(0, 255))
    try:
        assert unseal(bytes(sealed), FORM, "it") == WHOLE  # only white space changed
    except CorruptError:
        assert bytes(sealed) != seal(WHOLE)


@pytest.mark.parametrize("at", [0, 1, 40])
def test_a_misplaced_colon_in_a_checksum_is_damage(at: int) -> None:
    sealed = seal(WHOLE)
    first = sealed.index(b": ", sealed.index(CHECKSUM.encode())) + 3
    with pytest.raises(CorruptError, match="is not a text like"):
        unseal(sealed[: first + at] + b":" + sealed[first + at + 1 :], FORM, "it")


def test_format_1_has_no_checksum_and_format_2_must_have_one() -> None:
    assert unseal(b'{"format": 1, "name": "net"}', FORM, "it") == {"format": 1, "name": "net"}
    with pytest.raises(CorruptError, match="it has no checksum"):
        unseal(b'{"format": 2, "name": "net"}', FORM, "it")
