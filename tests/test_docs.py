"""The documentation tells the truth: its examples are run, its links lead somewhere, every page can be reached.

The marked blocks of a page are run in their order in one folder that holds a copy of `examples`, as a reader pastes them.
In a block marked `console test` lines that start with `$ ` are commands, the lines below are what they print, and a line `...`
stands for any lines. A command fails the test when it exits with another code than 0, unless `$ echo $?` follows and shows
the code. A block marked `python test` is a doctest; the blocks of one page share their names.
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


def name_of(page: Path) -> str:
    """The page as it is named from the root."""
    return page.relative_to(ROOT).as_posix()


class Step(NamedTuple):
    """One command of a console block with what it should print."""

    command: str
    output: str


class Block(NamedTuple):
    """A runnable block of a page."""

    line: int
    kind: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The runnable blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    return [Block(text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in FENCE.finditer(text)]


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


def console_complaints(block: Block, folder: Path) -> list[str]:
    """What differs from the page: an output, or a code that the page does not show."""
    results = list(run_console(block.text, folder))
    shown = [step.command == "echo $?" for step, _, _ in results[1:]] + [False]
    return [
        f"line {block.line}: $ {step.command}\n{output}exit {code}"
        for (step, output, code), is_shown in zip(results, shown, strict=True)
        if not re.fullmatch(pattern(step.output), output) or (code and not is_shown)
    ]


def python_complaints(block: Block, folder: Path, names: dict[str, object]) -> list[str]:
    """What differs from the page."""
    example = doctest.DocTestParser().get_doctest(block.text, names, f"line {block.line}", None, block.line)
    complaints: list[str] = []
    with contextlib.chdir(folder):
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        attempted = runner.run(example, out=complaints.append, clear_globs=False).attempted
    names.update(example.globs)
    return complaints if attempted else [f"line {block.line}: nothing is run"]


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES if blocks(page)])
def test_the_blocks_of_a_page_work_when_they_are_pasted_in_order(page: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    names: dict[str, object] = {}
    complaints = [
        complaint
        for block in blocks(page)
        for complaint in (
            console_complaints(block, tmp_path) if block.kind == "console" else python_complaints(block, tmp_path, names)
        )
    ]
    assert complaints == []


def test_contract_pages_and_the_tutorial_can_be_pasted_into_one_folder() -> None:
    pages = [*sorted((ROOT / "docs" / "contracts").glob("*.md")), ROOT / "docs" / "tutorial" / "first-run.md"]
    named = [set(re.findall(r"--run-id (\S+)", page.read_text(encoding="utf-8"))) for page in pages]
    assert all(named)
    assert len(set.union(*named)) == sum(map(len, named))


def test_the_walk_names_functions_that_exist() -> None:
    walk = (ROOT / "docs" / "follow-one-record.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(\.\./(src/[^)]+)\) \| `(\w+)`", walk)
    found = [re.search(rf"^(async def|def|class) {name}\b", (ROOT / path).read_text("utf-8"), re.MULTILINE) for path, name in named]
    assert len(named) >= 10
    assert [name for (_, name), definition in zip(named, found, strict=True) if definition is None] == []


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first-validation.md", "docs/reference/python.md"])
def test_page_has_examples_that_are_run(page: str) -> None:
    assert blocks(ROOT / page)


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    missing = [str(target) for target, _ in links(page) if not target.exists()]
    assert missing == []
    assert [f"{target.name}#{anchor}" for target, anchor in links(page) if anchor and anchor not in slugs(target)] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = [ROOT / "README.md"]
    for page in reached:
        reached.extend(target for target, _ in links(page) if target.suffix == ".md" and target.exists() and target not in reached)
    assert [name_of(page) for page in PAGES if page not in reached] == []
