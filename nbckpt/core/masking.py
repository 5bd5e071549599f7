"""Masking: command lines, cells and patches are kept without the values of secrets.

A secret is the value after a name like token, key, password or secret; a password or a token in a URL; a
token with a well-known beginning; and the lines of a private key. `***` replaces it. In source code only
quoted values count, because an unquoted one is an expression.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbckpt.store import masked, masked_url

MASK = "***"

_WORDS = "tokens?|(?:api)?keys?|passw(?:or)?d|passphrase|secrets?|pwd|credentials?|auth(?:orization)?"
_NAME = rf"(?<![A-Za-z])(?:{_WORDS})(?![A-Za-z])[\w.-]{{0,60}}"
_CAMEL = r"(?<=[a-z0-9])(?:Token|Key|Password|Secret|Credential|Passphrase)s?(?![a-z])\w{0,60}"
_LINKS = r"""\\?["'\])]*\s*(?::[^=,()"'\n]{1,60}(?==))?(?::=|=>|[:=,(])\s*"""
_QUOTED = r"""[rbfuRBFU]{0,2}(\\?(?:\"{3}|'{3}|["']))(?!\))(?:(?!\2)(?:\\.|.))+"""
_ANY_CASE = rf"(?:(?i:{_NAME})|{_CAMEL})"
_IN_CODE = re.compile(rf"({_ANY_CASE}{_LINKS}){_QUOTED}")
_IN_LIST = re.compile(rf"({_ANY_CASE}{_LINKS}[\[({{])([^\])}}]+)")
_ITEM = re.compile(r"""(\\?["'])(?:(?!\1)(?:\\.|.))+\1""")
_BARE = re.compile(rf"({_ANY_CASE}\s*[:=](?!=)\s*)(?![\"'\\*\[{{(<])([^\s,;#&\"']+)")
_PASSWORD = re.compile("passw|pwd|secret|passphrase", re.IGNORECASE)
_HARMLESS = re.compile(r"\d{1,6}(?:\.\d+)?|true|false|none|null", re.IGNORECASE)  # max_tokens: 256
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9+/=._~-]{8,}")
_WELL_KNOWN = re.compile(
    r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|sk-|sk_live_|xox[abprs]-|AKIA|ASIA|AIza|pypi-)[A-Za-z0-9_-]{12,}"
)
_FLAG = re.compile(rf"-{{1,2}}[\w.-]*?(?<![A-Za-z])(?:{_WORDS})(?![A-Za-z])[\w.-]*", re.IGNORECASE)
_KEY_BEGINS, _KEY_ENDS = re.compile("-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----"), "-----END "


def masked_command(words: Sequence[str]) -> list[str]:
    """Return a command line without secrets: in `--token VALUE`, `--token=VALUE`, `TOKEN=VALUE` and URLs."""
    shown: list[str] = []
    flag = ""
    for word in words:
        hides = flag and not word.startswith("--")
        shown.append(_in_place_of(flag, word) if hides else masked_text(word, is_code=False))
        flag = word if _FLAG.fullmatch(word) else ""
    return shown


def masked_remote(url: str) -> str:
    """Return the URL of a remote without a password, and without a user of HTTP, which may be a token."""
    return masked_url(re.sub(r"^(https?://)[^/]*@", rf"\1{MASK}@", url))


def _in_place_of(name: str, value: str) -> str:
    """Return the mask; but the value itself if it is a small number, true, false or none of no password."""
    return value if _HARMLESS.fullmatch(value) and not _PASSWORD.search(name) else MASK


def masked_text(text: str, *, is_code: bool) -> str:
    """Return a text without secrets, with the same number of lines."""
    masker = Masker(is_code=is_code)
    return "\n".join(masker.line(line) for line in text.split("\n"))


class Masker:
    """Masks the lines of one text, one after the other, because a private key has several.

    Args:
        is_code: Whether the text is source code, where unquoted values are expressions.
    """

    def __init__(self, *, is_code: bool = False) -> None:
        self._is_code = is_code
        self._in_key = False

    def line(self, line: str) -> str:
        """Return the next line without secrets."""
        if _KEY_BEGINS.search(line):
            self._in_key = _KEY_ENDS not in line
        elif self._in_key:
            self._in_key = _KEY_ENDS not in line
            return MASK if self._in_key else line
        return masked_line(line, is_code=self._is_code)


def masked_line(line: str, *, is_code: bool) -> str:
    """Return a line without secrets, of a text that has no private key."""
    line = _IN_CODE.sub(rf"\1\2{MASK}", line)
    line = _IN_LIST.sub(lambda match: match[1] + _ITEM.sub(rf"\1{MASK}\1", match[2]), line)
    line = line if is_code else _BARE.sub(lambda match: match[1] + _in_place_of(match[1], match[2]), line)
    return _WELL_KNOWN.sub(MASK, _BEARER.sub(rf"\1\2{MASK}", masked(line)))
