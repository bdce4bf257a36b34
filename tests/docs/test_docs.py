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

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
FENCE = re.compile(r"^```(console|python) test\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SEARCH_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
ENVIRONMENT = {**os.environ, "PATH": SEARCH_PATH, "NO_COLOR": "1", "COLUMNS": "100"}
CONTRACT_PAGES = sorted((ROOT / "docs" / "contracts").glob("*.md"))
FENCE_LINE = re.compile(r"^ *```([^`\n]*)$", re.MULTILINE)
PASTED = {"console", "sh", "python"}
"""What a reader pastes into a shell or an interpreter; other blocks are contents of files, and output."""
ELSEWHERE = {"console served", "python served"}
"""Blocks that are run against a server, in `tests/api/client/test_client_docs.py`."""
NOT_RUN: dict[str, tuple[int, str]] = {
    "README.md": (1, "`make` itself"),
    "docs/coming-from/deepeval.md": (2, "the other tool's code, and the same for pytest, with models that need a key"),
    "docs/coming-from/inspect.md": (2, "the other tool's code and command"),
    "docs/coming-from/mlflow.md": (3, "an MLflow server; `tests/integrations/mlflow/test_pages.py` runs them against one"),
    "docs/coming-from/promptfoo.md": (1, "the other tool's command"),
    "docs/how-to/choose-models-and-parameters.md": (3, "models that need a key, and a server of one's own"),
    "docs/explanation/simulated-histories.md": (1, "thousands of runs, for minutes"),
    "docs/how-to/convert-benchmarks.md": (1, "files of a benchmark"),
    "docs/how-to/deploy-on-many-machines.md": (1, "containers"),
    "docs/how-to/export-results.md": (1, "writes a cache of Hugging Face's; `tests/surfaces/exports` load such folders"),
    "docs/how-to/gate-releases-in-ci.md": (4, "models that need a key, the reader's run file, and commands of GitHub and jq"),
    "docs/how-to/halve-the-price-with-batches.md": (3, "models that need a key"),
    "docs/how-to/score-tool-calls.md": (1, "files of a benchmark"),
    "docs/how-to/store-runs-in-an-object-store.md": (2, "an object store"),
    "docs/how-to/view-records.md": (2, "a server that stays, and labels that were given in a browser"),
    "docs/how-to/view-runs-in-a-browser.md": (1, "a server that stays"),
    "docs/how-to/observe-runs.md": (1, "a collector of telemetry"),
    "docs/how-to/operate-a-server.md": (1, "a database, an object store and a server that stays"),
    "docs/how-to/push-to-mlflow.md": (1, "an MLflow server"),
    "docs/how-to/release.md": (4, "a release, which is built for minutes from a clean checkout"),
    "docs/how-to/replay-offline.md": (1, "the reader's recorded replies"),
    "docs/how-to/resume-a-run.md": (1, "a run that was interrupted"),
    "docs/how-to/run-on-many-machines.md": (5, "a Temporal server and a database"),
    "docs/how-to/test-with-pytest.md": (2, "the example itself, which the block below it runs, and a part of a test"),
    "docs/how-to/use-a-panel.md": (1, "models that need a key"),
    "docs/how-to/use-the-server.md": (4, "a server that stays; `tests/surfaces/server/test_docs_curl.py` runs the commands"),
    "docs/how-to/validate-in-ci.md": (2, "the reader's folder, and jq"),
    "docs/how-to/work-in-a-notebook.md": (3, "models that need a key, cells that show themselves, and a run that was interrupted"),
    "examples/recordings/README.md": (1, "writes the recordings of the repository again"),
    "docs/reference/exit-codes.md": (1, "the reader's run file"),
    "docs/tutorial/first-run.md": (2, "the environment of the repository, and a run that is interrupted by hand"),
    "docs/tutorial/first-validation.md": (1, "the environment of the repository"),
}
"""How many pasted blocks of a page are not run here, and why; a page is named only while it has some."""


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


def run_console(block: str, folder: Path, **environ: str) -> Iterator[tuple[Step, str, int]]:
    """Each step of the block with what it printed and its exit code; `$?` is that of the step before."""
    code = 0
    for step in steps(block):
        script = f"exec 2>&1; (exit {code}); {step.command}"
        done = subprocess.run(
            ["sh", "-c", script], cwd=folder, env={**ENVIRONMENT, **environ}, capture_output=True, encoding="utf-8", check=False
        )
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


def console_complaints(block: Block, folder: Path, **environ: str) -> list[str]:
    """What differs from the page: an output, or a code that the page does not show."""
    results = list(run_console(block.text, folder, **environ))
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


def unrun(page: Path) -> int:
    """How many blocks of a page are for pasting, and are run by no test of pages."""
    kinds = [kind.strip() for kind in FENCE_LINE.findall(page.read_text(encoding="utf-8"))][::2]
    return sum(kind in PASTED for kind in kinds)


def test_every_block_that_is_pasted_is_run_or_listed_with_a_reason() -> None:
    assert {name_of(page): unrun(page) for page in PAGES if unrun(page)} == {name: count for name, (count, _) in NOT_RUN.items()}


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_blocks_are_of_a_kind_that_is_known(page: Path) -> None:
    kinds = FENCE_LINE.findall(page.read_text(encoding="utf-8"))
    tested = {"console test", "python test"}
    contents = {"", "text", "json", "yaml", "toml", "ini", "css"}
    assert set(kinds[::2]) <= tested | ELSEWHERE | PASTED | contents
    assert set(kinds[1::2]) <= {""}


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in CONTRACT_PAGES])
def test_the_page_of_a_contract_needs_the_package_alone_and_three_commands(page: Path, tmp_path: Path) -> None:
    """As its reader has it: an empty folder, a home without settings, and no copy of the repository."""
    folder, home, names = tmp_path / "folder", tmp_path / "home", dict[str, object]()
    folder.mkdir()
    home.mkdir()
    first, *others = blocks(page)
    assert (first.kind, len(steps(first.text))) == ("console", 3)
    assert console_complaints(first, folder, HOME=str(home)) == []
    assert [complaint for block in others for complaint in python_complaints(block, folder, names)] == []
    assert list((folder / "runs").glob("*/run_manifest.json"))


def test_contract_pages_and_the_tutorial_can_be_pasted_into_one_folder() -> None:
    pages = [*CONTRACT_PAGES, ROOT / "docs" / "tutorial" / "first-run.md"]
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
