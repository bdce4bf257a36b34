"""`python -m tests.chaos`: ends, freezes and restarts the parts of a run on many machines, and checks that nothing is lost."""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.fleet import Fleet, Setting, standing_fleet
from tests.chaos.servers import kill_server, kill_working_server
from tests.chaos.trials import RECOVERY_LIMIT, Finding, tried
from tests.integrations.temporal.machines import running_temporal
from tests.store.databases import running_database

HEADINGS = ("fault", "times", "lost", "duplicated", "calls repeated (allowed)", f"recovery s (limit {RECOVERY_LIMIT:g})", "verdict")

TRIALS: dict[str, Callable[[Fleet, str, random.Random], Finding]] = {
    **{name: partial(tried, fault=fault) for name, fault in FAULTS.items()},
    "API server killed": kill_server,
    "API server at work killed": kill_working_server,
}


def main() -> int:
    """0 when every run came out as it should."""
    options = _options()
    begun = time.monotonic()
    with running_database() as database, running_temporal() as temporal, tempfile.TemporaryDirectory() as folder:
        _say(f"a run in peace of {options.records} records, then faults with {options.workers} workers")
        setting = Setting(workers=options.workers, records=options.records, shards=options.shards)
        with standing_fleet(Path(folder), temporal, database, setting) as fleet:
            found = {name: _trials(fleet, name, options) for name in options.only or TRIALS}
    _say("", *_table([HEADINGS, *(_row(name, findings) for name, findings in found.items())]))
    problems = [f"{name}: {line}" for name, findings in found.items() for finding in findings for line in _problems(finding)]
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[2]:.0f}"
    _say("", f"{len(problems)} problems, {time.monotonic() - begun:.0f} s on {machine}", *problems[:40])
    return int(bool(problems))


def _trials(fleet: Fleet, name: str, options: argparse.Namespace) -> list[Finding]:
    findings = []
    for number in range(options.times):
        chance = random.Random(f"{options.seed} {name} {number}")
        found = TRIALS[name](fleet, f"{name.replace(' ', '-').lower()}-{number}", chance)
        findings.append(found)
        recovery = "" if found.recovery is None else f", recovery {found.recovery:.1f} s"
        repeated = f"{found.repeated} of {found.bound} calls repeated"
        _say(f"{name} {number + 1}: {found.seconds:.0f} s, {repeated}{recovery}", *(f"  {line}" for line in _problems(found)[:10]))
    return findings


def _problems(found: Finding) -> list[str]:
    if found.recovery is not None and found.recovery > RECOVERY_LIMIT:
        return [*found.problems, f"it took {found.recovery:.1f} s until somebody went on"]
    return found.problems


def _row(name: str, findings: list[Finding]) -> tuple[str, ...]:
    recoveries = [found.recovery for found in findings if found.recovery is not None]
    return (
        name,
        str(len(findings)),
        str(sum(found.lost for found in findings)),
        str(sum(found.duplicated for found in findings)),
        f"{sum(found.repeated for found in findings)} ({sum(found.bound for found in findings)})",
        f"{max(recoveries):.1f}" if recoveries else "",
        "FAILED" if any(_problems(found) for found in findings) else "ok",
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, tuple("-" * width for width in widths))
    return [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--times", type=int, default=2, help="how often each fault happens, each time to another run")
    parser.add_argument("--only", action="append", choices=TRIALS, metavar="FAULT", help=f"only this one: {', '.join(TRIALS)}")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--shards", type=int, default=1, help="shards that each worker has in hand at most")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
