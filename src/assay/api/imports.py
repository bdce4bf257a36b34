"""Files of other evaluation tools in, a dataset and finished runs out."""

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from assay.core.retention import longest, retention_in
from assay.core.run_backend import RUNS_DIR
from assay.core.run_result import RunResult
from assay.datasets.imports import DatasetRows, ImportFormat, ImportReport, ImportResult, read_files
from assay.engine.run_import import ImportRequest, candidates_of, check_new, dataset_of, import_plans, publish
from assay.engine.runs import result_of
from assay.engine.storage.run_id import new_run_id

__all__ = ["DatasetRows", "ImportFormat", "ImportReport", "ImportRequest", "ImportResult", "import_files", "import_runs"]


def import_files(
    sources: Sequence[str], form: ImportFormat | None = None, *, follows_files: bool = False, wants_turns: bool = False
) -> ImportResult:
    """What files of another tool hold; `dataset().lines()` writes it as a dataset, `report()` says what is missing there.

    With `follows_files`, files that a config names are read too, as far as they are below its folder; with `wants_turns` whole
    conversations are kept, which conversation_v1 needs.
    """
    return read_files(sources, form, follows_files=follows_files, wants_turns=wants_turns)


def import_runs(
    imported: ImportResult,
    rows: DatasetRows,
    *,
    wanted: ImportRequest,
    runs_dir: str | Path = RUNS_DIR,
    run_id: str | None = None,
    dataset: str | Path | None = None,
) -> tuple[RunResult, ...]:
    """A finished run for each candidate, with the answers and grades of the other tool; no model is called.

    `dataset` is the file that the rows were written to; without it they are written to one that is not kept.
    """
    retention = longest(retention_in(os.environ))
    with tempfile.TemporaryDirectory(prefix="assay-import-") as folder:
        path = Path(folder) / "dataset.jsonl" if dataset is None else Path(dataset).absolute()
        if dataset is None:
            with path.open("wb") as stream:
                stream.writelines(rows.lines())
        read = dataset_of(path, rows, shown=imported.first_path if dataset is None else path)
        names = candidates_of(imported, wanted)
        ids = [new_run_id() for _ in names] if run_id is None else [run_id]
        now = time.time()
        plans = import_plans(imported, read, wanted=wanted, ids=ids, now=now, retention=retention)
        check_new(plans, Path(runs_dir))
        folders = [publish(imported, rows, plan=plan, dataset=read, runs_dir=Path(runs_dir), at=now) for plan in plans]
    return tuple(map(result_of, folders))
