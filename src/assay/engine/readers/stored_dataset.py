"""The dataset stored in a finished run, as a file that can be validated and run again."""

from collections.abc import Iterator

import msgspec

from assay.core.contract import INPUT
from assay.core.errors import UsageProblem
from assay.datasets import lines_of
from assay.datasets.golden_v1 import MAX_CASES, MIN_CASES
from assay.datasets.parsing.formats import holds_hashes, row_document
from assay.datasets.parsing.source import Source, filled_lines, open_source
from assay.engine.readers.run_reader import RunReader
from assay.store.artifacts import CASES, read_pieces


class _GoldenDocument(msgspec.Struct):
    cases: list[msgspec.Raw]


class StoredDataset:
    """Accepted records of a finished run, redacted like all its artifacts.

    Raises UsageProblem for a run without such a file, ArtifactGone when retention has removed it.
    """

    def __init__(self, run: RunReader) -> None:
        run_id = run.folders.run_id
        if not run.result.is_finished:
            raise UsageProblem(f"run '{run_id}' is unfinished; its dataset is stored at its end", hint=f"assay resume {run_id}")
        path = run.artifact(INPUT)
        self._source: Source = open_source(path)
        if CASES not in run.run_manifest.files:
            raise UsageProblem(
                f"run '{run_id}' was sealed by an earlier version, which stored its records in another form",
                hint="its manifest names the dataset's file under plan.datasets",
            )
        if holds_hashes(self._source):
            raise UsageProblem(f"run '{run_id}' names its input by hash and holds none of it", hint=f"see {INPUT} in its folder")
        self._path = path
        self._datasets = run.run_manifest.settings.datasets
        self._contract = row_document(self._source)

    @property
    def is_lines(self) -> bool:
        """True when each record is one line of the file."""
        return self._contract is not None

    @property
    def options(self) -> tuple[str, ...]:
        """The options that `assay validate` and `assay run` need for a copy of the file outside the run's folder."""
        is_golden = [found.contract for found in self._datasets] == ["golden_v1"]
        count = len(msgspec.json.decode(self._source.buffer(), type=_GoldenDocument).cases) if is_golden else MIN_CASES
        size = () if MIN_CASES <= count <= MAX_CASES else ("--allow-size",)
        # The stored rows were read with this option, and would break their contract without it.
        is_loose = any(found.validation.get("null_as_absent") for found in self._datasets)
        return (*size, "--null-as-absent") if is_loose else size

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the file."""
        if self._contract is None:
            yield from read_pieces(self._path)
            return
        for line in filled_lines(lines_of(self._source, self._contract)):
            yield line.text + b"\n"
