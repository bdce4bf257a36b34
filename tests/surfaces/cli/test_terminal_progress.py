"""The progress bar: late, rare, and gone when something is printed."""

import io

from rich.console import Console

from assay.surfaces.cli.terminal_progress import ProgressMeter


class Screen:
    """A terminal that is text, and a clock that is set by hand."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        self.now = 0.0
        self.file = io.StringIO()
        console = Console(file=self.file, force_terminal=is_terminal, width=80, color_system=None, _environ={})
        self.meter = ProgressMeter(console=console, clock=lambda: self.now)
        self.meter.begin("big.json")

    def after(self, seconds: float, *, done: int) -> str:
        """What the terminal received so far when `done` of 100 bytes were read by then."""
        self.now = seconds
        self.meter.count(done, 100)
        return self.file.getvalue()


def test_nothing_is_drawn_in_the_first_second() -> None:
    assert Screen().after(0.99, done=50) == ""


def test_after_a_second_the_bar_shows_name_and_bytes() -> None:
    shown = Screen().after(1.01, done=50)
    assert "big.json" in shown
    assert "50/100 bytes" in shown


def test_the_bar_is_drawn_at_most_ten_times_a_second() -> None:
    screen = Screen()
    first = screen.after(1.01, done=50)
    assert screen.after(1.05, done=60) == first
    assert "70/100 bytes" in screen.after(1.2, done=70)


def test_without_a_terminal_nothing_is_ever_drawn() -> None:
    assert Screen(is_terminal=False).after(60, done=50) == ""


def test_hiding_erases_the_bar_and_the_next_count_draws_it_again() -> None:
    screen = Screen()
    screen.after(1.5, done=50)
    screen.meter.hide()
    erased = screen.file.getvalue()
    assert erased.endswith("\x1b[2K")
    assert "80/100 bytes" in screen.after(2.0, done=80).removeprefix(erased)


def test_markup_in_a_file_name_is_shown_as_it_is_written() -> None:
    screen = Screen()
    screen.meter.begin("[red]a[/red]\x1b[2J.json")
    assert "[red]a[/red]␛[2J.json" in screen.after(1.5, done=50)
