"""The accepted records of a run as a document of their own contract, written row by row: input_dataset.json."""

from collections.abc import Mapping

import msgspec

from assay.core.contract import CONTRACTS, REFERENCE, ROW_MEMBERS, SEVERAL, DatasetHead
from assay.core.plan import DatasetPlan, Plan
from assay.engine.records.redaction import RedactedPlan, RowRedactor
from assay.store.artifacts import Writer
from assay.store.ledger import RecordRow
from assay.store.redact import Redactor

_encode = msgspec.json.Encoder().encode
_decode_head = msgspec.json.Decoder(DatasetHead).decode
_decode_turns = msgspec.json.Decoder(list[msgspec.Raw]).decode


class InputDataset:
    """The file while it is being written, one row on each line; the rows of a dataset come one after the other."""

    def __init__(self, writer: Writer, shown: RedactedPlan, redactor: Redactor) -> None:
        """`redactor` is one of its own: what it replaces was counted where the cases were redacted."""
        self._writer = writer
        self._shown = shown
        self._redactor = redactor
        self._is_several = len(shown.datasets) > 1
        self._dataset: DatasetPlan | None = None
        self._is_begun = False
        """The rows of the current dataset have begun."""
        self._only: bytes = b""
        """The first conversation, until it is known whether there is a second one."""

    def add(self, record: RecordRow, record_id: str | None, *, is_clean: bool) -> None:
        """Write the row of a valid record, unless an earlier record has written it; `record_id` is the id that artifacts show."""
        # The first row of each dataset carries the head of its document.
        if record.head:
            self._begin(_decode_head(record.head))
        if not record.row or self._dataset is None:
            return
        row = record.row if is_clean else self._redacted(record, record_id)
        if self._is_begun:
            self._writer.write(b",\n" + row, lines=1)
        # Held back: a single conversation is a list of turns, several are a document of conversations.
        elif self._dataset.contract == "conversation_v1" and not self._only:
            self._only = row
        else:
            before = self._only + b",\n" if self._only else b""
            self._writer.write(self._opening + before + row)
            self._is_begun, self._only = True, b""

    def _redacted(self, record: RecordRow, record_id: str | None) -> bytes:
        if record_id == record.record_id and self._redactor.is_clean_json((record.row,)):
            return record.row
        return self._rows.row(record.row, record.record_id, record_id)

    def _begin(self, head: DatasetHead) -> None:
        """Open the document of the next dataset."""
        self._end_document()
        # The last two bytes close list and document; they are written at the end.
        before = b"," if self._dataset is not None else _encode({"schema_version": SEVERAL, "datasets": []})[:-2]
        self._dataset = self._shown.datasets[head.dataset]
        if self._is_several:
            part = {"name": self._dataset.name, "file": self._dataset.file, "contract": self._dataset.contract}
            self._writer.write(before + b"\n" + _encode(part)[:-1] + b',"document":')
        self._rows = RowRedactor(self._redactor, self._dataset.contract, self._shown.plan.datasets[head.dataset].validation)
        self._opening = _opening(self._dataset.contract, self._rows.head(head.members))

    def _end_document(self) -> None:
        if self._only:
            turns = b",\n".join(map(bytes, _decode_turns(self._only)))
            self._writer.write(b"[\n" + turns + b"\n]")
        elif self._dataset is not None:
            # What the opening began decides how it ends.
            self._writer.write(b"\n]}" if self._opening.startswith(b"{") else b"\n]")
        if self._is_several and self._dataset is not None:
            self._writer.write(b"}")
        self._is_begun, self._only = False, b""

    def finish(self) -> None:
        """Close the document; one that got no rows names its input by hash instead."""
        if self._dataset is None:
            # A run without stored rows still says what it was made from.
            self._writer.write(_encode(_reference(self._shown)) + b"\n")
            return
        self._end_document()
        self._writer.write(b"\n]}\n" if self._is_several else b"\n")


def _opening(contract: str, members: Mapping[str, object]) -> bytes:
    """Return a document up to its first row: the contract's own, the small one that its rows are stored in, or a plain list."""
    if contract not in CONTRACTS:
        return b"[\n"
    known = CONTRACTS[contract]
    listed = ROW_MEMBERS.get(contract, known.member)
    head = {"schema_version": contract} if contract in ROW_MEMBERS else members
    # Without `]}`, behind which rows follow.
    return _encode({**head, listed: []})[:-2] + b"\n"


def _reference(shown: RedactedPlan) -> dict[str, object]:
    """Describe the input: files by their hashes, and of a comparison the runs by those of their manifests."""
    plan: Plan = shown.plan
    same = ("dataset_id", "dataset_version", "contract", "sha256")
    datasets = [] if shown.comparison else [{name: getattr(dataset, name) for name in same} for dataset in shown.datasets]
    runs = shown.comparison.runs if plan.comparison is not None and shown.comparison else ()
    named = [{"run_id": run.run_id, "manifest_sha256": run.manifest_sha256} for run in runs]
    return {"schema_version": REFERENCE, "datasets": datasets, "runs": named}
