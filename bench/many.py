"""What many rows cost: CPU for each and memory at the peak, of validation, planning, a run and a look at it; nothing is asserted.

Every measurement is a fresh process. `--rows N` takes other sizes, `--write` renews docs/explanation/large-datasets.md.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cases import given_files, question
from generate import CACHE
from measure import HERE, Cost, measure, provider
from page import setting_line, table, version_of
from run import KEY, done, folder
from stub import CANDIDATE
from validate import show_progress

PAGE = HERE.parent / "docs" / "explanation" / "large-datasets.md"
SIZES, QUICK = (10_000, 100_000, 1_000_000), (1_000, 10_000)
FILES = 20
"""Into which the rows of a folder are divided."""
HEAVY, HEAVY_BYTES = 400, 1_000_000
ASSAY = (sys.executable, "-m", "assay")
RUN_ID = "many"
MEGABYTE = 1_000_000


class Row(NamedTuple):
    """What one command costs over so many rows."""

    command: str
    rows: int
    cost: Cost

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        each = self.cost["cpu"] / self.rows * 1_000_000
        return self.command, f"{self.rows:,}", f"{self.cost['cpu']:.1f}", f"{each:.0f}", f"{self.cost['memory'] / MEGABYTE:.0f}"


def main() -> None:
    """Measure, print, and keep the tables."""
    parser = argparse.ArgumentParser(prog="bench many", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK[0]:,} and {QUICK[1]:,} rows")
    parser.add_argument("--rows", type=int, action="append", metavar="N", help="so many rows; may be repeated")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="has no effect: each size is measured once")
    parser.add_argument("--write", action="store_true", help="renew the page in docs/explanation")
    options = parser.parse_args()
    sizes = options.rows or (QUICK if options.quick else SIZES)
    tables = rows_table([row for size in sizes for row in measured(size)]), heavy_table()
    show_progress("")
    print("\n\n".join(tables))
    if options.write:
        setting = setting_line({name: version_of(name) for name in ("assay", "msgspec", "orjson", "numpy")}, repeat=1)
        PAGE.write_text(TEXT.format(setting=setting, rows=tables[0], heavy=tables[1]), encoding="utf-8")
        print(f"\nwritten: {PAGE}")


def measured(rows: int) -> Iterator[Row]:
    """Each command over questions whose answers are given."""
    questions, answers = given_files(rows)
    given = ("--responses", answers)
    with folder() as place:
        runs = ("--runs-dir", place)
        commands: dict[str, Sequence[object]] = {
            "validate": ("validate", questions),
            "run --dry-run": ("run", questions, *given, *runs, "--dry-run"),
            f"run --dry-run, {FILES} files": ("run", in_files(questions, rows), *given, *runs, "--dry-run"),
            "run": ("run", questions, *given, *runs, "--run-id", RUN_ID, "--json"),
            "show": ("show", RUN_ID, *runs),
            "verify": ("verify", RUN_ID, *runs),
        }
        for name, words in commands.items():
            show_progress(f"{name}, {rows:,} rows")
            yield Row(name, rows, done(measure([*ASSAY, *words])))


def in_files(questions: Path, rows: int) -> Path:
    """The same rows in a folder of files, made on first use."""
    divided = CACHE / f"{questions.stem}_in_{FILES}"
    if not divided.exists():
        partial = divided.with_suffix(".partial")
        partial.mkdir()
        with questions.open("rb") as lines:
            for number in range(FILES):
                with (partial / f"part-{number:02}.jsonl").open("wb") as part:
                    part.writelines(next(lines) for _ in range(rows * number // FILES, rows * (number + 1) // FILES))
        partial.rename(divided)
    return divided


def heavy_table() -> str:
    """Few records that are large, with as many calls in flight as fit."""
    path = CACHE / f"heavy_{HEAVY}.jsonl"
    if not path.exists():
        padding = "The parties agree. " * (HEAVY_BYTES // 19)
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps({**question(number), 'context': padding})}\n" for number in range(HEAVY))
    rows = []
    for slots in (8, 64):
        show_progress(f"{HEAVY} records of a megabyte, {slots} at once")
        with provider() as stub, folder() as place:
            options = ("--model", f"openai/{CANDIDATE}", "--concurrency", str(slots), "--runs-dir", place, "--json")
            environ = {"OPENAI_BASE_URL": stub.base_url, "OPENAI_API_KEY": KEY}
            cost = done(measure([*ASSAY, "run", path, *options], environ))
        rows.append((f"{HEAVY:,}", f"{slots}", f"{cost['cpu']:.1f}", f"{cost['memory'] / MEGABYTE:.0f}"))
    return table(("records of 1 MB", "calls in flight", "CPU s", "peak memory MB"), rows)


def rows_table(rows: list[Row]) -> str:
    """One command after the other, each with all sizes."""
    names = dict.fromkeys(row.command for row in rows)
    ordered = [row.cells for name in names for row in rows if row.command == name]
    return table(("command", "rows", "CPU s", "µs CPU for each", "peak memory MB"), ordered)


TEXT = """# Cost of large datasets

A [folder or a file of millions of rows](../how-to/run-large-datasets.md) is validated, planned, run and sealed in one process.
This page says what each step costs. `make bench ARGS=many` measures it again, `ARGS="many --rows 2000000"` with another size, and
`ARGS="many --write"` renews this page.

{setting}

## Rows

Questions of multiple choice (`legal_eval_v1`, 480 bytes each) whose answers stand in a file: all of the time is assay's own.

{rows}

What stays in memory for each row is 30 to 75 bytes, and never a text: a hash of its id while files are checked, the place of its
answer while answers are looked up, its scores and its place in each slice at the end; about twice that where latencies, tokens and
costs are known. The metrics are made in one pass over the ledger, and the resampling behind an interval draws counts of scores,
not records: it costs the same for a thousand rows and for millions. A run of 2,000,000 such rows had about 3 GB of ledger while it
worked and 6.3 GB of artifacts at its end; `assay serve` showed its first page within half a second.

## Large records

Each is one call of a candidate on the same machine.

{heavy}

A shard ends at 250 records or 8 MB, and no further one is begun while 128 MB are in hand.

## How it was measured

- Every figure is of a fresh process, from its start to its end, imports included: user and system time, and its largest resident
  memory. Each is measured once.
- `run --dry-run` reads, validates and hashes the datasets, looks up every answer and plans; `run` does that and everything else,
  up to sealed artifacts. The files of a folder hold the same rows, whose ids are then also compared between files.
- Folders are on the disk of the repository.
"""


if __name__ == "__main__":
    main()
