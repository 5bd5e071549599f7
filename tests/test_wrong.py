"""docs/wrong.md, "When something goes wrong", has every kind of error, and every message with a cause."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from syntax import nodes

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/wrong.md").read_text()
MODULES = sorted((ROOT / "nbckpt").rglob("*.py"))
PARTS = {
    heading: re.findall("`([^`]+)`", " ".join(re.findall(r"^You see: (.*)$", text, re.M)))
    for heading, text in re.findall(r"^##+ (.*)\n((?:(?!##).*\n)*)", PAGE, re.M)
}
"""The phrases of each part of the page, by its heading."""
PHRASES = [phrase for phrases in PARTS.values() for phrase in phrases]
SELF_EXPLAINING = {"UsageError", "NotFoundError"}
"""Errors that say what to write instead: each is about a word that the user has just written."""


@cache
def kinds() -> set[str]:
    """Return the names of the public errors: NbckptError, and what derives from it."""
    bases = {
        node.name: {getattr(base, "attr", getattr(base, "id", "")) for base in node.bases}
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.ClassDef)
    }
    errors, before = {"NbckptError"}, set[str]()
    while errors != before:
        before, errors = errors, errors | {name for name, above in bases.items() if above & errors}
    return {name for name in errors if not name.startswith("_")}


@cache
def messages() -> list[tuple[str, str]]:
    """Return the place and the message of each error that names a cause; `…` stands for a value."""
    names = kinds() - SELF_EXPLAINING - {"NbckptError"}
    causes = list[tuple[str, str]]()
    for path in MODULES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in names and len(re.findall(r"\w+", text := literal(node.args[0]))) > 1:
                    causes.append((f"{path.relative_to(ROOT)}:{node.lineno}", text))
    return causes


def literal(node: ast.expr) -> str:
    """Return the text of a message; "" if it is made elsewhere."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def matches(phrase: str, message: str) -> bool:
    """Tell whether a phrase is in a message; its `…` stands for anything."""
    return re.search(".*".join(map(re.escape, phrase.split("…"))), message) is not None


def leads_to(message: str) -> set[str]:
    """Return the parts of the page that a message leads to; of two phrases, the longer one counts."""
    seen = {phrase for phrase in PHRASES if matches(phrase, message)}
    best = {phrase for phrase in seen if not any(phrase != longer and phrase in longer for longer in seen)}
    return {heading for heading, phrases in PARTS.items() if best & {*phrases}}


def test_the_page_has_every_kind_of_error() -> None:
    assert len(kinds()) > 12
    missing = [name for name in kinds() - {"NbckptError"} if f"[`{name}`](#" not in PAGE]
    assert missing == []


def test_the_page_has_every_message_that_names_a_cause() -> None:
    causes = messages()
    assert len(causes) > 120
    assert [each for each in causes if not any(matches(phrase, each[1]) for phrase in PHRASES)] == []


def test_each_phrase_of_the_page_is_in_a_message() -> None:
    causes = [message for _, message in messages()]
    assert len(PHRASES) > 50
    assert [phrase for phrase in PHRASES if not any(matches(phrase, cause) for cause in causes)] == []


def test_each_message_leads_to_one_part_of_the_page() -> None:
    parts = {message: leads_to(message) for _, message in messages()}
    assert {message: several for message, several in parts.items() if len(several) > 1} == {}


def test_a_message_that_the_page_does_not_have_is_found() -> None:
    assert matches("the secret … is too short", "the secret … is too short. Delete it")
    assert not any(matches(phrase, "the moon is in the wrong place") for phrase in PHRASES)


def test_a_message_that_leads_to_two_parts_is_found() -> None:
    assert leads_to("it was cancelled") == {"It took too long"}
    assert leads_to("gc ran on it, and the disk is missing") == {
        "Somebody else is writing there",
        "Something is damaged",
    }
