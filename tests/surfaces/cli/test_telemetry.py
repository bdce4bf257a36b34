"""Options of telemetry on the command line."""

from pathlib import Path

import pytest

from tests.integrations.telemetry.test_json_log import run

pytestmark = pytest.mark.usefixtures("workplace")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--otel-content"], "--otel-content needs --otel"),
        (["--log-file", "x"], "--log-file needs --log-format"),
        (["--metrics-file", "none/x.prom"], "--metrics-file 'none/x.prom': there is no folder 'none'"),
        (["--log-format", "json", "--log-file", "none/x"], "--log-file 'none/x': no such file or directory"),
        (["--log-format", "jsn"], "invalid value for '--log-format': 'jsn' is not"),
    ],
)
def test_what_does_not_fit_together_is_said_before_any_call(workplace: Path, options: list[str], message: str) -> None:
    result = run(*options)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert not (workplace / "runs" / "told").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_costs_lines_and_figures_and_not_the_run() -> None:
    result = run("--quiet", "--log-format", "json", "--log-file", "/dev/full", "--metrics-file", "/dev/full")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "assay: 7 lines of the log could not be written",
        "assay: --metrics-file '/dev/full' could not be written: no space left on device",
    ]


@pytest.mark.parametrize("option", ["--otel", "--log-format=json", "--metrics-file=x.prom"])
def test_a_server_elsewhere_tells_of_its_runs_itself(option: str) -> None:
    result = run(option, "--server", "http://127.0.0.1:9")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, f"assay: {option.split('=')[0]} cannot be used with --server")


def test_a_file_that_a_server_elsewhere_would_not_fill_is_refused() -> None:
    result = run("--log-file", "x.log", "--server", "http://127.0.0.1:9", ASSAY_LOG="json")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "assay: --log-file cannot be used with --server")
