"""One look at all selected records before any call: what they need, and what is missing."""

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from assay.core.case import Attachment
from assay.datasets.parsing.checks import short
from assay.datasets.parsing.hashing import KeyIndex
from assay.engine.planning.dataset_inputs import DatasetInput, RecordPreview, place_of, preview_records, shown_path
from assay.engine.planning.responses import listed
from assay.engine.planning.selection import SelectionRules, Selector, merged, selector_for
from assay.engine.records.groups import member_text, metadata_value
from assay.engine.records.run_figures import UnsupportedRecords
from assay.grading import POLICIES, UNKNOWN, UNSUITABLE, MethodKind, resolve_policy
from assay.metrics.profiles import Profile

FIRST = 10
"""Missing answers, duplicates and split values that a problem lists before it only counts them."""
MANY_MEMBERS = 100
"""Members of metadata after which no further ones are noted."""
HasAnswer = Callable[[str, int], bool]
"""Whether there is an answer to the record with an id, for each of the times that it is asked."""

_MISNAMED = {
    UNKNOWN: f"which is none of {', '.join(POLICIES)} and is not registered under `policies`",
    UNSUITABLE: "which is made for another task",
}
"""What is wrong with the policy that a record names, by the flag of its grade."""


class AttachmentUse(NamedTuple):
    """An attachment and the first record that names it."""

    dataset: int
    attachment: Attachment
    record_id: str


class DatasetSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """What the selected records are like."""

    valid: int
    broken: int
    kinds: Mapping[MethodKind | None, int]
    """How many valid records are graded in each way."""
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
) -> DatasetSurvey:
    """The selected records at a glance; `answers` says what each candidate has an answer for, where they are given.

    Where the run has a policy of its own, those that records name are of no account; `is_custom` tells names of custom ones.
    `wanted` are members of metadata that it looks for.
    """
    look = _SurveyState(rules, inputs, answers)
    look.unmet = dict.fromkeys(wanted)
    look.has_policy = has_policy
    look.is_custom = is_custom
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
    """What was seen so far; of the records themselves only ids are kept, and those only where several datasets may clash."""

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

    def at(self, number: int, glance: RecordPreview, *, is_taken: bool) -> None:
        """Look at one valid record."""
        field = self._rules.datasets[number].split_field
        if field and len(self._split_values) < FIRST:
            self._split_values[number, member_text(metadata_value(glance.metadata, field))] += 1
        self._unseen.pop(glance.id, None)
        if not is_taken:
            return
        self._of_dataset[number] += 1
        self._kinds[glance.kind] += 1
        if self.unmet:
            self._look_at_metadata(glance.metadata, self._rules.datasets[number].metadata)
        if self.misfits is not None:
            self.misfits.look_at(glance.id, glance.kind or "")
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
        self._missing += [f"({candidate}, {record_id}{which})"] if len(self._missing) < FIRST else []

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
        if os.path.realpath(earlier.plan.path) == os.path.realpath(later.plan.path):
            self._named_twice[later.plan.path] += 1
            return
        self._duplicate_count += 1
        if len(self._duplicates) < FIRST:
            places = f"{place_of(earlier, indexes[first])} and {place_of(later, glance.index)}"
            self._duplicates.append(f"the id {short(glance.id)} stands in {places}; ids are unique in a run")

    def survey(self, selector: Selector) -> DatasetSurvey:
        """Everything that was seen, in words."""
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
            ),
            notes=tuple(self._notes(selector)),
        )

    def _strangers(self) -> list[str]:
        if not self._unseen:
            return []
        more = len(self._unseen) - FIRST
        listed = ", ".join(short(name) for name in list(self._unseen)[:FIRST]) + (f" and {more:,} more" if more > 0 else "")
        return [f"there is no valid record {listed}"]

    def _empty_datasets(self) -> list[str]:
        """Where nothing is left of the run, every dataset says why."""
        if self._of_dataset or self._unseen:
            return []
        return listed(
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
        return twice + self._duplicates + ([f"{more:,} more ids stand in two datasets"] if more else [])

    def _gaps(self) -> list[str]:
        if not self._missing_count:
            return []
        more = self._missing_count - len(self._missing)
        listed = ", ".join(self._missing) + (f" and {more:,} more" if more else "")
        return [f"no response for {self._missing_count:,} of the selected (candidate, record) pairs: {listed}"]

    def _notes(self, selector: Selector) -> list[str]:
        left_out = [
            f"{count:,} invalid records of '{self._rules.datasets[number].name}' belong to no split or sample and are left out"
            for number, count in sorted(selector.left_out.items())
        ]
        return self._policy_notes() + listed(left_out)

    def _policy_notes(self) -> list[str]:
        """At most so many as other lists have: policy ids come from the file."""
        named = [
            f"{count:,} record(s) name the policy {short(policy_id)}, {_MISNAMED[flag]}; they are graded by the default policy"
            for (flag, policy_id), count in self._misnamed.most_common(FIRST)
        ]
        more = len(self._misnamed) - len(named)
        return named + ([f"{more:,} more policies are named that do not fit"] if more else [])
