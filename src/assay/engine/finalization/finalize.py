"""The end of a run: its ledger into eight artifacts. The same ledger gives the same bytes, however often it is asked."""

import platform
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from assay.core.artifact_lines import CaseLine, ResponseLine, made_calls
from assay.core.canonical import JsonObject, pretty_json
from assay.core.case import Case
from assay.core.contract import CONTRACTS, INPUT
from assay.core.errors import StoreUnavailable
from assay.core.graders import JudgePrompt
from assay.core.manifest import BatchEntry, IgnoredFields, Manifest, PastFailure, StateEntry, UnsentFields
from assay.core.plan import DatasetPlan, Plan
from assay.core.runs import TERMINAL, State, count_records
from assay.core.summary import GateResult
from assay.core.text import iso
from assay.core.version import __version__
from assay.engine.finalization.artifact_lines import RecordArtifacts, facts_of, invalid_facts, texts_of
from assay.engine.finalization.input_dataset import InputDataset
from assay.engine.finalization.recompute import metrics_of
from assay.engine.records import redaction
from assay.engine.records.groups import RecordGroups
from assay.engine.records.parameters import negotiated_models, read_adjustments, sent_parameters
from assay.engine.records.redaction import RedactedPlan, plan_redactor
from assay.engine.records.run_counters import rare_collection
from assay.engine.records.run_metrics import (
    EVAL_RESULTS,
    add_comparison,
    add_record,
    eval_run_parameters,
    golden_result,
    is_true_of,
    panel_of,
    profiler_of,
    ranking_of,
    replies_of,
    why_no_eval_run,
)
from assay.engine.storage.run_failure import past_failures, states_with_failures
from assay.engine.storage.run_paths import RunPaths
from assay.grading import policies, templates
from assay.metrics.facts import RecordColumns
from assay.metrics.golden import GoldenResult, eval_results
from assay.store.artifacts import CASES, AttemptChain, MerkleTree, StagingFolder, Writer
from assay.store.batch_store import NOTE as BATCHES
from assay.store.batch_store import BatchRow
from assay.store.ledger import FinishedRecord, FinishedRun, RecordRow, RunRow
from assay.store.published_run import publish_files
from assay.store.redact import Redactor
from assay.store.verify import verify_run

_BLOCK_RECORDS = 32
_BLOCK_BYTES = 1 << 20
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode_case = msgspec.json.Decoder(Case).decode


