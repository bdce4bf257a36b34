"""The display of a run under way: live on a terminal, a line now and then elsewhere."""

import io
import re

import pytest
from rich.console import Console

from assay.api import Snapshot
from assay.core.errors import StoreUnavailable
from assay.surfaces.cli.progress import RunProgress, Throughput, plain_line
from tests.surfaces.conftest import HOSTILE


def at(elapsed_s: float, done: int, **changes: object) -> Snapshot:
    """A run of 2,000 records at some moment."""
    given: dict[str, object] = {
        "state": "running",
        "total": 2_000,
        "done": done,
        "by_status": {"evaluated": done},
        "errors": {},
        "calls": 2 * done,
        "in_flight": 32,
        "waiting": 0,
        "cost": 0.4312,
        "unknown_costs": 0,
        "p50_ms": 812.0,
        "p95_ms": 2_140.0,
        "elapsed_s": elapsed_s,
    }
    return Snapshot(**{**given, **changes})  # type: ignore[arg-type]


class Screen:
    """A terminal, or a log, that is text."""

    def __init__(self, *, is_terminal: bool = True, width: int = 100) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=is_terminal, width=width, color_system=None, _environ={})

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.file.getvalue())


def test_even_a_quiet_run_says_once_what_holds_it_up(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress("nightly", is_quiet=True) as progress:
        progress.watch(at(1.0, 0))
        progress.watch(at(2.0, 0, problem="the disk is full"))
        progress.watch(at(3.0, 0, problem="the disk is full"))
    assert capsys.readouterr().err == "assay: the disk is full\n"


def test_the_live_display_shows_counts_rate_rest_cost_latencies_and_errors() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 0))
        progress.watch(at(20.0, 400, errors={"rate_limited": 31, "timeout": 4}, unknown_costs=12, waiting=5))
    for wanted in (
        "nightly",
        "400/2,000",
        "20 %",
        "40/s · 40 s left · 20 s so far",
        "32 calls in flight · 5 waiting for a retry · 400 graded",
        "800 calls · p50 812 ms, p95 2.1 s · $0.4312 · price unknown for 12 calls",
        "errors: rate_limited 31, timeout 4",
    ):
        assert wanted in screen.text


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_of_the_live_display_is_broken(width: int) -> None:
    screen = Screen(width=width)
    with RunProgress("run_01M7HQZ4Y8D562GN2", console=screen.console) as progress:
        progress.watch(at(10.0, 0))
        progress.watch(at(653.0, 1_400))
    assert "2.2/s · 4 min 36 s left · 10 min 53 s so far" in screen.text
    assert "1,400/2,000" in screen.text


def test_the_live_display_says_that_a_run_is_being_sealed() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 2_000, in_flight=0))
    assert "writing the artifacts · 2,000 graded" in screen.text


def test_the_live_display_is_gone_at_the_end() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 100))
    assert screen.file.getvalue().endswith("\x1b[2K")


def test_a_stopping_run_says_what_it_waits_for() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 100, is_stopping=True))
    assert "stopping: waiting for the calls in flight; Ctrl-C again stops at once" in screen.text


def test_markup_and_escapes_of_others_are_shown_as_they_are_written() -> None:
    screen = Screen()
    with RunProgress("nightly", console=screen.console) as progress:
        progress.watch(at(10.0, 100, errors={HOSTILE: 1}))
    assert "␛[31mred␛[0m [red]x[/red]" in screen.text


def test_without_a_terminal_there_is_a_line_every_five_seconds_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress("nightly", console=Screen(is_terminal=False).console) as progress:
        for quarter in range(48):
            progress.watch(at(quarter / 4, quarter * 10))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["200/2,000 records", "400/2,000 records", "470/2,000 records"]


def test_a_plain_line_has_everything_that_the_display_has() -> None:
    pace = Throughput()
    now = at(10.0, 400, state="retrying", by_status={"evaluated": 390, "timeout": 10}, errors=dict.fromkeys("abcdef", 2))
    for snapshot in (at(0.0, 0), now):
        pace.note(snapshot)
    assert plain_line(now, pace) == (
        "retrying · 400/2,000 records · 20 % · 40/s · 40 s left · 10 s so far · 390 graded · 10 errors"
        " · 800 calls · p50 812 ms, p95 2.1 s · $0.4312 · errors: a 2, b 2, c 2, d 2, others 4"
    )


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    pace = Throughput()
    for second in range(100):
        pace.note(at(float(second), 0 if second < 60 else 10 * (second - 60)))
    assert pace.rate == pytest.approx(10.0)


def test_a_resumed_run_is_not_credited_with_what_was_done_before() -> None:
    pace = Throughput()
    pace.note(at(0.0, 1_000))
    assert pace.rate is None
    pace.note(at(10.0, 1_100))
    assert pace.seconds_left(at(10.0, 1_100)) == pytest.approx(90.0)


def test_a_quiet_run_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(is_terminal=False)
    with RunProgress("nightly", console=screen.console, is_quiet=True) as progress:
        progress.announce("6 records")
        progress.watch(at(10.0, 100))
    assert (capsys.readouterr().err, screen.text) == ("", "")


def test_a_run_that_another_process_works_on_is_waited_for_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    RunProgress("nightly").wait_for_other(4711)
    assert capsys.readouterr().err == "assay: process 4711 works on nightly; waiting for it\n"


def test_a_full_disk_ends_with_the_way_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress("nightly", is_quiet=True, resume="assay resume nightly")
    progress.watch(at(10.0, 100))
    with pytest.raises(StoreUnavailable), progress:
        raise StoreUnavailable("no space left on device")
    assert capsys.readouterr().err == "assay: progress is saved; resume with: assay resume nightly\n"


def test_a_run_that_never_began_is_not_said_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(StoreUnavailable), RunProgress("nightly", resume="assay resume nightly"):
        raise StoreUnavailable("no such folder")
    assert capsys.readouterr().err == ""


def test_a_log_says_the_end_once(capsys: pytest.CaptureFixture[str]) -> None:
    with RunProgress("nightly") as progress:
        progress.watch(at(1.0, 10))
        progress.watch(at(8.0, 2_000))
    assert capsys.readouterr().err.count("2,000/2,000 records") == 1
