"""Schema: checks JSON from a file or another machine before it is used.

A *form* says what a document must look like:

    str, bool, float, int, list, dict    a value of this type; an int is a count below 2**63
    re.compile("[0-9a-f]{64}")           a text that matches as a whole
    None, object                         null; anything
    [form], (form, form), {str: form}    a list of any length; a list of exactly these; texts to values
    (form, other, ...)                   a list of the first, then any number of the other
    {"name": form, "note?": form}        an object with these names; those with ? are optional
    OneOf(form, form)                    a value that has one of these forms

An object may have names that its form does not contain, because a later version may add some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nbckpt.core.algorithms import PREFERRED, of_checksum
from nbckpt.errors import CorruptError, FormatError

CHECKSUM = "checksum"
SEALED = 2
"""The format number of sealed documents."""
MOST_NESTED = 100
"""The deepest nesting of lists and objects that is accepted."""

_MOST_COUNTED = 1 << 63
_CHECKSUM_FORM = re.compile("([a-z0-9][a-z0-9-]*:)?[0-9a-f]{64}")


class OneOf:
    """A form for a value that has one of several forms."""

    def __init__(self, *forms: Any) -> None:
        self.forms = forms


def read(data: bytes, form: Any, label: str) -> Any:
    """Return the JSON document in *data* after checking its form.

    Args:
        data: The text in UTF-8.
        form: The form that it must have.
        label: The name of the document in errors.

    Raises:
        CorruptError: It is not JSON, or has another form. The message names the place in it.
    """
    return check(parse(data, label), form, label)


def parse(data: bytes, label: str) -> Any:
    """Return a JSON document of any form.

    Raises:
        CorruptError: It is not JSON, or it is nested too deeply.
    """
    try:
        document = json.loads(data)
    except ValueError as error:
        raise CorruptError(f"{label} is damaged: it is not JSON ({error})") from None
    except RecursionError:
        raise _too_deep(label) from None
    if data.count(b"[") + data.count(b"{") > MOST_NESTED and _depth(document) > MOST_NESTED:
        raise _too_deep(label)
    return document


def check(document: Any, form: Any, label: str) -> Any:
    """Return *document* after checking its form.

    Raises:
        CorruptError: It has another form. The message names the place in it.
    """
    if mismatch := _mismatch(document, form):
        where = mismatch[0].removeprefix(".") or "the document"
        raise CorruptError(f"{label} is damaged: {where} is not {mismatch[1]}")
    return document


def seal(document: Mapping[str, Any], *, in_lines: bool = True) -> bytes:
    """Return an object as JSON with a checksum of everything else in it, for `unseal`.

    Args:
        document: The object.
        in_lines: Whether each part gets a line, for people to read. Otherwise the result is one line.
    """
    checksum = PREFERRED.checksum([_canonical(document)])
    return json.dumps({**document, CHECKSUM: checksum}, indent=1 if in_lines else None).encode()


def unseal(data: bytes, form: Any, label: str) -> Any:
    """Return an object that `seal` wrote, without its checksum.

    A document of format 1 had no checksum and is accepted without one.

    Raises:
        CorruptError: It was changed after it was written, or has another form.
        FormatError: A newer nbckpt wrote it, or its digest is not available here.
    """
    document = check(parse(data, label), {"format": int}, label)
    if document["format"] > SEALED:
        raise FormatError(
            f"{label} has format {document['format']}, this nbckpt reads {SEALED}. To read it, upgrade nbckpt"
        )
    checksum = document.pop(CHECKSUM, None)
    if checksum is None and document["format"] != 1:
        raise CorruptError(f"{label} is damaged: it has no {CHECKSUM}")
    if checksum is not None:
        check(checksum, _CHECKSUM_FORM, f"{label} ({CHECKSUM})")
        if of_checksum(checksum, label).checksum([_canonical(document)]) != checksum:
            raise CorruptError(f"{label} is damaged: its contents do not match its {CHECKSUM}")
    return check(document, form, label)


def _too_deep(label: str) -> CorruptError:
    return CorruptError(f"{label} is damaged: it is nested too deeply")


def _depth(document: Any) -> int:
    """Return the nesting depth of lists and objects, without recursion."""
    depth, level = 0, [document]
    while level := [value for value in level if isinstance(value, (dict, list))]:
        depth += 1
        level = [item for value in level for item in (value.values() if isinstance(value, dict) else value)]
    return depth


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Return the same bytes for the same object, whatever the layout of its file."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _mismatch(value: Any, form: Any) -> tuple[str, str] | None:
    """Return the first place where *value* lacks the form, and the form expected there; None if it fits.

    Manifests with thousands of values pass through this function, so it allocates nothing until it finds a
    mismatch.
    """
    kind = type(form)
    if kind is dict and type(value) is dict:
        return _in_object(value, form)
    if kind is list and type(value) is list:
        return _in_list(value, form * len(value))
    if kind is tuple and type(value) is list:
        if form[-1] is ...:
            form = form[:-2] + form[-2:-1] * (len(value) - len(form) + 2)
        return _in_list(value, form) if len(form) == len(value) else ("", _name(form))
    if kind is OneOf:
        misfits = all(_mismatch(value, one) for one in form.forms)
        return ("", " or ".join(map(_name, form.forms))) if misfits else None
    return None if _fits(value, form) else ("", _name(form))


def _in_list(value: list[Any], forms: Sequence[Any]) -> tuple[str, str] | None:
    for at, item in enumerate(value):
        if mismatch := _mismatch(item, forms[at]):
            return f"[{at}]{mismatch[0]}", mismatch[1]
    return None


def _in_object(value: dict[str, Any], form: dict[Any, Any]) -> tuple[str, str] | None:
    if str in form:
        for name, item in value.items():
            if mismatch := _mismatch(item, form[str]):
                return f"[{name!r:.60}]{mismatch[0]}", mismatch[1]
        return None
    for key, part in form.items():
        name = key[:-1] if key[-1] == "?" else key
        if name in value:
            if mismatch := _mismatch(value[name], part):
                return f".{name}{mismatch[0]}", mismatch[1]
        elif name is key:
            return f".{name}", "there"
    return None


def _fits(value: Any, form: Any) -> bool:
    if form is None or form is object:
        return form is object or value is None
    if isinstance(form, re.Pattern):
        return isinstance(value, str) and form.fullmatch(value) is not None
    if form is int:
        return type(value) is int and 0 <= value < _MOST_COUNTED
    if form is float:
        return type(value) in {int, float}
    return isinstance(form, type) and isinstance(value, form)


_NAMES = {str: "a text", bool: "true or false", float: "a number", int: "a count", None: "null"}


def _name(form: Any) -> str:
    """Return the name of a form in an error."""
    if isinstance(form, re.Pattern):
        return f"a text like {form.pattern}"
    if isinstance(form, tuple):
        return f"a list of {len(form)}" if form[-1] is not ... else f"a list of {len(form) - 2} or more"
    if isinstance(form, list) or form is list:
        return "a list"
    if isinstance(form, dict) or form is dict:
        return "an object"
    return _NAMES[form]
