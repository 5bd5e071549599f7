"""The documents say what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nbckpt.commands import TABLE
from nbckpt.core import reducers
from nbckpt.core.manifest_json import FORMAT

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")])
DECISIONS = {path.name[:4]: path for path in sorted(ROOT.glob("docs/decisions/[0-9]*.md"))}
PARTS = ("Context", "Decision", "Consequences", "Status")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
NOT_CITED = "No line depends on it: "
NAMING_PATHS = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *DECISIONS.values()]
SUFFIXES = (".py", ".md", ".txt", ".toml", ".j2")
WRITTEN = "ci-output/"
"""The folder of files that `.ci/run` writes."""


def test_every_relative_link_has_a_target() -> None:
    links = [(path, link) for path in DOCUMENTS for link in LINK.findall(path.read_text())]
    assert len(links) > 100
    assert [(str(path), link) for path, link in links if not (path.parent / link).exists()] == []


def test_the_readme_is_short_and_names_no_owner() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 120
    assert "OWNER" not in text


def test_the_documents_name_every_command() -> None:
    table = (ROOT / "docs/commands.md").read_text()
    words = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]+)`", table))))
    assert set(TABLE) - words - {"status"} == set()


def test_format_md_names_its_version_and_every_record_function() -> None:
    text = (ROOT / "FORMAT.md").read_text()
    made = [name for name in vars(reducers) if name.startswith(("make_", "fill_"))]
    assert f"version {FORMAT}" in text.splitlines()[0]
    assert [name for name in made if f"{name}`" not in text] == []


def test_the_architecture_is_short_and_names_all_layers() -> None:
    """The classes that it names exist."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.splitlines()) <= 120
    layers = {path.name for path in (ROOT / "nbckpt").iterdir() if path.is_dir()} - {"__pycache__"}
    assert {name for name in layers if f"`{name}/`" not in text} == set()
    code = "\n".join(path.read_text() for path in ROOT.glob("nbckpt/**/*.py"))
    classes = set(re.findall(r"^class (\w+)", code, re.MULTILINE))
    assert set(re.findall(r"`(?:[a-z]+\.)*([A-Z][a-z]\w+)`", text)) - classes == set()


def test_a_decision_has_its_parts_and_a_known_status(subtests: pytest.Subtests) -> None:
    for number, path in DECISIONS.items():
        with subtests.test(path.name):
            text = path.read_text()
            assert re.match(rf"# {number}: \S", text)
            parts = re.findall(r"^## (.+)\n+(\S.*)", text, re.MULTILINE)
            assert tuple(name for name, _ in parts) == PARTS
            status = re.match(r"(Accepted|Superseded by (\d{4}))\b", parts[-1][1])
            assert status is not None
            assert status[2] is None or status[2] in DECISIONS


def test_the_list_of_decisions_has_each_title_and_status() -> None:
    rows = {
        number: (title, status)
        for number, title, status in re.findall(
            r"^\| \[(\d{4})\]\(\S+\) \| (.+) \| (.+) \|$",
            (ROOT / "docs/decisions/README.md").read_text(),
            re.MULTILINE,
        )
    }
    assert rows.keys() == DECISIONS.keys()
    texts = {number: path.read_text() for number, path in DECISIONS.items()}
    for number, (title, status) in rows.items():
        assert texts[number].startswith(f"# {number}: {title}\n")
        assert texts[number].rpartition("## Status")[2].lstrip().startswith(status.partition(";")[0])


def test_code_cites_decisions_that_exist() -> None:
    assert sorted(cited() - DECISIONS.keys()) == []


def test_every_decision_is_cited_or_explains_why_not() -> None:
    silent = {number for number, path in DECISIONS.items() if NOT_CITED in path.read_text()}
    assert sorted(DECISIONS.keys() - cited() - silent) == []
    assert sorted(silent & cited()) == []


def test_every_path_that_a_document_names_exists() -> None:
    names = [(path.name, name) for path in NAMING_PATHS for name in names_in(path.read_text())]
    assert len(names) > 500
    assert [(path, name) for path, name in names if is_path(name) and not exists(name)] == []


def test_the_path_rule_detects_a_missing_path() -> None:
    assert all(is_path(name) for name in ("core/packer.py", "trials/engine/crew", "tests/none.txt"))
    assert not any(exists(name) for name in ("core/packer.py", "trials/engine/crew", "tests/none.txt"))
    assert exists("core/gc.py")
    assert exists("docs/decisions/0007")


def names_in(document: str) -> list[str]:
    """Return the code in the prose of a document, and the modules in its diagrams."""
    prose = re.sub(r"^```.*?^```", "", document, flags=re.MULTILINE | re.DOTALL)
    diagrams = " ".join(re.findall(r"^    participant .*", document, re.MULTILINE))
    return [*re.findall(r"`([\w./-]+)`", prose), *re.findall(r"\S+/\S*", diagrams)]


def cited() -> set[str]:
    """Return the numbers of the decisions that code cites."""
    patterns = "nbckpt/**/*.py", "tests/**/*.py", "benchmarks/*.py"  # not the environments of peers
    code = [path for pattern in patterns for path in ROOT.glob(pattern)]
    texts = (path.read_text() for path in code if path != Path(__file__))
    return {number for text in texts for number in re.findall(r"docs/decisions/(\d{4})", text)}


def is_path(name: str) -> bool:
    """Tell whether a name in a document is meant as a path in the repository or in the package."""
    if name.startswith(WRITTEN):
        return False
    first, slash, _ = name.partition("/")
    tops = (ROOT / first, ROOT / "nbckpt" / first)
    return name.endswith(SUFFIXES) or bool(slash and first and any(top.is_dir() for top in tops))


def exists(name: str) -> bool:
    """Tell whether there is a file or folder of this path, a module without its `.py`, or a decision."""
    places = (ROOT / name, ROOT / "nbckpt" / name)
    decision = name.startswith("docs/decisions/") and name[-4:] in DECISIONS
    return decision or any(place.exists() or place.with_suffix(".py").exists() for place in places)
