"""How all tests run: seeded property tests, and the heaviest ones on demand only."""

import compileall
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from assay.core.provider import PROVIDERS
from assay.testing import example_dataset

if TYPE_CHECKING:
    from tests.store.databases import Database

HEAVY = "ASSAY_HEAVY"
Put = Callable[..., Path]
SOURCE = Path(__file__).parent.parent / "src"
CHANGING = (
    *("GITHUB_ACTIONS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("ASSAY_RUNS_DIR", "ASSAY_LEDGER", "ASSAY_STORE", "ASSAY_ENGINE", "ASSAY_KEY", "ASSAY_TRACEBACK"),
    *("ASSAY_LOG", "ASSAY_OTEL", "ASSAY_HOST", "ASSAY_PORT", "ASSAY_SERVER_CONFIG"),
    *("ASSAY_TEMPORAL", "ASSAY_TEMPORAL_TLS", "ASSAY_TEMPORAL_VERSIONED"),
)
"""Variables of a runner, a terminal or a developer that change what commands do or print."""

# Pytest rewrites the assertions of some 800 modules of ours in each of its processes, and keeps them only where it may: the next
# time each process begins seconds earlier. Whoever sets PYTHONDONTWRITEBYTECODE wants that for the programs that tests start.
sys.dont_write_bytecode = False

settings.register_profile("seeded", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("unlimited", deadline=None, max_examples=5000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("ASSAY_HYPOTHESIS", "seeded"))


def pytest_configure(config: pytest.Config) -> None:
    # No test may ask a vendor for a developer's money.
    for vendor in filter(None, (row.vendor for row in PROVIDERS.values())):
        for name in (*vendor.key_variables(), *vendor.region_variables, *vendor.version_variables, vendor.url_variable):
            os.environ.pop(name, None)
    for name in CHANGING:
        os.environ.pop(name, None)
    # A shell lets what it starts in the background ignore Ctrl-C, and nohup a hang-up. Commands that a test interrupts would too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    config.addinivalue_line("markers", f"heavy: needs minutes or gigabytes; runs where {HEAVY} is set, as in make fuzz")
    if not hasattr(config, "workerinput"):
        # Tests start hundreds of processes, and each would compile the package where PYTHONDONTWRITEBYTECODE is set.
        compileall.compile_dir(SOURCE, quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Look for no garbage among what is collected: it stays to the end, and each look takes a second or so."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason=f"{HEAVY} is not set")
    for item in items:
        if item.get_closest_marker("heavy") and not os.environ.get(HEAVY):
            item.add_marker(skip)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a golden dataset, where no setting of whoever runs the tests leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_RUNS_DIR", raising=False)
    Path("golden.json").write_bytes(example_dataset("golden_v1"))
    return tmp_path


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a value as a file of that name."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    return write


@pytest.fixture(scope="session")
def database() -> "Iterator[Database]":
    """A PostgreSQL that runs as long as the tests."""
    from tests.store.databases import running_database  # noqa: PLC0415  # most tests need none

    with running_database() as database:
        yield database
