"""A run as a folder that Hugging Face `datasets` loads: the records as Parquet, and a card that describes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from assay.api import SCORE_MEMBERS, TABLE_COLUMNS, Run, run_facts
from assay.surfaces.exports.parquet_file import parquet_chunks
from assay.surfaces.exports.telling import Teller
from assay.surfaces.reporters.markdown import code
from assay.surfaces.reporters.run_numbers import with_interval

CARD = "README.md"
RECORDS = Path("data", "test-00000-of-00001.parquet")
"""Evaluations are a test split; the name is the one that the hub expects of a split in one part."""

_KINDS = {
    "text": "string",
    "json": "string",
    "number": "float64",
    "count": "int64",
    "truth": "bool",
    "time": "timestamp[us, tz=UTC]",
}


def write_folder(run: Run, folder: Path, *, teller: Teller) -> None:
    """The files of the folder; raises MissingExtra without pyarrow."""
    records = folder / RECORDS
    records.parent.mkdir(parents=True)
    with records.open("xb") as file:
        for chunk in parquet_chunks(run, teller):
            file.write(chunk)
    card = "".join(_card(run)).encode("utf-8", "replace")
    (folder / CARD).write_bytes(card)


def is_export(folder: Path) -> bool:
    """True for a folder that holds such an export and nothing else."""
    return {path.name for path in folder.iterdir()} <= {CARD, RECORDS.parts[0]} and (folder / CARD).is_file()


def _card(run: Run) -> Iterator[str]:
    yield f"---\n{yaml.safe_dump(_front(run), sort_keys=False, allow_unicode=True)}---\n\n"
    yield f"# {code(run.folders.run_id)}\n\n"
    yield "The records of a run of assay: what was asked, what the candidate answered, and how it was graded.\n"
    yield "A record without a grade has no score; why is in `error_code`. The columns `metadata`, `panel`, `judge_costs` and\n"
    yield "`profile_bounds` hold JSON.\n\n"
    yield '```python\nfrom datasets import load_dataset\n\nrecords = load_dataset("path/of/this/folder", split="test")\n```\n\n'
    yield "## Figures\n\n| figure | value | records |\n|---|---:|---:|\n"
    yield from (f"| {name} | {value} | {n:,} |\n" for name, value, n in _figures(run))
    yield "\nNumbers in brackets are 95 % intervals.\n\n## Origin\n\n| fact | value |\n|---|---|\n"
    yield from (f"| {name} | {code(value)} |\n" for name, value in run_facts(run).items())


def _front(run: Run) -> dict[str, Any]:
    return {
        "pretty_name": run.folders.run_id,
        "tags": ["evaluation", "assay"],
        "configs": [{"config_name": "default", "data_files": [{"split": "test", "path": RECORDS.as_posix()}]}],
        "dataset_info": {"features": [{"name": name, **_feature(kind)} for name, kind in TABLE_COLUMNS.items()]},
    }


def _feature(kind: str) -> dict[str, Any]:
    if kind == "scores":
        return {"list": [{"name": name, **_feature(member)} for name, member in SCORE_MEMBERS.items()]}
    return {"list": "string"} if kind == "texts" else {"dtype": _KINDS[kind]}


def _figures(run: Run) -> Iterator[tuple[str, str, int]]:
    metrics = run.result.metrics
    for name in ("pass_rate", "score_mean"):
        if metrics.get(name) is not None:
            yield name, with_interval(metrics[name], metrics[f"{name}_interval"]), metrics["n_scored"]
    if metrics:
        yield "error_rate", f"{metrics['error_rate']:.2f}", metrics["total_records"]
