"""Checks of the selected records before a run: which are wrong, and which have nothing to compare an answer with."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import msgspec

from assay.core.call_rules import NO_RULES, CallRules
from assay.core.checks import MAX_CHECKS, RECORD_CHECKS, Check, CostCheck, LatencyCheck, merged_checks
from assay.core.graders import GraderPlan, JudgePrompt
from assay.datasets.parsing.checks import FindingList, nearest
from assay.engine.planning.dataset_inputs import MAX_LISTED, RecordPreview, first_problems
from assay.engine.planning.request import read_record_checks
from assay.grading import MethodKind
from assay.grading.checks import comparable
from assay.grading.judge_prompt import METADATA, metadata_words, placeholders_of
from assay.grading.methods import kind_with_checks, kind_with_rules


class CheckRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says about checks."""

    checks: tuple[Check, ...] = ()
    """Checks of every record, with names."""
    criteria: Collection[str] = ()
    """Criteria that judges decide in records that name none."""
    graders: tuple[GraderPlan, ...] = ()
    """Several graders of the run, whose checks are of every record."""
    has_judges: bool = False
    has_grader: bool = False
    """A custom grader grades every record."""
    calls: CallRules = NO_RULES
    """Rules by which tool calls are compared."""

    @property
    def all_checks(self) -> tuple[Check, ...]:
        """Return the checks of every record."""
        return (*self.checks, *(check for grader in self.graders for check in grader.checks))

    @property
    def prompts(self) -> tuple[JudgePrompt, ...]:
        """Return the prompts of judges that the user wrote."""
        return tuple(grader.prompt for grader in self.graders if grader.prompt)

    def kind_of(self, kind: MethodKind | None, *, has_checks: bool, is_checked_only: bool) -> MethodKind | None:
        """Return the method for a record whose own one is `kind`."""
        primary = next((grader for grader in self.graders if grader.is_primary), None)
        if primary is not None and primary.kind != "judge":
            return primary.kind
        if primary is not None:
            return "prompt" if primary.prompt else kind
        if self.has_grader or not has_checks:
            return kind
        return kind_with_checks(kind, has_judges=self.has_judges, is_checked_only=is_checked_only)


