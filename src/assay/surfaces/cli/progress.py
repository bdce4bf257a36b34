"""Progress of a run on standard error: a live display on a terminal, otherwise a plain line now and then."""

from __future__ import annotations

import os
import sys
from collections import deque
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from assay import api
from assay.core.errors import StoreUnavailable
from assay.core.record_query import INVALID, STATUS_GROUPS
from assay.core.text import printable
from assay.presentation.words import ERROR, counted, dollars, duration, latency, percent, price_unknown_text
from assay.surfaces.cli import exits

if TYPE_CHECKING:
    from rich.console import Console

    from assay.surfaces.cli.terminal_progress import LiveDisplay

LINE_EVERY = 5.0
"""Seconds between two plain lines at least."""
BATCH_LINE_EVERY = 300.0
"""Seconds between two plain lines while a run waits for batches and nothing changes."""
WINDOW = 30.0
"""Seconds over which the rate is taken."""
MAX_CODES = 4
"""Error codes that are named; the others are added up."""
NAME_LIMIT = 60
PROBLEM_LIMIT = 160


class RunProgress:
    """Shows one run while it is under way; `watch` takes each snapshot."""

    def __init__(self, name: str, *, console: Console | None = None, is_quiet: bool = False, resume: str = "") -> None:
        self._name = printable(name, limit=NAME_LIMIT)
        self._resume = resume
        self._live = _live_display(console)
        self._is_quiet = is_quiet
        self._pace = Throughput()
        self._last: api.Snapshot | None = None
        self._has_begun = False
        self._said: api.Snapshot | None = None
        self._said_at = 0.0
        self._said_of_batch: list[str] = []
        self._said_problem = ""
        self._has_said_stopping = False
        self._has_warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            with exits.lost_terminal_ignored():
                self._live.stop()
        elif self._last is not None and self._last is not self._said:
            self._say(self._last)
        # With a run that has begun there is something to resume, after any kind of stop.
        if isinstance(error, KeyboardInterrupt | StoreUnavailable) and self._resume and self._has_begun:
            click.echo(f"assay: progress is saved; resume with: {printable(self._resume)}", err=True)

    def announce(self, what: str) -> None:
        """Print the run's name before it starts, so that a log has the id to resume it by; the live display shows it anyway."""
        if not self._is_quiet and self._live is None:
            click.echo(f"run {self._name} · {printable(what)}", err=True)

    def watch(self, now: api.Snapshot) -> None:
        """Show the run as it stands now."""
        self._has_begun = True
        with exits.lost_terminal_ignored():
            self._show(now)

    def _show(self, now: api.Snapshot) -> None:
        if self._is_quiet:
            self._warn(now)
            return
        self._pace.note(now)
        self._last = now
        if self._live is not None:
            self._live.draw(self._name, now, speed=" · ".join(_speed(now, self._pace)), notes=_notes(now))
        # At once: the reader pressed Ctrl-C and waits for a confirmation.
        elif now.is_stopping and not self._has_said_stopping:
            self._has_said_stopping = True
            self._say(now)
        elif self._is_due(now):
            self._say(now)

    def _is_due(self, now: api.Snapshot) -> bool:
        """Return whether to print a line: for batches when their state changed, and rarely otherwise, since they may take a day."""
        silent = now.elapsed_s - self._said_at
        if now.batch is None:
            return silent >= LINE_EVERY or now.problem != self._said_problem
        return (batch_words(now) != self._said_of_batch and silent >= 1) or silent >= BATCH_LINE_EVERY

    def wait_for_other(self, process_id: int | None) -> None:
        """Print that another process executes the run, and that this one waits for it."""
        who = f"process {process_id}" if process_id else "another process"
        click.echo(f"assay: {who} works on {self._name}; waiting for it", err=True)

    def _warn(self, now: api.Snapshot) -> None:
        """Print once, also with --quiet, why nothing happens: the cause may need a user to fix it."""
        # Once, since --quiet is for logs in which a repeated line is noise.
        if now.problem and not self._has_warned:
            self._has_warned = True
            click.echo(f"assay: {_problem(now)[0]}", err=True)

    def _say(self, now: api.Snapshot) -> None:
        self._said = now
        self._said_at, self._said_of_batch, self._said_problem = now.elapsed_s, batch_words(now), now.problem
        click.echo(plain_line(now, self._pace), err=True)


