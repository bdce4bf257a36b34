"""Selection of a run's records, a survey of what they need before any call, and their rows in the ledger.

In this order: the records that are named, the split of a dataset, the limit of a dataset, the sample, the limit of the run. A
limit counts records in the order of the file, those that broke their contract included. A broken record belongs to no split and
to no sample and has no name, because its metadata and its id cannot be trusted: it is left out there, with a note.
"""

import hashlib
import heapq
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

import msgspec

from assay.core.case import Attachment, Case
from assay.core.contract import DatasetHead, file_stem
from assay.core.issue import Issue
from assay.core.plan import DatasetPlan, Plan
from assay.core.report import issue_members
from assay.datasets.parsing.checks import short
from assay.datasets.parsing.hashing import KeyIndex
from assay.engine.planning.attachments import folder_of
from assay.engine.planning.dataset_inputs import (
    MAX_LISTED,
    DatasetInput,
    RecordPreview,
    first_problems,
    place_of,
    preview_records,
    records_of,
    reread,
    shown_path,
)
from assay.engine.planning.record_checks import CheckSurvey
from assay.engine.records.groups import RecordGroups, member_text, metadata_value, read_rejected
from assay.engine.records.run_metrics import UnsupportedRecords
from assay.grading import POLICIES, UNKNOWN, UNSUITABLE, MethodKind, resolve_policy
from assay.metrics.profiles import Profile
from assay.store.ledger import RecordRow


class _ReadRecord(msgspec.Struct, frozen=True):
    """A valid record: its position in its file, its case, and its form in its own contract."""

    index: int
    case: Case
    record: Any


Entry = TypeVar("Entry", RecordPreview, Case, _ReadRecord)

_encode = msgspec.json.Encoder().encode


class SelectionRules(msgspec.Struct, frozen=True):
    """Everything that decides which records take part."""

    datasets: tuple[DatasetPlan, ...]
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    is_recorded: bool = False
    """True when the answers are the recorded replies of conversations."""
    repeat: int = 1
    """Answers per record."""
    records: frozenset[str] = frozenset()
    """Ids of the selected records; empty for all."""


def rules_of(plan: Plan) -> SelectionRules:
    """Return the rules of a plan."""
    is_recorded = plan.response_source == "part_of_conversation" and not plan.responses_path
    return SelectionRules(plan.datasets, plan.limit, plan.sample, plan.seed, is_recorded, plan.repeat, frozenset(plan.records))


class _Rank(NamedTuple):
    """Return a record's sampling rank, which depends only on the seed and its id, so that it survives changes to other records."""

    number: bytes
    id: str


def sample_rank(record_id: str, seed: int) -> _Rank:
    """Return the sampling rank of a record."""
    return _Rank(hashlib.blake2b(record_id.encode(), digest_size=8, key=str(seed).encode()[:64]).digest(), record_id)


class Selector:
    """Decides for each record, in the order of the run, whether it is selected."""

    def __init__(self, rules: SelectionRules, *, last_in_sample: _Rank | None = None) -> None:
        self._rules = rules
        self._last = last_in_sample
        self._of_dataset: Counter[int] = Counter()
        self._taken = 0
        self.left_out: Counter[int] = Counter()
        """Invalid records outside of any split or sample, by dataset."""

    def takes(self, dataset: int, record_id: str | None, metadata: Mapping[str, object] | None) -> bool:
        """Return True when the record is selected; `metadata` is None for an invalid record."""
        plan = self._rules.datasets[dataset]
        named = self._rules.records
        # An invalid record has no metadata that could be trusted, so no split can claim it.
        if metadata is None and (plan.split_field or named or self._rules.sample is not None):
            self.left_out[dataset] += 1
            return False
        if named and record_id not in named:
            return False
        if metadata is not None and plan.split_field and not _has(metadata, plan):
            return False
        self._of_dataset[dataset] += 1
        if plan.limit is not None and self._of_dataset[dataset] > plan.limit:
            return False
        if self._last is not None and sample_rank(record_id or "", self._rules.seed) > self._last:
            return False
        self._taken += 1
        return self._rules.limit is None or self._taken <= self._rules.limit

    @property
    def is_full(self) -> bool:
        """True when the limit is reached."""
        return self._rules.limit is not None and self._taken >= self._rules.limit