def finalize(
    ledger: FinishedRun,
    folders: RunPaths,
    *,
    secrets: Iterable[str] = (),
    home: str = "",
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write, seal and publish the artifacts of a run whose final state is decided; a second time changes nothing.

    With a `home` in an object store they are there, every file of them, before they are published on this machine. Before each
    publication `check` raises when another process drives the run by now.
    """
    run = ledger.run()
    plan = msgspec.json.decode(run.plan, type=Plan)
    # Short-lived values by the million: looking for cycles among them would be a third of the time.
    with rare_collection(), StagingFolder(folders.active) as staging:
        own = [secret.strip() for secret in secrets]
        artifacts = _Artifacts(RedactedPlan(plan, plan_redactor(plan, own)), staging, run, row_redactor=plan_redactor(plan, own))
        artifacts.write(ledger.finished())
        # The ledger is read once more for the manifest, whose states may have grown meanwhile.
        staging.seal(msgspec.to_builtins(artifacts.manifest(ledger.run())))
        # Asked as late as possible: from here on the run's artifacts exist.
        check()
        # The store first: a folder in the runs folder means that the store has every file.
        if home:
            _send(staging.folder, home)
            check()
        staging.publish(folders.sealed)


def _send(folder: Path, home: str) -> None:
    """Publish the folder, unless its files have changed on the disk since they were written."""
    problems = verify_run(folder)
    if problems:
        raise StoreUnavailable(f'"{folder}" is not as it was written: {problems[0]}', hint="see to the disk, then: assay resume")
    publish_files(folder, home)


class _RecordBlock(msgspec.Struct):
    """Some records that are looked at and written together."""

    records: list[FinishedRecord] = []
    texts: list[str] = []
    """All that came from outside of them, but for the cases."""
    size: int = 0


def _blocks(records: Iterable[FinishedRecord]) -> Iterator[_RecordBlock]:
    """Yield the records in groups that are small in number and in bytes."""
    block = _RecordBlock()
    for finished in records:
        texts = texts_of(finished)
        block.records.append(finished)
        block.texts += texts
        block.size += len(finished.record.case or b"") + sum(map(len, texts))
        # Bounded in number and in bytes, as a record may have 256 KB.
        if len(block.records) == _BLOCK_RECORDS or block.size >= _BLOCK_BYTES:
            yield block
            block = _RecordBlock()
    if block.records:
        yield block


def _case_text(record: RecordRow) -> bytes:
    """Return the part of a case that came from outside, without its hash."""
    # One hash in twenty has so many digits in a row that it looks like a card's number.
    return (record.case or b"").removesuffix(f',"record_sha256":"{record.sha256}"}}'.encode())


def _redacted_case(record: RecordRow, record_id: str | None, redactor: Redactor) -> bytes:
    """Return the case as it may be kept; its id is the one that all artifacts show, and hashes of contents stay as they are."""
    # Most cases are stored as they are, byte by byte.
    if record_id == record.record_id and redactor.is_clean_json((_case_text(record),)):
        return record.case or b""
    case = msgspec.json.decode(record.case or b"{}")
    # Hashes taken out before and put back after: they look like secrets to some rules.
    hashes = [attachment.pop("sha256", "") for attachment in case["attachments"]]
    del case["record_sha256"]
    shown: JsonObject = redactor.structure({**case, "id": ""}, redaction.CASE)
    for attachment, digest in zip(shown["attachments"], hashes, strict=True):
        attachment["sha256"] = digest
    return _encode({**shown, "id": record_id, "record_sha256": record.sha256})


def _original(record: RecordRow, case: Case, stored: bytes) -> Case:
    """Return the case as it was asked, which is the stored one unless something in it was redacted."""
    return case if record.case is stored or record.case is None else _decode_case(record.case)


class _LineWriter:
    """Lines of one file; those of some records are encoded together, which costs less than one by one."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._waiting: list[msgspec.Struct] = []
        self.add = self._waiting.append
        self.extend = self._waiting.extend

    def write(self) -> None:
        """Write what waits."""
        self._writer.write(self._encoded(self._waiting), lines=len(self._waiting))
        self._waiting.clear()

    def _encoded(self, lines: list[msgspec.Struct]) -> bytes:
        return _encode_lines(lines)


class _ChainedLines(_LineWriter):
    """Lines that carry the hash of the one before."""

    def __init__(self, writer: Writer, chain: AttemptChain) -> None:
        super().__init__(writer)
        self._chain = chain

    def _encoded(self, lines: list[msgspec.Struct]) -> bytes:
        # Each line has the hash of the line before, so they cannot be encoded together.
        return self._chain.lines(map(_encode, lines))


class _Artifacts:
    """The files of one run while they are being written."""

    def __init__(self, shown: RedactedPlan, staging: StagingFolder, run: RunRow, *, row_redactor: Redactor) -> None:
        self._shown = shown
        # A redactor of its own for the input, so that what is replaced is not counted twice.
        self._row_redactor = row_redactor
        names = [name for dataset in shown.plan.datasets for name in (dataset.dataset_id, dataset.name)]
        self._has_own_contracts = all(dataset.contract in CONTRACTS for dataset in shown.plan.datasets)
        self._has_clean_names = row_redactor.is_clean(names)
        self._plan = shown.plan
        self._staging = staging
        self._redactor = shown.redactor
        self._started_at = iso(run.states[0][1])
        self._is_cancelled = run.notes["final_state"] == "cancelled"
        self._sent = sent_parameters(shown.plan.candidate, read_adjustments(run.notes).get(shown.plan.candidate.name, ()))
        self._chain = AttemptChain()
        self._tree = MerkleTree()
        self._facts = RecordColumns()
        self._groups = RecordGroups(shown.datasets)
        self._profiler = profiler_of(self._plan)
        self._panel = panel_of(msgspec.structs.replace(self._plan, judges=shown.judges))
        # Cancelled runs and several datasets have no EvalRun; the reason is known from the plan.
        self._has_eval_run = self._plan.datasets[0].contract == "golden_v1" and not why_no_eval_run(self._plan)
        self._ranking = ranking_of(shown.comparison, seed=self._plan.seed)
        self._golden: list[GoldenResult] = []
        self._gate = GateResult(False)
        self._statuses: dict[str, int] = {}

    def write(self, records: Iterable[FinishedRecord]) -> None:
        """Write all artifacts but the manifest, in one pass over the records."""
        open_lines = self._staging.open_lines
        # Opened together and written in one pass, so that memory holds one block of records.
        self._input = InputDataset(open_lines(INPUT), self._shown, self._row_redactor)
        self._cases = _LineWriter(open_lines(CASES))
        self._validation = _LineWriter(open_lines("record_validation.jsonl"))
        self._predictions = _LineWriter(open_lines("predictions.jsonl"))
        self._attempts = _ChainedLines(open_lines("attempt_logs.jsonl"), self._chain)
        self._failures = _LineWriter(open_lines("failures.jsonl"))
        self._responses = _LineWriter(open_lines("responses.jsonl"))
        self._write_records(records)
        self._write_metrics()

    def _write_records(self, records: Iterable[FinishedRecord]) -> None:
        for block in _blocks(records):
            self._write_block(block)
        self._input.finish()

    def _write_block(self, block: _RecordBlock) -> None:
        """Write some records; one search in all their texts nearly always shows that there is nothing to redact."""
        redactor = self._redactor
        is_clean = redactor.is_clean(block.texts)
        # One look at a whole block: nearly always nothing is found, and the records need no look of their own.
        is_input_clean = redactor.is_clean_json(self._input_text(finished.record) for finished in block.records)
        for finished in block.records:
            case = finished.record.case
            evidence = RecordArtifacts(finished, self._shown, is_clean=is_clean)
            self._validation.add(evidence.validation())
            if case is not None:
                # Decided for the block first, and for a single record only if the block is not clean.
                stored = case if is_clean and is_input_clean else _redacted_case(finished.record, evidence.record_id, redactor)
                self._cases.add(self._evaluated(evidence, stored, finished))
                self._input.add(finished.record, evidence.record_id, is_clean=is_clean and is_input_clean)
            else:
                self._facts.append(invalid_facts(finished.record.position, evidence.rejected_slices))
            failure = evidence.failure()
            if failure is not None:
                self._failures.add(failure)
            self._statuses[evidence.status] = self._statuses.get(evidence.status, 0) + 1
        for lines in (self._cases, self._validation, self._predictions, self._attempts, self._failures, self._responses):
            lines.write()

    def _input_text(self, record: RecordRow) -> bytes:
        """Return the text that has to be clean for a record to be stored unchanged: our case adds its dataset's name alone."""
        is_enough = record.row and self._has_clean_names and self._has_own_contracts
        return record.row if is_enough else _case_text(record) + record.row

    def _evaluated(self, evidence: RecordArtifacts, stored: bytes, finished: FinishedRecord) -> CaseLine:
        """Add the lines of a valid record to all artifacts but its case, whose line is returned."""
        # The redacted case, also for slices and clusters: they must not tell what was redacted.
        case = _decode_case(stored)
        line = evidence.prediction(case.dataset)
        if self._profiler is not None:
            # Scored on the original, as it was asked: a profile must not depend on redaction.
            self._profiler.apply(line, _original(finished.record, case, stored), replies_of(finished.attempts))
        self._predictions.add(line)
        # Hashes of contents, which redaction does not change, are the leaves of the tree.
        self._tree.add(bytes.fromhex(line.record_sha256))
        attempts = [evidence.attempt(number, attempt) for number, attempt in enumerate(finished.attempts, 1)]
        self._attempts.extend(attempts)
        if self._panel is not None:
            add_record(self._panel, line, attempts)
        if line.model_response is not None:
            response = ResponseLine(
                example_id=line.record_id,
                candidate_name=line.candidate_name,
                response_text=line.model_response,
                sample=line.sample,
                tool_calls=made_calls(line),
            )
            self._responses.add(response)
        cluster = self._groups.cluster(case, self._plan.cluster_key)
        self._facts.append(facts_of(line, self._groups.slices(case, self._plan.slices), cluster))
        if self._ranking is not None:
            add_comparison(self._ranking, line, case, cluster=cluster)
        if self._has_eval_run:
            self._golden.append(golden_result(line, case))
        return CaseLine(
            record_id=line.record_id,
            record_sha256=line.record_sha256,
            stored_sha256=sha256(stored).hexdigest(),
            sample=line.sample,
            record=msgspec.Raw(stored),
        )

    def _write_metrics(self) -> None:
        metrics = metrics_of(self._facts, self._plan, panel=self._panel, ranking=self._ranking, is_cancelled=self._is_cancelled)
        self._gate = metrics.gate
        for name, document in metrics.documents().items():
            self._staging.write(name, pretty_json(document))
        if self._has_eval_run:
            parameters = eval_run_parameters(self._shown, self._sent)
            results = eval_results(
                self._plan.run_id, self._started_at, parameters=parameters, results=self._golden, gates=self._gate.gates
            )
            # golden_v1 derives overall_passed from its own numbers, and for a cancelled run both can disagree.
            if is_true_of(results, is_cancelled=self._is_cancelled):
                self._staging.write(EVAL_RESULTS, pretty_json(results))

    def _batches(self, run: RunRow) -> tuple[BatchEntry, ...]:
        """Return what became of the candidate's batches."""
        rows = msgspec.json.decode(run.notes.get(BATCHES, "[]"), type=list[BatchRow])
        return tuple(
            BatchEntry(
                number=row.number,
                batch_id=row.batch_id or None,
                status=row.status or row.state,
                submitted_at=iso(row.at),
                requests=row.requests,
                bytes=row.bytes,
                input_sha256=row.sha256,
                answered=row.answered,
                errors=row.errors,
                asked_live=row.asked_live,
                duplicates=row.duplicates,
                unknown=row.unknown,
                malformed=row.malformed,
                problems=tuple(map(self._redactor.text, row.problems)),
            )
            for row in rows
        )

    def _failures_before(self, run: RunRow) -> tuple[PastFailure, ...] | msgspec.UnsetType:
        """Return the run-level failures after which the run was resumed."""
        found = tuple(
            PastFailure(
                code=failure.code,
                message=self._redactor.text(failure.message),
                failed_at=iso(failure.at),
                resumed_at=None if failure.resumed_at is None else iso(failure.resumed_at),
            )
            for failure in past_failures(run)
        )
        return found or msgspec.UNSET

    def manifest(self, run: RunRow) -> Manifest:
        """Build the manifest, with the run's plan and its end; hashes of the artifacts are added when it is sealed."""
        plan, final = self._plan, msgspec.convert(run.notes["final_state"], State)
        completed_at = iso(float(run.notes["completed_at"]))
        # Another process may have ended the run a moment ago, and has published the same.
        # Terminal states are left out and the decided one added, so that a repetition writes the same manifest.
        entered = msgspec.structs.replace(run, states=tuple((state, at) for state, at in run.states if state not in TERMINAL))
        states = tuple(StateEntry(state, iso(at)) for state, at in states_with_failures(entered))
        shown = self._shown
        first = shown.datasets[0]
        # The parameters as they were sent after negotiation, which is what the numbers are about.
        sent = self._sent
        return Manifest(
            assay_version=__version__,
            run_id=plan.run_id,
            status=final,
            created_at=states[0].entered_at,
            started_at=next((entry.entered_at for entry in states if entry.state == "running"), None),
            completed_at=completed_at,
            states=(*states, StateEntry(final, completed_at)),
            contract=first.contract,
            dataset_id=first.dataset_id,
            dataset_version=first.dataset_version,
            schema_version=first.schema_version,
            counts=count_records(self._statuses),
            gate=self._gate,
            model=shown.candidate.model,
            temperature=sent.temperature,
            top_p=sent.top_p,
            max_new_tokens=sent.max_tokens,
            seed=sent.seed,
            candidate=shown.candidate,
            judges=shown.judges,
            ignored_fields=_ignored_fields(shown.datasets),
            not_sent=_not_sent(shown.datasets),
            evaluator_version=_evaluator(plan),
            policies={**policies(), **shown.policy_hashes},
            templates={**templates(), **{prompt.id: prompt.sha256 for prompt in _prompts(plan)}},
            profile=None if self._profiler is None else self._profiler.profile.named(),
            # Set by `rescore` alone.
            rescored_from=None,
            retention=plan.retention,
            plan_members=shown.members(),
            plan_sha256=run.plan_sha256,
            blocked=run.notes.get("blocked"),
            failures=self._failures_before(run),
            batches=self._batches(run),
            negotiated=negotiated_models(plan, run.notes, shown),
            redactions=dict(sorted(self._redactor.counts.items())),
            records_merkle_root=self._tree.hexdigest(),
            attempt_chain_sha256=self._chain.hexdigest(),
            # What a difference between two finalizations of one ledger could come from.
            environment={"python": platform.python_version(), "platform": platform.system()},
        )


def _prompts(plan: Plan) -> Iterator[JudgePrompt]:
    """Prompts of judges that the user wrote."""
    return (grader.prompt for grader in plan.graders if grader.prompt is not None)


def _evaluator(plan: Plan) -> str:
    """Name the evaluator: this version, or the tool that a run was imported from."""
    imported = plan.imported
    return f"assay {__version__}" if imported is None else f"{imported.tool} {imported.version}".strip()


def _not_sent(datasets: Iterable[DatasetPlan]) -> tuple[UnsentFields, ...]:
    """Fields of records that no model was sent, by dataset."""
    named = ((dataset.dataset_id, dataset.fields.get("not_sent")) for dataset in datasets)
    return tuple(UnsentFields(dataset_id, fields) for dataset_id, fields in named if fields)


def _ignored_fields(datasets: Iterable[DatasetPlan]) -> tuple[IgnoredFields, ...]:
    """Members of documents that were accepted without any effect, by dataset."""
    return tuple(IgnoredFields(dataset.dataset_id, dataset.ignored_fields) for dataset in datasets if dataset.ignored_fields)
