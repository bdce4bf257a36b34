"""pytest: every record of a dataset as a test, and runs inside tests.

pytest loads this module in every project of an environment that has assay, so it imports nothing but pytest; code that evaluates is
loaded by the first test that asks for it.
"""

import secrets
import time
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from assay.integrations.pytest.cases import CaseRuns, RecordCase, RunInTest, Say

MARKER = "assay"
CASE = "assay_case"
FOLDER = ".assay"
_SESSION = pytest.StashKey[str]()
_RUNS = pytest.StashKey["CaseRuns"]()
_WORD = "assay_session"
"""Key under which workers of xdist receive the session's name."""
_HELP = (
    f"{MARKER}(dataset, model=..., judge=..., **options): run the test once for each record of a dataset, after all of them were "
    "evaluated in one run; the options are those of assay.run. The test passes when its record does."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the folder of the runs."""
    group = parser.getgroup("assay", "assay: records of datasets as tests")
    group.addoption("--assay-runs-dir", metavar="DIR", help=f"Keep the runs of tests in this folder.  [default: {FOLDER}]")
    parser.addini("assay_runs_dir", "Folder of the runs of tests, below the rootdir.", default=FOLDER)


def pytest_configure(config: pytest.Config) -> None:
    """Name the session, the same for all workers of xdist, and register the marker."""
    config.addinivalue_line("markers", _HELP)
    prefix = getattr(config, "workerinput", {}).get(_WORD)
    # Seconds and a random part: two sessions may begin at once.
    config.stash[_SESSION] = prefix or time.strftime("pytest-%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(2)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Send a worker of xdist the name of the session."""
    # Workers must agree on the name, or each would make its own run.
    node.workerinput[_WORD] = node.config.stash[_SESSION]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generate a test for each record of the marker's dataset."""
    mark = metafunc.definition.get_closest_marker(MARKER)
    if mark is not None:
        keys = _runs(metafunc.config).keys(metafunc.definition, mark)
        # A test need not ask for its case to be one.
        metafunc.fixturenames.append(CASE)
        # Indirect, so that the value is made by the fixture when the test runs.
        metafunc.parametrize(CASE, keys, indirect=True, ids=[key.name for key in keys])


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, object, object]:
    """Add a test for the gates of the marker after those of the records."""
    found = yield
    # The gate is one test more, which is not a parameter of the function.
    if isinstance(found, list) and found and found[0].get_closest_marker(MARKER) is not None:
        return [*found, *_runs(collector.config).gate_items(collector, found[0])]
    return found


def pytest_collection_finish(session: pytest.Session) -> None:
    """Select the records of the tests that were not deselected."""
    # After deselection by all other plugins.
    runs = session.config.stash.get(_RUNS, None)
    if runs is not None:
        runs.select(session.items)


# Last, so that skip marks and other fixtures have had their say.
@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Evaluate the record of a test, with all others of its dataset, whether or not the test uses it."""
    if _is_case(item):
        _runs(item.config).case(item)
    elif item.get_closest_marker(MARKER) is not None and CASE not in item.keywords:
        pytest.fail(
            f"the marker {MARKER} is for functions, and for methods of classes that do not derive from unittest.TestCase",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a test, then fail it if its record did not pass."""
    found = yield
    if _is_case(pyfuncitem):
        _runs(pyfuncitem.config).check(pyfuncitem)
    return found


def pytest_terminal_summary(terminalreporter: object, config: pytest.Config) -> None:
    """Print the results and the folders of the session's runs."""
    folder, session = _folder(config), config.stash[_SESSION]
    # Workers of xdist print nothing; the main process does it for all.
    if not hasattr(config, "workerinput") and any((*folder.glob(f"{session}-*"), *folder.glob(f".active/{session}-*"))):
        import_module("assay.integrations.pytest.cases").write_summary(terminalreporter, folder, session)


@pytest.fixture
def assay_case(request: pytest.FixtureRequest) -> "RecordCase":
    """Return the record of this test: its input, the answer and its grade."""
    return _runs(request.config).case(request.node)


@pytest.fixture(scope="session")
def assay_run(request: pytest.FixtureRequest) -> "RunInTest":
    """Return a function that runs a dataset and returns the run, for assertions on metrics; it takes the options of assay.run."""
    return _runs(request.config).run


def _is_case(item: pytest.Item) -> bool:
    """Return whether an item is the test of a record."""
    return CASE in getattr(getattr(item, "callspec", None), "params", ())


def _runs(config: pytest.Config) -> "CaseRuns":
    found = config.stash.get(_RUNS, None)
    if found is None:
        module = import_module("assay.integrations.pytest.cases")
        found = module.CaseRuns(_folder(config), config.stash[_SESSION], root=config.rootpath, say=_say(config))
        config.stash[_RUNS] = found
    return found


def _say(config: pytest.Config) -> "Say | None":
    """Return a function that writes a line to the terminal, past pytest's capture; None without a terminal."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    # Without a terminal the lines would only fill the log of CI.
    if terminal is None or capture is None or not terminal.isatty:
        return None

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            terminal.ensure_newline()
            terminal.write_line(line)

    return say


def _folder(config: pytest.Config) -> Path:
    given: str | None = config.getoption("--assay-runs-dir")
    return config.invocation_params.dir / given if given else config.rootpath / str(config.getini("assay_runs_dir"))