class CheckSurvey:
    """Findings about the checks of the records so far."""

    def __init__(self, rules: CheckRules) -> None:
        self._rules = rules
        self._problems: list[str] = []
        self._problem_count = 0
        self._checks = rules.all_checks
        self._slots = {name for prompt in rules.prompts for name in placeholders_of(prompt.text)}
        self._unfilled: Counter[str] = Counter()
        """Records without a text for a placeholder of a prompt."""
        self._members: dict[str, None] = {}
        """Members of metadata, for hints."""
        self._seen = 0
        self._names = dict.fromkeys(check.name for check in self._checks)
        self._records: Counter[str] = Counter()
        """Records by the name of a check that needs references."""
        self._lacking: Counter[str] = Counter()
        """Those of them without a reference that it could compare with."""
        self._checked = 0
        """Records that only checks grade."""
        self._empty = 0
        """Those of them whose checks have nothing to compare with."""
        self._unweighted = 0
        self.has_latency = any(isinstance(check, LatencyCheck) for check in self._checks)
        self.has_cost = any(isinstance(check, CostCheck) for check in self._checks)

    @property
    def has_problems(self) -> bool:
        """Return whether a record has a check that is wrong."""
        return self._problem_count > 0

    @property
    def names(self) -> Collection[str]:
        """Return the names of all checks, as far as they were noted."""
        return self._names

    def look_at(self, glance: RecordPreview, *, place: Callable[[], str]) -> MethodKind | None:
        """Note a record, and return its grading method in this run; `place` says where it is."""
        if glance.tool_problems:
            self._problem_count += len(glance.tool_problems)
            if len(self._problems) < MAX_LISTED:
                self._problems += [f"{place()}: record '{glance.id}': {one}" for one in glance.tool_problems]
        own_kind = kind_with_rules(glance.kind, self._rules.calls)
        own = self._own_checks(glance, place) if RECORD_CHECKS in glance.metadata else ()
        checks = merged_checks(self._checks, own) if own else self._checks
        self._look_at_prompts(glance)
        is_checked_only = bool(own) and not glance.has_basis and not self._rules.criteria
        kind = self._rules.kind_of(own_kind, has_checks=bool(checks), is_checked_only=is_checked_only)
        if not checks or glance.task == "pairwise":
            return kind
        self._note(own)
        comparing = [check for check in checks if check.needs_references]
        references = glance.references if comparing else ()
        lacking = {check.title for check in comparing if not comparable(check, references)}
        self._records.update(check.title for check in comparing)
        self._lacking.update(lacking)
        if kind == "checks":
            self._checked += 1
            deciding = [check for check in checks if check.weight]
            self._unweighted += not deciding
            self._empty += bool(deciding) and all(check.title in lacking for check in deciding)
        return kind

    def _own_checks(self, glance: RecordPreview, place: Callable[[], str]) -> tuple[Check, ...]:
        found = FindingList()
        checks = read_record_checks(glance.metadata[RECORD_CHECKS], found=found, path=("metadata", RECORD_CHECKS))
        if found:
            self._problem_count += len(found)
            if len(self._problems) < MAX_LISTED:
                where = f"{place()}: record '{glance.id}': "
                self._problems += [f"{where}{one.message}{f' ({one.hint})' if one.hint else ''}" for one in found]
        return checks

    def _note(self, own: Sequence[Check]) -> None:
        for check in own:
            self.has_latency |= isinstance(check, LatencyCheck)
            self.has_cost |= isinstance(check, CostCheck)
            if len(self._names) <= MAX_CHECKS:
                self._names[check.title] = None

    def _look_at_prompts(self, glance: RecordPreview) -> None:
        if not self._slots:
            return
        self._seen += 1
        if len(self._members) < MAX_CHECKS:
            self._members.update(dict.fromkeys(glance.metadata))
        if "reference" in self._slots and not any(glance.references):
            self._unfilled["reference"] += 1
        for name in self._slots:
            if name.startswith(METADATA) and not metadata_words(glance.metadata, name.removeprefix(METADATA)):
                self._unfilled[name] += 1

    def problems(self) -> list[str]:
        """Return what keeps the run from being started."""
        found = [
            f"the prompt has {{{{{name}}}}}, and no selected record has a text for it{self._nearest_member(name)}"
            for name, count in self._unfilled.items()
            if count == self._seen
        ]
        found += first_problems(self._problems[:MAX_LISTED], self._problem_count)
        if len(self._names) > MAX_CHECKS:
            found.append(
                f"the records' checks have more than {MAX_CHECKS:,} names, and each is a metric; give checks of one kind one name"
            )
        for name, lacking in self._lacking.items():
            if lacking == self._records[name]:
                found.append(
                    f"the check '{name}' has nothing to compare an answer with: it has no value, and no record a reference for it; "
                    "add a value"
                )
        if self._unweighted:
            found.append(f"{self._unweighted:,} record(s) are graded by checks alone, of which none has a weight above 0")
        return found

    def _nearest_member(self, name: str) -> str:
        hint = nearest(name.removeprefix(METADATA), self._members) if name.startswith(METADATA) else ""
        return f" ({hint})" if hint else ""

    def notes(self) -> list[str]:
        """Return what users should see before the run."""
        found = [
            f"the prompt has {{{{{name}}}}}, and {count:,} of {self._seen:,} records have no text for it: the judge is told (none)"
            for name, count in self._unfilled.items()
            if count < self._seen
        ]
        found += [
            f"the check '{name}' has no value, and {lacking:,} of {self._records[name]:,} records have no reference for it: "
            "it is left out there"
            for name, lacking in self._lacking.items()
            if lacking < self._records[name]
        ]
        if 0 < self._empty < self._checked:
            found.append(
                f"{self._empty:,} of {self._checked:,} records that only checks grade have nothing to compare an answer with: they "
                "end in an error, without a call"
            )
        return found
