"""The documentation tells the truth: its examples are run, its links lead somewhere, every page can be reached.

A fenced block marked `console test` is run command by command in a folder that holds a copy of `examples`: lines that start
with `$ ` are commands, the lines below are what they print, and a line `...` stands for any lines. A command fails the test
when it exits with another code than 0, unless `$ echo $?` follows and shows the code. A block marked `python test` is a
doctest in such a folder; the blocks of one page share their names.
"""

import contextlib
import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(console|python) test\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SEARCH_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
ENVIRONMENT = {**os.environ, "PATH": SEARCH_PATH, "NO_COLOR": "1", "COLUMNS": "100"}


class Step(NamedTuple):
    """One command of a console block with what it should print."""

    command: str
    output: str


def blocks(kind: str) -> Iterator[tuple[str, str]]:
    """Place and text of every runnable block of a kind."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            if match[1] == kind:
                yield f"{page.relative_to(ROOT).as_posix()}:{text.count(chr(10), 0, match.start()) + 1}", match[2]


def steps(block: str) -> list[Step]:
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [Step(*part.partition("\n")[::2]) for part in parts]


def run_console(block: str, folder: Path) -> Iterator[tuple[Step, str, int]]:
    """Each step of the block with what it printed and its exit code; `$?` is that of the step before."""
    code = 0
    for step in steps(block):
        script = f"exec 2>&1; (exit {code}); {step.command}"
        done = subprocess.run(["sh", "-c", script], cwd=folder, env=ENVIRONMENT, capture_output=True, encoding="utf-8", check=False)
        code = done.returncode
        yield step, done.stdout, code


def pattern(expected: str) -> str:
    """The expected output as a regular expression, in which a line `...` stands for any lines."""
    return "".join(r"(?s:.*)" if line.strip() == "..." else re.escape(line.rstrip()) + r"[ ]*\n" for line in expected.splitlines())


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    titles = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> list[tuple[Path, str]]:
    """Targets of a page's links into the repository, with the anchor of each."""
    found = (link.partition("#") for link in LINK.findall(page.read_text(encoding="utf-8")))
    return [((page.parent / path).resolve() if path else page, anchor) for path, _, anchor in found]


@pytest.mark.parametrize("block", [pytest.param(text, id=place) for place, text in blocks("console")])
def test_console_example_prints_what_the_page_shows(block: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    results = list(run_console(block, tmp_path))
    shown = [step.command == "echo $?" for step, _, _ in results[1:]] + [False]
    assert [(step.command, output) for step, output, _ in results if not re.fullmatch(pattern(step.output), output)] == []
    assert [(step.command, code) for (step, _, code), is_shown in zip(results, shown, strict=True) if code and not is_shown] == []


@pytest.mark.parametrize("page", sorted({place.partition(":")[0] for place, _ in blocks("python")}))
def test_python_examples_of_a_page_give_what_the_page_shows(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    code = "\n".join(text for place, text in blocks("python") if place.startswith(f"{page}:"))
    example = doctest.DocTestParser().get_doctest(code, {}, page, page, 0)
    complaints: list[str] = []
    with contextlib.chdir(tmp_path):
        result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=complaints.append)
    assert result.attempted > 0
    assert complaints == []


def test_the_walk_names_functions_that_exist() -> None:
    walk = (ROOT / "docs" / "follow-one-record.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(\.\./(src/[^)]+)\) \| `(\w+)`", walk)
    found = [re.search(rf"^(async def|def|class) {name}\b", (ROOT / path).read_text("utf-8"), re.MULTILINE) for path, name in named]
    assert len(named) >= 10
    assert [name for (_, name), definition in zip(named, found, strict=True) if definition is None] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first-validation.md", "docs/reference/python.md"])
def test_page_has_examples_that_are_run(page: str) -> None:
    assert [place for place, _ in [*blocks("console"), *blocks("python")] if place.startswith(f"{page}:")]


@pytest.mark.parametrize("page", [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES])
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [str(target) for target, _ in links(page) if not target.exists()]
    assert missing == []
    assert [f"{target.name}#{anchor}" for target, anchor in links(page) if anchor and anchor not in slugs(target)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = [ROOT / "README.md"]
    for page in reached:
        reached.extend(target for target, _ in links(page) if target.suffix == ".md" and target.exists() and target not in reached)
    assert [page.relative_to(ROOT).as_posix() for page in PAGES if page not in reached] == []
