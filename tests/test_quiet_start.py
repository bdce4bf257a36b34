"""Starting assay is quiet: nothing is reached, started, written or made into code that nobody asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from assay.testing import StubProvider

ROOT = Path(__file__).parent.parent
GOOD = (
    "examples/batch_v1/support-answers.json",
    "examples/legal_eval_v1/contract-law.jsonl",
    "examples/conversation_v1/travel-agent.yaml",
)
STARTS = {
    "the door": ("door",),
    "every module": ("modules",),
    "--version": ("command", "--version"),
    "--help": ("command", "--help"),
    "validate": ("command", "validate", *GOOD),
}
"""What is watched: every name of `import assay`, every module of the package, and commands."""
OF_EXTRAS = {
    "litestar",
    "multipart",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "pytest",
    "temporalio",
    "uvicorn",
    "pip install 'assay[golden]'",
}
"""What a module may lack that belongs to an extra, or to pytest."""

REACHES_OUT = (
    "socket.",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "webbrowser.",
    "subprocess.",
    "pty.",
    "os.system",
    "os.exec",
    "os.fork",
)
STARTS_PROGRAMS = ("os.spawn", "os.posix_spawn", "os.startfile")
CHANGES_FILES = (
    "write",
    "shutil.",
    "tempfile.",
    "sqlite3.",
    "os.mkdir",
    "os.r",
    "os.link",
    "os.symlink",
    "os.ch",
    "os.truncate",
    "os.utime",
)
WRITES_CLASSES = ("collections", "dataclasses", "typing")
"""Modules of the standard library that make named tuples and data classes from text of their own."""
WRITE_CODE = (
    "anyio._lazyimport",  # reads its own source for the names that it loads late
    "multiprocessing.managers",  # uvicorn loads it; it makes stand-ins for lists and dicts
    "nexusrpc._service",  # of temporalio; has inspect read annotations that are text
    "prometheus_client.decorator",  # makes a decorator that keeps its signature
    "typing_inspection.typing_objects",  # of pydantic; makes a test for each form of typing
)
"""Modules that make code from text of their own while they are loaded; what needs an extra loads them."""
HEAVY = {
    "numpy",
    "rich",
    "yaml",
    "jinja2",
    "msgspec",
    "orjson",
    "asyncio",
    "sqlite3",
    "ssl",
    "socket",
    "subprocess",
    "logging",
    "email",
    "typing_extensions",
}
UNUSED_IN_A_RUN = {
    "assay.datasets.converters",
    "assay.engine.readers.run_reader",
    "assay.engine.planning.pairs",
    "assay.engine.rescore",
    "assay.engine.execution.batch_collector",
    "assay.models.anthropic",
    "assay.models.batch_api",
    "assay.models.replay",
    "assay.models.scripted",
    "assay.integrations.postgres",
    "assay.store.record_index",
    "assay.surfaces.cli.run_reports",
    "assay.presentation.run",
    "assay.presentation.subject",
    "assay.surfaces.reporters.comments",
    "assay.surfaces.reporters.text",
    "email",
    "html",
    "http",
    "importlib.metadata",
    "multiprocessing",
    "numpy.ma",
    "numpy.random",
    "obstore",
    "rich",
    "unittest",
    "urllib.request",
    "yaml",
}
"""What a run takes time to load and does not need, when it asks one provider over HTTP and tells its end as JSON."""
UNUSED_BY_VALIDATE = {
    "assay.core.artifact_lines",
    "assay.core.manifest",
    "assay.core.plan",
    "assay.core.run_result",
    "assay.presentation.decisions",
    "assay.presentation.run_report",
    "assay.surfaces.reporters.junit",
    "assay.surfaces.reporters.sarif",
}
"""Types of a run, and formats other than the one that is printed."""

LOUD = {
    "assay/__init__.py": (
        "import os\nos.environ.get('AWS_SECRET_ACCESS_KEY')\nos.getenvb(b'ONE_OF_BYTES')\n[name for name in os.environb]\n"
    ),
    "assay/core/__init__.py": "import ctypes, threading\nthreading.Thread(target=print).start()\nctypes.CDLL(None)\n",
    "assay/core/errors.py": "class MissingExtra(Exception):\n    hint = 'pip install it'\n",
    "assay/deep/__init__.py": "import subprocess, sys\nsubprocess.run([sys.executable, '--version'])\n",
    "assay/deep/below.py": "import socket\nfrom pathlib import Path\nsocket.socket().close()\nPath('written').write_text('')\n",
    "assay/deep/lacking.py": "import a_module_that_nobody_has.part\n",
    "assay/golden.py": "from assay.core.errors import MissingExtra\nraise MissingExtra\n",
}
"""A package that does while it is loaded what none should do."""


class Event(NamedTuple):
    """One audit event: its name, what it was about, the module that caused it, the one that had the standard library cause it."""

    name: str
    about: str
    by: str
    behind: str


class Seen(NamedTuple):
    """What a fresh interpreter did."""

    events: list[Event]
    variables: set[str]
    modules: set[str]
    missing: set[str]

    def named(self, *beginnings: str) -> list[Event]:
        """The events whose names begin so."""
        return [event for event in self.events if event.name.startswith(beginnings)]


def watch(report: Path, *arguments: str, folder: Path = ROOT, package: Path | None = None) -> Seen:
    """What happens when the door, the modules or a command of assay are called for; another package may stand for it."""
    environment = {**os.environ, "PYTHONPATH": str(package)} if package else None
    # -B: bytecode that the interpreter keeps for itself is no doing of ours.
    command = [sys.executable, "-B", ROOT / "tests" / "watching.py", report, *arguments]
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    seen = json.loads(report.read_text(encoding="utf-8"))
    return Seen([Event(*event) for event in seen["events"]], *(set(seen[name]) for name in ("variables", "modules", "missing")))


@pytest.fixture(scope="module", params=STARTS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return watch(tmp_path_factory.mktemp("watched") / "report.json", *STARTS[request.param])


def test_a_start_opens_no_socket_and_starts_no_program(seen: Seen) -> None:
    assert seen.named("read")
    assert seen.named(*REACHES_OUT, *STARTS_PROGRAMS) == []


def test_a_start_starts_no_thread(seen: Seen) -> None:
    assert seen.named("thread.") == []


def test_a_start_opens_no_library(seen: Seen) -> None:
    # ctypes, which numpy loads, looks at the interpreter itself while it is loaded.
    assert [event for event in seen.named("ctypes.dlopen") if (event.about, event.behind) != ("None", "ctypes")] == []


def test_a_start_changes_no_file(seen: Seen) -> None:
    assert seen.named(*CHANGES_FILES) == []


def test_a_start_makes_no_code_from_text_or_bytes_but_modules(seen: Seen) -> None:
    made = [event for event in seen.named("compile", "exec", "marshal.loads") if not event.by.startswith("importlib.")]
    assert [event for event in made if event.by not in WRITES_CLASSES and event.behind not in WRITE_CODE] == []
    assert seen.named("pickle.") == []


def test_a_start_reads_no_variable_but_one_for_numpy_and_one_of_pipelines(seen: Seen) -> None:
    assert seen.variables <= {"OPENBLAS_NUM_THREADS", "GITHUB_ACTIONS"}


def test_every_module_can_be_loaded_but_for_extras_that_are_missing(tmp_path: Path) -> None:
    files = (path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src" / "assay").rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    seen = watch(tmp_path / "report.json", "modules")
    assert seen.missing <= OF_EXTRAS
    assert seen.missing or names <= seen.modules


def test_the_watch_sees_all_that_a_module_may_do(tmp_path: Path) -> None:
    for name, text in LOUD.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    seen = watch(tmp_path / "report.json", "modules", folder=tmp_path, package=tmp_path)
    loud = {(event.name, event.behind) for event in seen.events}
    assert {("thread.start", "assay.core"), ("ctypes.dlopen", "assay.core"), ("socket.__new__", "assay.deep.below")} <= loud
    assert {("subprocess.Popen", "assay.deep"), ("write", "assay.deep.below")} <= loud
    assert seen.variables == {"AWS_SECRET_ACCESS_KEY", "ONE_OF_BYTES", "*"}
    assert seen.missing == {"a_module_that_nobody_has", "pip install it"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_a_shell_asks_for_often_loads_click_and_nothing_heavy(option: str, tmp_path: Path) -> None:
    modules = watch(tmp_path / "report.json", "command", option).modules
    assert "click" in modules
    assert HEAVY & modules == set()


@pytest.mark.parametrize("options", [(), ("--format", "json"), ("--github",)], ids=" ".join)
def test_validate_loads_no_type_of_a_run_and_no_other_format(options: tuple[str, ...], tmp_path: Path) -> None:
    modules = watch(tmp_path / "report.json", "command", "validate", *options, str(ROOT / GOOD[0])).modules
    assert "assay.presentation.validation" in modules
    assert UNUSED_BY_VALIDATE & modules == set()


def test_a_command_that_writes_writes_where_it_was_told_to(tmp_path: Path) -> None:
    seen = watch(tmp_path / "report.json", "command", "init", "first", folder=tmp_path)
    written = {event.about for event in seen.named(*CHANGES_FILES)}
    assert {Path(path).parts[0] for path in written} == {"first"}


def test_a_run_over_recorded_replies_connects_to_nobody(tmp_path: Path) -> None:
    recording = f"replay/{ROOT}/examples/recordings/demo.jsonl"
    answers = str(ROOT / "examples/batch_v1/support-answers.json")
    command = ("command", "run", answers, "--model", recording, "--judge", recording, "--quiet")
    seen = watch(tmp_path / "report.json", *command, folder=tmp_path)
    reached = {event.name for event in seen.named(*REACHES_OUT, *STARTS_PROGRAMS)}
    # The event loop wakes itself up through a pair of sockets, and a run notes on which machine it is.
    assert reached == {"socket.__new__", "socket.gethostname"}


def test_a_run_over_http_loads_nothing_that_it_does_not_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = str(ROOT / "examples/batch_v1/support-answers.json")
    command = ("command", "run", answers, "--model", "openai/candidate", "--judge", "openai/judge", "--json")
    said = {"candidate": "The warranty is two years.", "judge": '{"score": 4, "justification": "So says the reference."}'}
    with StubProvider(lambda request: said[request.body["model"]]) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody-needs-it")
        modules = watch(tmp_path / "report.json", *command, folder=tmp_path).modules
    assert {"assay.models.openai_chat", "assay.metrics.summary", "numpy"} <= modules
    assert UNUSED_IN_A_RUN & modules == set()