class Throughput:
    """Records per second over the last half minute."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, now: api.Snapshot) -> None:
        """Add a snapshot."""
        self._seen.append((now.elapsed_s, now.done))
        # One snapshot older than the window stays, so that the rate covers all of it.
        while len(self._seen) > 2 and now.elapsed_s - self._seen[1][0] >= WINDOW:
            self._seen.popleft()

    @property
    def rate(self) -> float | None:
        """Records per second; None until a record is done."""
        if not self._seen:
            return None
        (start, before), (end, after) = self._seen[0], self._seen[-1]
        return (after - before) / (end - start) if after > before and end > start else None

    def seconds_left(self, now: api.Snapshot) -> float | None:
        """Estimate the seconds for the remaining records at this rate."""
        rate = self.rate
        return None if rate is None else (now.total - now.done) / rate


def plain_line(now: api.Snapshot, pace: Throughput) -> str:
    """Format the progress of a run as one line of a log."""
    if now.batch is not None:
        return " · ".join([f"{_state(now)}{batch_words(now)[0]}", *batch_words(now)[1:], f"{duration(now.elapsed_s)} so far"])
    words = [f"{_state(now)}{now.done:,}/{now.total:,} records", percent(now.done, now.total), *_speed(now, pace), *_records(now)]
    return " · ".join([*words, *_calls(now), *_errors(now), *_problem(now)])


def batch_words(now: api.Snapshot) -> list[str]:
    """Describe the state of the batches at their provider; empty if the run waits for none."""
    if now.batch is None:
        return []
    batch = now.batch
    # "1 of 1 batches" is not correct English.
    collected = f"{batch.merged:,} of {batch.batches:,} batches" if batch.batches != 1 else f"{batch.merged} of 1 batch"
    merged = f"{collected} collected" if batch.batches else "writing batches"
    problem = [f"last error: {printable(batch.problem, limit=PROBLEM_LIMIT)}"] if batch.problem else []
    return [merged, *([f"{batch.done:,}/{batch.requests:,} requests done"] if batch.requests else []), *problem]


def _notes(now: api.Snapshot) -> dict[str, str]:
    """Return the lines below the progress bar, with their styles."""
    if now.batch is not None:
        leave = {} if now.is_stopping else {"Ctrl-C exits; the batches continue, and assay resume collects them": "dim"}
        return {" · ".join(["waiting for the provider", *batch_words(now)]): "", **leave, **_stopping_note(now)}
    notes = {" · ".join([*_under_way(now), *_records(now)]): ""}
    if calls := _calls(now):
        notes[" · ".join(calls)] = "dim"
    if errors := _errors(now):
        notes[" · ".join(errors)] = "yellow"
    return {**notes, **dict.fromkeys(_problem(now), "yellow"), **_stopping_note(now)}


def _stopping_note(now: api.Snapshot) -> dict[str, str]:
    return {"stopping: waiting for the calls in flight; Ctrl-C again stops at once": "bold yellow"} if now.is_stopping else {}


def _live_display(console: Console | None) -> LiveDisplay | None:
    """Create the live display on a terminal; otherwise rich is not loaded."""
    # The variables by which CI systems say that they render colours and cursor movements of a pipe.
    is_forced = bool(os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"))
    if console is None and not is_forced and not (sys.stderr is not None and sys.stderr.isatty()):
        return None
    display: LiveDisplay = import_module("assay.surfaces.cli.terminal_progress").LiveDisplay(console)
    # rich decides: a dumb terminal cannot redraw lines.
    return display if display.is_terminal else None


def _state(now: api.Snapshot) -> str:
    if now.is_stopping:
        return "stopping · "
    return "" if now.state == "running" else f"{now.state} · "


def _speed(now: api.Snapshot, pace: Throughput) -> list[str]:
    rate, left = pace.rate, pace.seconds_left(now)
    parts = [f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"] if rate is not None else []
    parts += [f"{duration(left)} left"] if left and now.done < now.total else []
    return [*parts, f"{duration(now.elapsed_s)} so far"] if now.done < now.total else [*parts, duration(now.elapsed_s)]


def _under_way(now: api.Snapshot) -> list[str]:
    if now.total and now.done == now.total:
        return ["writing the artifacts"]
    state = "" if now.state == "running" else now.state
    waiting = f"{now.waiting:,} waiting for a retry" if now.waiting else ""
    # Workers elsewhere report records only; 0 calls would be a measurement that was not made.
    calls = f"{now.in_flight:,} calls in flight" if now.knows_calls else ""
    return [part for part in (state, calls, waiting) if part]


def _records(now: api.Snapshot) -> list[str]:
    """Format the counts as the report does: `390 graded`, `10 errors`, `2 of them invalid`."""
    counts = {status: count for status, count in sorted(now.by_status.items()) if count}
    errors = sum(counts.pop(status, 0) for status in STATUS_GROUPS["error"])
    invalid = now.by_status.get(INVALID, 0)
    return [
        *(f"{counts.pop(status):,} graded" for status in ("evaluated",) if status in counts),
        *([counted(errors, ERROR)] if errors else []),
        *([f"{invalid:,} of them invalid"] if invalid else []),
        *(f"{count:,} {status}" for status, count in counts.items()),
    ]


def _calls(now: api.Snapshot) -> list[str]:
    if not now.knows_calls:
        return []
    parts = [counted(now.calls, "call")]
    if now.p50_ms is not None:
        parts.append(f"p50 {latency(now.p50_ms)}, p95 {latency(now.p95_ms)}")
    unknown = price_unknown_text(now.unknown_costs, "call")
    # Without single calls, answers of batches may have an unknown price.
    known = dollars(now.cost) if now.cost or (now.calls and not unknown) else ""
    return [*parts, *filter(None, (known, unknown))]


def _problem(now: api.Snapshot) -> list[str]:
    return [printable(now.problem, limit=PROBLEM_LIMIT)] if now.problem else []


def _errors(now: api.Snapshot) -> list[str]:
    ordered = sorted(now.errors.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{printable(code, limit=NAME_LIMIT)} {count:,}" for code, count in ordered[:MAX_CODES]]
    rest = sum(count for _, count in ordered[MAX_CODES:])
    return [f"errors: {', '.join([*named, *([f'others {rest:,}'] if rest else [])])}"] if ordered else []