def selector_for(rules: SelectionRules, inputs: Sequence[DatasetInput]) -> Selector:
    """Return the selector of a run; for a sample, all ids are read once."""
    if rules.sample is None:
        return Selector(rules)
    # The limit of the run applies to the sample, so that the pool is drawn from without it.
    pool = Selector(msgspec.structs.replace(rules, limit=None))
    ranks = (
        sample_rank(glance.id, rules.seed)
        for number, dataset in enumerate(inputs)
        for glance in preview_records(dataset, is_recorded=rules.is_recorded)
        if pool.takes(number, glance.id, glance.metadata)
    )
    # Only the last rank is needed: membership of the sample is decided by comparing with it, in any later process
    # too.
    sample = heapq.nsmallest(rules.sample, ranks)
    return Selector(rules, last_in_sample=sample[-1] if sample else None)


def selected_ids(rules: SelectionRules, inputs: Sequence[DatasetInput]) -> Iterator[str]:
    """Yield the ids of the selected valid records, in the order of the run."""
    selector = selector_for(rules, inputs)
    for number, dataset in enumerate(inputs):
        for entry in merged(preview_records(dataset, is_recorded=rules.is_recorded), dataset.broken):
            if selector.is_full:
                break
            if isinstance(entry, int):
                selector.takes(number, None, None)
            elif selector.takes(number, entry.id, entry.metadata):
                yield entry.id


def _has(metadata: Mapping[str, object], plan: DatasetPlan) -> bool:
    value = metadata_value(metadata, plan.split_field)
    return plan.split_value in map(member_text, value if isinstance(value, list) else [value])


def merged(entries: Iterable[Entry], broken: Iterable[int]) -> Iterator[Entry | int]:
    """Merge valid entries and the sorted indexes of invalid records in the order of the file."""
    left = iter(broken)
    following = next(left, None)
    for entry in entries:
        while following is not None and following < entry.index:
            yield following
            following = next(left, None)
        yield entry
    if following is not None:
        yield following
        yield from left


def prepared_records(plan: Plan, inputs: Sequence[DatasetInput] | None = None) -> Iterator[RecordRow]:
    """Return the selected records of a run in their order, in constant memory.

    Without the inputs of the plan they are read again; raises UsageProblem when a file is not what it was.
    """
    rules = rules_of(plan)
    read = [reread(dataset, plan.plugins) for dataset in plan.datasets] if inputs is None else inputs
    selector = selector_for(rules, read)
    position = 0
    names = dataset_names(plan.datasets)
    for number, dataset in enumerate(read):
        issues = _RecordIssues(dataset)
        source = _SourceRows(number, dataset)
        rejected = _RejectedSlices(dataset, name=names[number], plan=plan)
        valid = (_ReadRecord(case.index, case, record) for case, record in records_of(dataset, is_recorded=rules.is_recorded))
        for entry in merged(valid, dataset.broken):
            if selector.is_full:
                break
            if isinstance(entry, int):
                record_id = _broken_id(issues.of(entry))
                if selector.takes(number, record_id, None):
                    # A broken record is never sent, and appears once.
                    yield RecordRow(position, record_id, "", None, _written(issues.of(entry)), rejected.of(entry))
                    position += 1
            elif selector.takes(number, entry.case.id, entry.case.metadata):
                case = _pinned(_named(entry.case, names[number]), dataset)
                for sampled in _samples(case, plan.repeat):
                    # The answers to one record come one after the other; its warnings are noted with the first.
                    warnings = issues.take(case.index)
                    written = _written(warnings) if warnings else b""
                    row, head = source.take(entry.record)
                    yield RecordRow(position, case.id, case.record_sha256, _encode(sampled), written, row, head)
                    position += 1
        # From here on the ledger has the records.
        dataset.source.release()


class _SourceRows:
    """Records of one dataset as its contract writes them, each once, and the rest of its document with the first."""

    def __init__(self, number: int, dataset: DatasetInput) -> None:
        self._head = _encode(DatasetHead(number, dict(dataset.report.head)))
        self._last: Any = None

    def take(self, record: object) -> tuple[bytes, bytes]:
        """Return the row and head to store with a case; both are empty when an earlier case of the same record has them."""
        # By identity: the turns of one conversation are separate cases of the same record object.
        if record is self._last:
            return b"", b""
        self._last, head, self._head = record, self._head, b""
        return _encode(record), head


class _RejectedSlices:
    """Slices of invalid records, as far as they can be read."""

    def __init__(self, dataset: DatasetInput, *, name: str, plan: Plan) -> None:
        self._contract, self._name, self._names = dataset.plan.contract, name, plan.slices
        self._groups = RecordGroups(plan.datasets)
        self._rows = dataset.report.rejected

    def of(self, index: int) -> bytes:
        """Return the slices of the record at an index as JSON; must be called in the order of the file."""
        raw = next((raw for number, raw in self._rows if number >= index), b"")
        record = read_rejected(raw, self._contract, dataset=self._name)
        return _encode(self._groups.slices(record, self._names))


