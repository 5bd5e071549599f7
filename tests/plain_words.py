"""Plain words: phrases that have to be read twice, found in the texts of this repository.

    python tests/plain_words.py [FILE OR FOLDER ...]

It reads comments, strings and docstrings of Python files, and everything in Markdown files, notebooks and
templates. Each finding names the place, the phrase and what to write instead.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = (
    "nbckpt",
    "templates",
    "benchmarks",
    "docs",
    "noxfile.py",
    *(path.name for path in sorted(ROOT.glob("*.md"))),
)
KINDS = {".py", ".md", ".html", ".j2"}
PHRASES = {
    r"(?<!there )\bis no (?!longer\b)": "is not a",
    r"(?<!there )\bare no (?!longer\b)": "are not",
    r"\bwhoever\b": "name the person, process or thread",
    r"\bwhichever\b": "name the thing",
    r"\bso man(y|ieth)\b": "N, or the number of",
    r"\bone's own\b": "your own, or its own",
    r"\bto be had\b": "available",
    r"\bnone is\b": "there is none",
    r"\bno more:": "Turn off:",
    r"\bnot any more\b|\bany more\b": "no longer",
    r"\bwhat of it\b": "the part that",
    r"\bas far as\b": "if, or the part that",
    r"\bat rest\b": "idle, or not running",
    r"\bof itself\b": "by itself, or name the cause",
    r"\bthe seed(s|'s)?\b(?! of)": "a stranger does not know it",
    r"\bbrings? forth\b|\bhenceforth\b|\bthereof\b|\btherein\b": "a plain word",
    r"\bgo(es)? on with\b": "continue",
}
_PATTERN = re.compile("|".join(f"(?P<p{at}>{phrase})" for at, phrase in enumerate(PHRASES)), re.IGNORECASE)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts in a file, each with the number of its first line."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield 1, content
        return
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in kinds:
            yield token.start[0], token.string


def findings(path: Path) -> Iterator[str]:
    """Yield a line for each phrase in a file."""
    advice = list(PHRASES.values())
    for first, text in texts(path):
        for match in _PATTERN.finditer(re.sub(r"\s", " ", text)):
            line = first + text.count("\n", 0, match.start())
            better = advice[int((match.lastgroup or "p0")[1:])]
            yield f"{path}:{line}: {match[0]!r}: write {better!r}"


def files(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files to read, those in folders too."""
    for place in places:
        below = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in below if path.suffix in KINDS and not _is_made(path.relative_to(place)))


def _is_made(path: Path) -> bool:
    """Tell whether a file is in a cache or in an environment below a place."""
    return any(part == "__pycache__" or part.startswith(".venv") for part in path.parts)


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 if there are any."""
    places = [Path(argument) for argument in arguments] or [ROOT / place for place in PLACES]
    lines = [finding for path in files(places) for finding in findings(path)]
    sys.stdout.writelines(f"{finding}\n" for finding in lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
