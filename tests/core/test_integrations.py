"""Integrations are optional: the core runs without any of them, and what needs a missing one says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.core.errors import MissingExtra
from assay.core.integrations import load_integration
from tests.surfaces.server.serving import Serving, dataset

ROOT = Path(__file__).parents[2]
INTEGRATIONS = sorted(path.name for path in (ROOT / "src/assay/integrations").iterdir() if (path / "__init__.py").is_file())
ANSWERS = str(ROOT / "examples/batch_v1/support-answers.json")
RUN = ("run", ANSWERS, "--model", "scripted/say-4", "--judge", "scripted/judge-5", "--quiet")
LEDGER = ("--ledger", "postgresql://nobody@localhost/none")
NEEDS = [
    ("importers", "assay import", ("import", "capitals.eval", "-o", "capitals.jsonl")),
    ("mlflow", "assay mlflow", ("mlflow", "push", "first", "--uri", "http://localhost:1")),
    ("mlflow", "--mlflow", (*RUN, "--mlflow", "http://localhost:1")),
    ("telemetry", "--otel", (*RUN, "--otel")),
    ("telemetry", "--log-format", (*RUN, "--log-format", "json")),
    ("telemetry", "--metrics-file", (*RUN, "--metrics-file", "run.prom")),
    ("temporal", "the engine", ("worker", "--temporal", "localhost:1", *LEDGER)),
    ("postgres", "a shared ledger", (*RUN, *LEDGER)),
    ("object_store", "an object store", ("publish", "first", "s3://runs/nightly")),
    ("object_store", "an object store", ("fetch", "s3://runs/nightly/first")),
    ("object_store", "an object store", ("verify", "s3://runs/nightly/first")),
    ("object_store", "an object store", (*RUN, "--store", "s3://runs/nightly")),
]
"""For each integration, who needs it, and a command."""


def without(names: tuple[str, ...], *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as if the folders of these integrations, or all of them, were deleted."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "tests.without_integrations", *names, "--", *command]
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was made without any integration."""
    made = tmp_path_factory.mktemp("without")
    assert without((), *RUN, "--run-id", "first", folder=made).returncode == 0
    return made


@pytest.mark.parametrize(
    "command",
    [
        ("--help",),
        ("validate", ANSWERS),
        ("convert", "--help"),
        ("runs",),
        ("show", "first"),
        ("compare", "first", "first"),
        ("verify", "first"),
        ("replay", "first"),
        ("export", "first", "-o", "first.csv"),
        ("report", "first", "-o", "first.html"),
        ("charts", "first", "-o", "charts"),
        ("label", "first", "-o", "labels.csv"),
        ("plugins",),
        ("serve", "--help"),
        ("worker", "--help"),
        ("init", "started"),
    ],
    ids=" ".join,
)
def test_without_any_integration_a_command_works(command: tuple[str, ...], folder: Path) -> None:
    done = without((), *command, folder=folder)
    assert (done.returncode, done.stderr) == (0, "")


class ServingWithout(Serving):
    """A service without integrations."""

    def command(self) -> list[str]:
        python, *_, serve = super().command()[:4]
        return [python, "-m", "tests.without_integrations", "--", serve, *super().command()[4:]]


def test_without_any_integration_the_service_evaluates_and_shows_its_pages_and_its_own_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with ServingWithout(tmp_path) as server:
        run_id = server.submit(dataset()).json["run_id"]
        assert server.ended(run_id)["state"] == "completed"
        pages = [server.ask("GET", address).status for address in ("/runs", f"/runs/{run_id}", f"/runs/{run_id}/records", "/docs")]
        metrics = server.ask("GET", "/metrics").body.decode()
    assert pages == [200, 200, 200, 200]
    assert "assay_http_requests_total" in metrics
    assert "assay_records_total" not in metrics


@pytest.mark.parametrize(("name", "user", "command"), NEEDS, ids=lambda value: value[0] if isinstance(value, tuple) else value)
def test_what_needs_a_missing_integration_names_it(name: str, user: str, command: tuple[str, ...], folder: Path) -> None:
    done = without((name,), *command, folder=folder)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        f"assay: {user} needs the integration '{name}', which is not installed",
        "hint: install all parts of assay: pip install --force-reinstall assay",
    ]


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_run_misses_none_of_the_integrations(name: str, folder: Path) -> None:
    assert without((name,), *RUN, "--run-id", f"no-{name}", folder=folder).returncode == 0


def test_every_integration_but_that_of_pytest_is_declared_under_the_name_of_its_folder() -> None:
    assert {*INTEGRATIONS} - {"pytest"} == {name for name, _, _ in NEEDS}
    for name in {*INTEGRATIONS} - {"pytest"}:
        assert load_integration(name, user="a test").__name__ == f"assay.integrations.{name}"


def test_a_part_that_no_distribution_declares_is_missing() -> None:
    with pytest.raises(MissingExtra, match="a test needs the integration 'nothing', which is not installed"):
        load_integration("nothing", user="a test")


def test_the_former_name_of_the_mlflow_integration_still_works() -> None:
    import assay.integrations.mlflow  # noqa: PLC0415
    import assay.surfaces.mlflow  # noqa: PLC0415

    with pytest.warns(DeprecationWarning, match=r"assay\.integrations\.mlflow"):
        assert assay.surfaces.mlflow.Destination is assay.integrations.mlflow.Destination
