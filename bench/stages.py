"""Where the time of a JSONL file goes: `python bench/stages.py [legal|conversation ...]` prints each stage beside orjson per line.

The stages are those of `assay.datasets.parsing.fast_path`, called one by one on the same blocks; between two rounds orjson reads
the file, and a stage counts as a share of what orjson took just before and after it, so that a busy machine changes little.
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from assay.datasets.conversation_v1.fast import fast_path_for
from assay.datasets.legal_eval_v1.fast import ROW_SCHEMA
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.fast_path import RowSchema, _count_row_lines, _write_sorted, _write_values
from assay.datasets.parsing.hashing import convert_whole_floats, scan_values
from assay.datasets.parsing.scan import LineScanner
from assay.datasets.parsing.source import BATCH_BYTES, LineBlock, open_source
from generate import dataset
from page import table

MEGABYTES = 10
ROUNDS = 40
NEEDED = ("reading blocks", "typed decoding", "freeing the rows")
"""What anybody does who decodes the rows, whatever is checked."""
CHECKS = ("line feeds between rows", "rules that types cannot say", "strings of the text, escaped NUL")
OPEN = "strings of open values"
HASHES = ("strings, odd numbers and names of open values", "writing sorted", "SHA-256")
"""The first of them takes the place of counting the strings of open values alone."""
FILES = {"legal": "legal_eval_v1", "conversation": "conversation_v1"}
"""The contract of each kind of file."""
LINES = {
    **{stage: (stage,) for stage in NEEDED},
    "**decoding, nothing checked but types**": NEEDED,
    **{stage: (stage,) for stage in (*CHECKS, OPEN)},
    "**with all checks**": (*NEEDED, *CHECKS, OPEN),
    **{stage: (stage,) for stage in HASHES},
    "**with hashes**": (*NEEDED, *CHECKS, *HASHES),
}
"""The lines of the table and the stages that each adds up."""
Stages = dict[str, float]


def main() -> None:
    """Measure and print."""
    print(stages_table(sys.argv[1:] or tuple(FILES)))


def stages_table(names: Sequence[str] = tuple(FILES)) -> str:
    """Each stage as a share of what orjson takes per line, and in milliseconds."""
    measured = [_shares(dataset(name, MEGABYTES), _kind(name)) for name in names]
    rows = [["orjson per line", *[cell for _, yardstick in measured for cell in _cells(1, yardstick)]]]
    for line, stages in LINES.items():
        sums = [(sum(shares[stage] for stage in stages), yardstick) for shares, yardstick in measured]
        rows.append([line, *[cell for share, yardstick in sums for cell in _cells(share, yardstick)]])
    return table(("stage", *[heading for name in names for heading in (FILES[name], "ms")]), rows)


def _cells(share: float, yardstick: float) -> tuple[str, str]:
    return f"{share:.2f}", f"{share * yardstick * 1000:.1f}"


def _kind(name: str) -> RowSchema[Any]:
    if name == "legal":
        return ROW_SCHEMA
    fast_path = fast_path_for(ValidationConfig())
    assert fast_path is not None
    return fast_path._schema


def _shares(path: Path, kind: RowSchema[Any]) -> tuple[Stages, float]:
    """The median share of each stage, and the smallest time of orjson."""
    scanner = LineScanner(2 * BATCH_BYTES)
    found: dict[str, list[float]] = defaultdict(list)
    yardsticks = [_orjson(path)]
    for _ in range(ROUNDS):
        costs = _costs(path, kind, scanner)
        yardsticks.append(_orjson(path))
        for stage, cost in costs.items():
            found[stage].append(2 * cost / (yardsticks[-2] + yardsticks[-1]))
    return {stage: median(shares) for stage, shares in found.items()}, min(yardsticks)


def _orjson(path: Path) -> float:
    start = time.thread_time()
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)
    return time.thread_time() - start


def _digests(texts: list[bytes]) -> list[bytes]:
    return [sha256(text).digest() for text in texts]


def _costs(path: Path, kind: RowSchema[Any], scanner: LineScanner) -> Stages:
    """One pass over the file."""
    costs: Stages = defaultdict(float)

    def timed(stage: str, action: Callable[..., Any], *arguments: Any) -> Any:
        start = time.thread_time()
        result = action(*arguments)
        costs[stage] += time.thread_time() - start
        return result

    blocks: Iterator[LineBlock | None] = open_source(path).blocks()
    while block := timed("reading blocks", next, blocks, None):
        rows = timed("typed decoding", kind.decoder.decode_lines, block.view)
        timed("line feeds between rows", _count_row_lines, block, kind.brackets)
        written = timed("rules that types cannot say", kind.count_strings, rows)
        timed("strings of the text, escaped NUL", scanner.scan, block.view)
        timed(HASHES[0], scan_values, written.others)
        timed(HASHES[0], convert_whole_floats, written.numbered, kind.number)
        timed(OPEN, scanner.strings, timed(OPEN, _write_values, written.others))
        texts = timed("writing sorted", list, map(_write_sorted, rows))
        timed("SHA-256", _digests, texts)
        del written
        timed("freeing the rows", rows.clear)
    return costs


if __name__ == "__main__":
    main()
