"""Hooks of MkDocs: pages from files outside `docs/`, the commands, the Python reference and the notebooks.

With NBCKPT_PYODIDE, a folder with Pyodide, they also add a page in which notebooks run.
See docs/decisions/0114 and 0161.
"""

from __future__ import annotations

import html
import importlib
import json
import logging
import os
import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from nbckpt.commands import TABLE, Command, Option

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "FORMAT.md": "format.md",
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Files outside `docs/`, and the pages that show them; README.md is on GitHub what index.md is here."""

NAMESPACES = (
    "nbckpt",
    "trials",
    "states",
    "sync",
    "media",
    "store",
    "tracker",
    "mirror",
    "errors",
    "settings",
    "notebook",
    "testing",
)
COMMANDS = "commands.md"
"""The page that gets a part for each command."""
BOOSTS = {"guides": 4, "coming-from": 2, "decisions": 0.2}
"""How much the pages of a folder count in a search; there are more decisions than guides."""
TRY = "try.md"
"""The page that leads to the notebook that runs in the browser."""
PYODIDE = os.environ.get("NBCKPT_PYODIDE")
MARK = "<!-- the notebook of the site -->"
LITE = "lite/lab/index.html?path=browser.ipynb"
BUTTON = f'<a class="md-button md-button--primary" href="{LITE}">Open the quickstart</a>'
WITHOUT = "_This copy of the site was built without that page._"
LINK = re.compile(r"(!?\[[^\]\n]*\])\(([^()\s:#]+)(#[^()\s]*)?\)")
CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
log = logging.getLogger("mkdocs.hooks.nbckpt")
MAGIC = re.compile(r"^```python\n(?=(?:(?!^```).)*^ *[%!]|(?:(?!^```).)*= %)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from other files."""
    for path, page in FILES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook(path)))
    for name in NAMESPACES:
        files.append(File.generated(config, f"python/{name}.md", content=reference(name)))
    styles = str(Path(__file__).with_name("site.css"))
    files.append(File.generated(config, "nbckpt.css", abs_src_path=styles))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the commands, and let relative links lead to the pages that show their files."""
    del config
    page.meta["search"] = {"boost": BOOSTS.get(posixpath.dirname(page.file.src_uri), 1)}
    source = next(
        (path for path, at in FILES.items() if at == page.file.src_uri), f"docs/{page.file.src_uri}"
    )
    if page.file.src_uri.startswith("notebooks/"):
        source = page.file.src_uri
    parts = CODE.split(markdown)
    parts[::2] = [
        LINK.sub(lambda link: linked(link, source, page.file.src_uri, files), part) for part in parts[::2]
    ]
    # GitHub needs a backslash before a | in a table, also in code; Python-Markdown would show it.
    parts[1::2] = [
        part if part.lstrip().startswith("```") else part.replace(r"\|", "|") for part in parts[1::2]
    ]
    markdown = MAGIC.sub("```ipython3\n", "".join(parts))
    if page.file.src_uri == TRY:
        return markdown.replace(MARK, BUTTON if PYODIDE else WITHOUT)
    if page.file.src_uri != COMMANDS:
        return markdown
    return "\n\n".join([markdown, "## Every command", *map(command, TABLE.values())])


def on_post_build(config: MkDocsConfig) -> None:
    """Add the page in which notebooks run."""
    if not PYODIDE:
        log.info("Without the page in which notebooks run: set NBCKPT_PYODIDE, see docs/lite/README.md")
        return
    build = [sys.executable, str(ROOT / "docs/lite/build.py"), str(Path(config.site_dir) / "lite")]
    subprocess.run([*build, "--pyodide", PYODIDE], check=True)


def linked(link: re.Match[str], source: str, at: str, files: Files) -> str:
    """Return a relative link for the site; only its text if the site does not have the file."""
    text, target, anchor = link[1], link[2], link[3] or ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    page = FILES.get(path) or path.removeprefix("docs/").replace(".ipynb", ".md")
    if (ROOT / path).is_dir():
        page = f"{page}/README.md"
    shown = files.get_file_from_path(page)
    if shown and not shown.inclusion.is_excluded():
        return f"{text}({posixpath.relpath(page, posixpath.dirname(at) or '.')}{anchor})"
    if (ROOT / path).exists() and not text.startswith("!"):
        return text[1:-1]
    return link[0]


def command(row: Command) -> str:
    """Return the part of the page of commands about one command."""
    words = " ".join(map(usage, row.options))
    lines = [f"### {row.name}", f"```console\n%ckpt {row.name} {words}\n```", plain(row.description), ""]
    if row.options:
        lines += ["| option | meaning |", "| --- | --- |"]
    for option in row.options:
        flags = ", ".join(f"`{flag}`" for flag in option.flags)
        lines.append(f"| {flags} | {plain(option.help).replace('|', chr(92) + '|')} |")
    return "\n\n".join(lines[:3]) + "\n\n" + "\n".join(lines[4:]) + "\n"


def plain(text: str) -> str:
    """Return a text in which Markdown sees no HTML and no emphasis."""
    parts = re.split(r"(`[^`]+`)", text)
    parts[::2] = [html.escape(part, quote=False).replace("_", r"\_") for part in parts[::2]]
    return "".join(parts)


def usage(option: Option) -> str:
    """Return how users write an argument or option."""
    metavar = option.extra.get("metavar", option.name.upper())
    value = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if choices := option.extra.get("choices"):
        value = "|".join(choices)
    if option.is_argument:
        return f"[{value}…]" if option.many else f"[{value}]" if "nargs" in option.extra else value
    return f"[{option.flags[0]}{'' if option.switch else ' ' + value}]"


def reference(name: str) -> str:
    """Return the page of a public namespace: a directive for each public name."""
    module = "nbckpt" if name == "nbckpt" else f"nbckpt.{name}"
    namespace = importlib.import_module(module)
    doc = (namespace.__doc__ or "").strip().replace(":\n\n    ", ":\n\n        ")
    names = [each for each in exported(namespace) if not each.endswith("_extension")]
    directives = "\n\n".join(f"::: {module}.{each}" for each in names)
    return f"# {module}\n\n{indented(doc)}\n\n{directives}\n"


def indented(doc: str) -> str:
    """Return a docstring as Markdown: indented blocks become fenced."""
    return re.sub(
        r"(?:^ {4}.*\n?(?:\n(?= {4}))?)+",
        lambda block: f"```python\n{dedent(block[0])}\n```\n",
        doc,
        flags=re.M,
    )


def dedent(block: str) -> str:
    """Return a block without the indentation of its lines."""
    return "\n".join(line[4:] for line in block.rstrip().splitlines())


def exported(namespace: Any) -> list[str]:
    """Return the public names of a namespace, except those of modules and constants."""
    names = getattr(namespace, "__all__", None) or [
        name
        for name, value in vars(namespace).items()
        if getattr(value, "__module__", "") == namespace.__name__ and not name.startswith("_")
    ]
    return [name for name in names if callable(getattr(namespace, name))]


def notebook(path: Path) -> str:
    """Return a notebook as Markdown, with its outputs."""
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join(part for cell in cells for part in parts_of(cell)) + "\n"


def parts_of(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a cell: its text, or its code and its outputs."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        yield shown(output)


def shown(output: dict[str, Any]) -> str:
    """Return an output of a cell as Markdown: HTML, else a picture, else its text."""
    data = output.get("data", {})
    if text := "".join(data.get("text/html", "")):
        return block(text)
    if svg := "".join(data.get("image/svg+xml", "")):
        return block(svg)
    if picture := "".join(data.get("image/png", "")):
        source = f"data:image/png;base64,{picture.strip()}"
        return f'<img class="nb-picture" alt="The figure of this cell" src="{source}">'
    text = "".join(output.get("text", data.get("text/plain", output.get("traceback", ""))))
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()
    return f'<pre class="nb-output">{html.escape(text)}</pre>'


def block(text: str) -> str:
    """Return HTML as one block of Markdown, which has no empty lines."""
    return '<div class="nb-output">\n' + re.sub(r"\n\s*\n", "\n", text) + "\n</div>"