def dataset_names(datasets: Sequence[DatasetPlan]) -> tuple[str, ...]:
    """Return the shown name of each dataset: the run's name for it, or its id; empty for legal_eval_v1, whose rows name it."""
    ids = Counter(dataset.dataset_id for dataset in datasets)
    return tuple(
        ""
        if dataset.contract == "legal_eval_v1"
        else dataset.name
        if dataset.name and (ids[dataset.dataset_id] > 1 or dataset.name != file_stem(dataset.file or dataset.path))
        else dataset.dataset_id
        for dataset in datasets
    )


def _named(case: Case, name: str) -> Case:
    return case if not name or case.dataset == name else msgspec.structs.replace(case, dataset=name)


def _samples(case: Case, repeat: int) -> Iterator[Case]:
    """Yield a case once per requested answer."""
    if repeat == 1:
        yield case
        return
    for sample in range(repeat):
        yield msgspec.structs.replace(case, sample=sample)


def _pinned(case: Case, dataset: DatasetInput) -> Case:
    """Add the hashes of its attachments to a case, so that a resumed run does not continue with changed content."""
    if not case.attachments:
        return case
    attachments = dataset.attachments.pinned(folder_of(dataset.plan), case.attachments)
    return msgspec.structs.replace(case, attachments=attachments)


def _broken_id(issues: Iterable[Issue]) -> str | None:
    return next((issue.record_id for issue in issues if issue.record_id is not None), None)


class _RecordIssues:
    """Errors and warnings of each record, errors first, asked for in the order of the records.

    Where the report has counted more than it lists, they are read from the source again, one record after the other.
    """

    def __init__(self, dataset: DatasetInput) -> None:
        report = dataset.report
        # A record of conversation_v1 is a conversation here, but a turn in its report.
        self._is_conversation = dataset.plan.contract == "conversation_v1"
        self._known: dict[int, list[Issue]] = {}
        self._coming: Iterator[tuple[int, Iterator[Issue]]] = iter(())
        if report.unlisted:
            placed = (issue for issue in report.all_issues if self._index(issue) is not None)
            self._coming = ((index or 0, issues) for index, issues in groupby(placed, key=self._index))
            return
        for issue in (*report.dataset_errors, *report.record_errors, *report.warnings):
            index = self._index(issue)
            if index is not None:
                self._known.setdefault(index, []).append(issue)

    def _index(self, issue: Issue) -> int | None:
        return (issue.conversation or 0) if self._is_conversation else issue.index

    def of(self, index: int) -> list[Issue]:
        """Return the issues of a record."""
        self._read_to(index)
        return self._known.get(index, [])

    def take(self, index: int) -> list[Issue]:
        """Return and remove the issues of a record."""
        self._read_to(index)
        return self._known.pop(index, [])

    def _read_to(self, index: int) -> None:
        if index in self._known:
            return
        for at, issues in self._coming:
            if at >= index:
                self._known = {at: sorted(issues, key=lambda issue: issue.severity == "warning")}
                return


def _written(issues: Iterable[Issue]) -> bytes:
    return _encode([issue_members(issue) for issue in issues])


MANY_MEMBERS = 100
"""Members of metadata after which no further ones are noted."""
HasAnswer = Callable[[str, int], bool]
"""Check for an answer to the record with an id, for one of its samples."""

_MISNAMED = {
    UNKNOWN: f"which is none of {', '.join(POLICIES)} and is not registered under `policies`",
    UNSUITABLE: "which is made for another task",
}
"""Problem with the policy that a record names, by the flag of its grade."""


class AttachmentUse(NamedTuple):
    """An attachment and the first record that names it."""

    dataset: int
    attachment: Attachment
    record_id: str


class DatasetSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the selected records."""

    valid: int
    broken: int
    kinds: Mapping[MethodKind | None, int]
    """Number of valid records by grading method."""
    benchmarked: int
    """Valid records under a policy that says all that a candidate gets."""
    attachments: tuple[AttachmentUse, ...]
    unmet: tuple[str, ...]
    """Wanted members that no selected record has in its metadata."""
    members: tuple[str, ...]
    """Members that selected records have there, as far as they were noted."""
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def survey(
    rules: SelectionRules,
    inputs: Sequence[DatasetInput],
    *,
    answers: Mapping[str, HasAnswer],
    profile: Profile | None = None,
    has_policy: bool = False,
    is_custom: Callable[[str], bool] = lambda _: False,
    wanted: Iterable[str] = (),
    checks: CheckSurvey | None = None,
) -> DatasetSurvey:
    """Survey the selected records; `answers` returns which records each candidate has an answer for, if they are given.

    With a policy of the run, those that records name are ignored; `is_custom` recognizes names of custom ones.
    `wanted` are members of metadata that it looks for; `checks` looks at the checks of each record.
    """
    look = _SurveyState(rules, inputs, answers)
    look.unmet = dict.fromkeys(wanted)
    look.has_policy = has_policy
    look.is_custom = is_custom
    look.checks = checks
    if profile is not None:
        look.misfits = UnsupportedRecords(profile)
    selector = selector_for(rules, inputs)
    for number, dataset in enumerate(inputs):
        for entry in merged(preview_records(dataset, is_recorded=rules.is_recorded), dataset.broken):
            if selector.is_full:
                break
            if isinstance(entry, int):
                look.broken += selector.takes(number, None, None)
            else:
                look.at(number, entry, is_taken=selector.takes(number, entry.id, entry.metadata))
    return look.survey(selector)


class _SurveyState:
    """Findings so far; only ids of records are stored, and only when several datasets may clash."""

    def __init__(self, rules: SelectionRules, inputs: Sequence[DatasetInput], answers: Mapping[str, HasAnswer]) -> None:
        self._rules = rules
        self._inputs = inputs
        self._answers = answers
        self._ids = KeyIndex()
        self._places = (array("I"), array("I"))
        """Dataset and index of each id, by its number."""
        self._attachments: dict[tuple[int, str], AttachmentUse] = {}
        self._split_values: Counter[tuple[int, str]] = Counter()
        self._duplicates: list[str] = []
        self._duplicate_count = 0
        self._named_twice: Counter[str] = Counter()
        """Records that a run would have twice, because their file is named more than once."""
        self._missing: list[str] = []
        self._missing_count = 0
        self._of_dataset: Counter[int] = Counter()
        self._kinds: Counter[MethodKind | None] = Counter()
        self._benchmarked = 0
        self._misnamed: Counter[tuple[str, str]] = Counter()
        self._unseen = dict.fromkeys(sorted(rules.records))
        """Named records that were not seen yet."""
        self.unmet: dict[str, None] = {}
        """Wanted members of metadata that were not seen yet."""
        self._members: dict[str, None] = {}
        self.broken = 0
        self.misfits: UnsupportedRecords | None = None
        self.has_policy = False
        self.is_custom: Callable[[str], bool] = lambda _: False
        self.checks: CheckSurvey | None = None

    def at(self, number: int, glance: RecordPreview, *, is_taken: bool) -> None:
        """Survey one valid record."""
        field = self._rules.datasets[number].split_field
        # Listed only if the split selects nothing; a column of free text must not fill the memory.
        if field and len(self._split_values) < MAX_LISTED:
            self._split_values[number, member_text(metadata_value(glance.metadata, field))] += 1
        self._unseen.pop(glance.id, None)
        if not is_taken:
            return
        self._of_dataset[number] += 1
        kind = glance.kind
        if self.checks is not None:
            kind = self.checks.look_at(glance, place=partial(place_of, self._inputs[number], glance.index))
        self._kinds[kind] += 1
        if self.unmet:
            self._look_at_metadata(glance.metadata, self._rules.datasets[number].metadata)
        if self.misfits is not None:
            self.misfits.look_at(glance.id, kind or "")
        if glance.policy_id and not self.has_policy:
            self._look_at_policy(glance)
        for attachment in glance.attachments:
            self._attachments.setdefault((number, attachment.path), AttachmentUse(number, attachment, glance.id))
        if len(self._inputs) > 1:
            self._look_for_duplicate(number, glance)
        if self._answers:
            self._look_for_answers(glance)

    def _look_for_answers(self, glance: RecordPreview) -> None:
        for candidate, has_answer in self._answers.items():
            for sample in range(self._rules.repeat):
                if not has_answer(glance.id, sample):
                    self._note_missing(candidate, glance.id, sample)

    def _look_at_metadata(self, metadata: Mapping[str, object], document: Mapping[str, object]) -> None:
        """Look for the wanted members in the metadata of a record, and in that of its document."""
        if len(self._members) < MANY_MEMBERS:
            self._members.update(dict.fromkeys((*metadata, *document)))
        for name in [
            name for name in self.unmet if (metadata_value(metadata, name), metadata_value(document, name)) != (None, None)
        ]:
            del self.unmet[name]

    def _note_missing(self, candidate: str, record_id: str, sample: int) -> None:
        which = f", sample {sample}" if sample else ""
        self._missing_count += 1
        self._missing += [f"({candidate}, {record_id}{which})"] if len(self._missing) < MAX_LISTED else []

    def _look_at_policy(self, glance: RecordPreview) -> None:
        if self.is_custom(glance.policy_id):
            self._benchmarked += 1
            return
        policy, flags = resolve_policy(glance.policy_id, glance.task)
        self._benchmarked += not policy.takes_system_prompt
        for flag in flags:
            self._misnamed[flag, glance.policy_id] += 1

    def _look_for_duplicate(self, number: int, glance: RecordPreview) -> None:
        first = self._ids.find(glance.id)
        datasets, indexes = self._places
        if first is None:
            self._ids.add(glance.id)
            datasets.append(number)
            indexes.append(glance.index)
            return
        earlier, later = self._inputs[datasets[first]], self._inputs[number]
        # The same file by two names would report every one of its records.
        if os.path.realpath(earlier.plan.path) == os.path.realpath(later.plan.path):
            self._named_twice[later.plan.path] += 1
            return
        self._duplicate_count += 1
        if len(self._duplicates) < MAX_LISTED:
            places = f"{place_of(earlier, indexes[first])} and {place_of(later, glance.index)}"
            self._duplicates.append(f"the id {short(glance.id)} appears in {places}; ids must be unique in a run")

    def survey(self, selector: Selector) -> DatasetSurvey:
        """Return all problems, one sentence each."""
        return DatasetSurvey(
            valid=self._of_dataset.total(),
            broken=self.broken,
            kinds=self._kinds,
            benchmarked=self._benchmarked,
            attachments=tuple(self._attachments.values()),
            unmet=tuple(self.unmet),
            members=tuple(self._members),
            problems=(
                *self._strangers(),
                *self._empty_datasets(),
                *self._clashes(),
                *self._gaps(),
                *(self.misfits.problems() if self.misfits else ()),
                *(self.checks.problems() if self.checks else ()),
            ),
            notes=(*self._notes(selector), *(self.checks.notes() if self.checks else ())),
        )

    def _strangers(self) -> list[str]:
        if not self._unseen:
            return []
        more = len(self._unseen) - MAX_LISTED
        listed = ", ".join(short(name) for name in list(self._unseen)[:MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
        return [f"there is no valid record {listed}"]

    def _empty_datasets(self) -> list[str]:
        """Return the reason of each dataset when no record is left."""
        if self._of_dataset or self._unseen:
            return []
        return first_problems(
            [
                f"no records selected from '{dataset.name}': {self._reason(number)}"
                for number, dataset in enumerate(self._rules.datasets)
            ]
        )

    def _reason(self, number: int) -> str:
        plan = self._rules.datasets[number]
        if not plan.split_field and not self.broken and plan.contract == "conversation_v1":
            return "a record of a conversation is a user turn with the assistant turn that answers it, and it has none"
        if not plan.split_field:
            return "it has no valid records" if not self.broken else "the limit takes in only records that are invalid"
        values = [short(value) for dataset, value in self._split_values if dataset == number]
        found = f"it has {', '.join(values)}" if values else "it has no valid records"
        return f"no record has metadata.{plan.split_field} = {short(plan.split_value)}; {found}"

    def _clashes(self) -> list[str]:
        more = self._duplicate_count - len(self._duplicates)
        twice = [
            f"'{shown_path(path)}' is named more than once, which would ask {count:,} of its records twice; name it once"
            for path, count in self._named_twice.items()
        ]
        return twice + self._duplicates + ([f"{more:,} more ids appear in two datasets"] if more else [])

    def _gaps(self) -> list[str]:
        if not self._missing_count:
            return []
        more = self._missing_count - len(self._missing)
        listed = ", ".join(self._missing) + (f" and {more:,} more" if more else "")
        return [f"no response for {self._missing_count:,} of the selected (candidate, record) pairs: {listed}"]

    def _notes(self, selector: Selector) -> list[str]:
        left_out = [
            f"left out: {count:,} invalid {'record' if count == 1 else 'records'} of '{self._rules.datasets[number].name}', "
            "as no split or sample has invalid ones"
            for number, count in sorted(selector.left_out.items())
        ]
        return self._policy_notes() + first_problems(left_out)

    def _policy_notes(self) -> list[str]:
        """Return notes on unusable policies that records name; at most MAX_LISTED, since policy ids come from the file."""
        named = [
            f"{count:,} record(s) name the policy {short(policy_id)}, {_MISNAMED[flag]}; they are graded by the default policy"
            for (flag, policy_id), count in self._misnamed.most_common(MAX_LISTED)
        ]
        more = len(self._misnamed) - len(named)
        return named + ([f"{more:,} more policies are named that do not fit"] if more else [])
