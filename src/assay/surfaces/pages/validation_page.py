"""What validation says of an upload as a page, and the form that makes a run of it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from assay import api
from assay.core.contract import BUILT_IN, CONTRACTS
from assay.core.exposure import FormField, Setting, settings_struct
from assay.core.issue import CODES, Issue, Severity
from assay.core.report import Outcome, RecordCounts
from assay.core.settings import run_settings
from assay.presentation import words
from assay.presentation.sections import Badge, Cell, Column, DisplayValue, Fact, KeyMetric, Table, Tone
from assay.presentation.validation import OUTCOME_WORDS, SimilarIssues, field_lines, record_label, record_word, select
from assay.presentation.words import DASH, assumption_text, counted, dollars, estimate_text
from assay.surfaces.pages.tables import text_cell
from assay.surfaces.reporters.text import PointedLine, pointed

SHOWN = 100
"""Issues that the page lists; all of them are counted."""
CHOICES = (("auto", "recognise it"), *((name, f"{name}: {contract.written_as}") for name, contract in CONTRACTS.items()))
_OUTCOMES: dict[Outcome, Tone] = {"accepted": "good", "accepted_with_record_errors": "warn", "rejected": "bad"}
_Model = Annotated[str, Meta(max_length=256)]


class ShownIssue(msgspec.Struct, frozen=True, kw_only=True):
    """One issue as a page shows it."""

    severity: Severity
    code: str
    meaning: str
    message: str
    place: str
    """`line 3, column 7`."""
    subject: str
    """Record and path."""
    line: int | None
    excerpt: PointedLine | None
    hint: str
    alike: int = 0
    """So many more of the kind follow."""


class ValidationSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What validation says, in plain values that may come from another process."""

    outcome: Outcome
    contract: str
    counts: RecordCounts
    findings: tuple[ShownIssue, ...]
    omitted: str
    """`1,204 more errors`; empty where all are shown or counted beside their kind."""
    codes: tuple[tuple[str, Severity, int], ...]
    errors: int
    warnings: int
    fields: tuple[tuple[str, str], ...] = ()
    """Who is sent the fields that the contract leaves open, in words."""


def examine(path: Path, contract: str, *, allow_size: bool = False) -> ValidationSummary:
    """Validate a file for the page."""
    report = api.validate(path, BUILT_IN if contract == "auto" else contract, allow_size=allow_size, interface="page")
    counts = report.issue_counts
    selection = select(report, max_issues=SHOWN, is_collapsed=True)
    left_out = ((selection.omitted_errors, "more error"), (selection.omitted_warnings, "more warning"))
    return ValidationSummary(
        outcome=report.outcome,
        contract=report.contract or "",
        counts=report.counts,
        findings=tuple(_findings(selection.shown)),
        omitted=" and ".join(counted(count, noun) for count, noun in left_out if count),
        codes=tuple((code, severity, count) for (code, severity), count in counts.most_common()),
        errors=report.count("error"),
        warnings=report.count("warning"),
        fields=tuple(field_lines(report.fields, record_word(report.contract))),
    )


def _findings(shown: tuple[Issue | SimilarIssues, ...]) -> Iterator[ShownIssue]:
    last: ShownIssue | None = None
    for item in shown:
        if isinstance(item, SimilarIssues):
            assert last is not None
            last = msgspec.structs.replace(last, alike=item.count)
            continue
        if last is not None:
            yield last
        last = _finding(item)
    if last is not None:
        yield last


def _finding(issue: Issue) -> ShownIssue:
    numbers = ((name, number) for name, number in (("line", issue.line), ("column", issue.column)) if number is not None)
    subject = (record_label(issue), issue.path, issue.error_type)
    return ShownIssue(
        severity=issue.severity,
        code=issue.code,
        meaning=CODES.get(issue.code, ""),
        message=issue.message,
        place=", ".join(f"{name} {number:,}" for name, number in numbers),
        subject=" · ".join(part for part in subject if part),
        line=issue.line,
        excerpt=pointed(issue) if issue.excerpt else None,
        hint=issue.hint,
    )


class ValidateChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the address of the form may say."""

    contract: str = "auto"


class ValidatePage(msgspec.Struct, frozen=True, kw_only=True):
    """The form that takes a file."""

    contract: str
    contracts: tuple[tuple[str, str], ...]
    max_bytes: int
    limit: str
    problem: str = ""
    hint: str = ""


def validate_page(contract: str, max_bytes: int, *, problem: str = "", hint: str = "") -> ValidatePage:
    """The form; a problem is told above it."""
    return ValidatePage(
        contract=contract,
        contracts=CHOICES,
        max_bytes=max_bytes,
        limit=words.size(max_bytes),
        problem=problem[:1].upper() + problem[1:],
        hint=hint,
    )


class FormInput(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as a field of the form that starts a run."""

    name: str
    field: FormField
    value: str
    attributes: Mapping[str, str]
    """Type, bounds and step, for the browser."""


class _ChosenModels(msgspec.Struct, frozen=True, kw_only=True):
    model: _Model = ""
    judge: _Model = ""
    judge2: _Model = ""
    judge3: _Model = ""


_ON_FORM = tuple(setting for setting in run_settings().values() if setting.form is not None)
if TYPE_CHECKING:
    _ChosenSettings = _ChosenModels
else:
    _ChosenSettings = settings_struct(
        "_ChosenSettings", [(one.parameter_name, one.query_kind, None) for one in _ON_FORM], base=_ChosenModels, module=__name__
    )


class RunFormQuery(_ChosenSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a run as its form sends them: those of `core/settings.py` that have a field there."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Those that are named."""
        return tuple(name for name in (self.judge, self.judge2, self.judge3) if name)

    def settings(self) -> dict[str, Any]:
        """Return the settings by the names of their parameters."""
        return {setting.parameter_name: getattr(self, setting.parameter_name) for setting in _ON_FORM}

    def inputs(self, *, is_extra: bool, has_rejected: bool) -> list[FormInput]:
        """Return the fields of the form with what was chosen: the usual ones, or those below "More settings"."""
        found = [_form_input(setting, setting.form, chosen=self) for setting in _ON_FORM if setting.form is not None]
        return [one for one in found if one.field.is_extra == is_extra and (has_rejected or not one.field.needs_rejected)]

    @property
    def has_extra(self) -> bool:
        """True when something below "More settings" is chosen."""
        return bool(self.judge2 or self.judge3) or any(one.value for one in self.inputs(is_extra=True, has_rejected=True))

    def query(self) -> str:
        """The same as the query of an address."""
        given = {name: getattr(self, name) for name in RunFormQuery.__struct_fields__}
        return urlencode({name: value for name, value in given.items() if value not in ("", None)})


def _form_input(setting: Setting, field: FormField, *, chosen: RunFormQuery) -> FormInput:
    value = getattr(chosen, setting.parameter_name)
    attributes = {"type": "text"}
    if setting.kind in (int, float):
        bounds = {"min": setting.low, "max": setting.high, "step": "any" if setting.kind is float else None}
        given = {name: str(bound) for name, bound in bounds.items() if bound is not None}
        attributes = {"type": "number", **given, "inputmode": "decimal" if setting.kind is float else "numeric"}
    text = "" if value is None else str(value).lower() if setting.kind is bool else str(value)
    return FormInput(name=setting.parameter_name, field=field, value=text, attributes=attributes)


class ModelChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The models that a reader may choose."""

    names: tuple[str, ...]
    """By their whole names."""
    patterns: tuple[str, ...]
    """Others may be typed that look like these."""
    default: str
    """Who is taken where none is named; empty where one must be."""


class CodeCount(msgspec.Struct, frozen=True):
    """How often a code was found."""

    mark: Badge
    times: str


class EstimateResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would cost, or why there can be none."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    estimate: api.CostEstimate | None = None


class EstimateView(msgspec.Struct, frozen=True, kw_only=True):
    """A cost before anything is spent."""

    cost: str
    assumptions: str
    models: Table
    notes: tuple[str, ...]


class DraftPage(msgspec.Struct, frozen=True, kw_only=True):
    """The report on an upload, and the form that makes a run of it."""

    address: str
    file_name: str
    size: str
    kept: str
    is_pending: bool = False
    """It is being validated at this moment."""
    examined: ValidationSummary | None = None
    verdict: Badge | None = None
    reason: str = ""
    key_figures: tuple[KeyMetric, ...] = ()
    codes: tuple[CodeCount, ...] = ()
    fields: tuple[Fact, ...] = ()
    can_run: bool = False
    choice: RunFormQuery = RunFormQuery()
    models: ModelChoices | None = None
    judges: ModelChoices | None = None
    is_estimating: bool = False
    problems: tuple[str, ...] = ()
    """Why no run can be made with these settings."""
    estimate: EstimateView | None = None


def with_report(page: DraftPage, examined: ValidationSummary) -> DraftPage:
    """The page with what validation found."""
    return msgspec.structs.replace(
        page,
        examined=examined,
        verdict=Badge(OUTCOME_WORDS[examined.outcome], _OUTCOMES[examined.outcome]),
        reason=_reason(examined),
        key_figures=tuple(_key_figures(examined)),
        codes=tuple(_codes(examined)),
        fields=tuple(Fact(label.capitalize(), text) for label, text in examined.fields),
        can_run=examined.outcome != "rejected",
    )


def _reason(examined: ValidationSummary) -> str:
    counts = examined.counts
    unit = record_word(examined.contract)
    if examined.outcome == "accepted":
        return f"All {counted(counts.total_records, unit)} are valid {examined.contract} {unit}s."
    if examined.outcome == "rejected":
        return "Nothing can be evaluated until this is fixed."
    return (
        f"{counts.accepted_records:,} of {counted(counts.total_records, unit)} can be evaluated; fix the others or leave them out."
    )


def _key_figures(examined: ValidationSummary) -> Iterator[KeyMetric]:
    counts = examined.counts
    yield KeyMetric(label="Contract", figure=DisplayValue(examined.contract or "unknown", "Detected or chosen format of the file."))
    yield KeyMetric(label="Records", figure=DisplayValue(f"{counts.total_records:,}", "Records in the file."))
    yield KeyMetric(
        label="Accepted", figure=DisplayValue(f"{counts.accepted_records:,}", f"Without an error; of {counts.total_records:,}.")
    )
    yield KeyMetric(
        label="Rejected", figure=DisplayValue(f"{counts.rejected_records:,}", f"With an error; of {counts.total_records:,}.")
    )
    yield KeyMetric(label="Errors", figure=DisplayValue(f"{examined.errors:,}", "A record may have several."))
    yield KeyMetric(label="Warnings", figure=DisplayValue(f"{examined.warnings:,}", "They do not prevent a run."))


def _codes(examined: ValidationSummary) -> Iterator[CodeCount]:
    for code, severity, count in examined.codes:
        yield CodeCount(Badge(code, "bad" if severity == "error" else "warn", CODES.get(code, "")), f"{count:,}")


def estimate_view(found: EstimateResult) -> EstimateView | None:
    """The cost in words and by model; None where it is not known yet."""
    if found.estimate is None:
        return None
    estimate = found.estimate
    rows = tuple(
        (
            text_cell(model.model),
            text_cell("candidate" if model.stage == "candidate" else "judge"),
            text_cell(f"{model.calls:,}"),
            text_cell(f"{model.input_tokens:,}"),
            text_cell(f"{model.output_tokens:,}"),
            _cost(model),
        )
        for model in estimate.models
    )
    columns = (
        Column("Model"),
        Column("As"),
        Column("Calls", "Before any retry.", is_number=True),
        Column("Tokens sent", "Of the prompts that would be sent, at 4 bytes each.", is_number=True),
        Column(
            "Tokens back",
            f"At {estimate.answer_tokens:,} for an answer, {estimate.verdict_tokens:,} for a verdict.",
            is_number=True,
        ),
        Column("Cost", "Tokens times the listed price, in US dollars.", is_number=True),
    )
    return EstimateView(
        cost=estimate_text(estimate),
        assumptions=assumption_text(estimate),
        models=Table(title="Cost by model", columns=columns, rows=rows),
        notes=found.notes,
    )


def _cost(model: api.ModelEstimate) -> Cell:
    if model.is_free:
        return text_cell("free", "A scripted, recorded or local model.")
    if model.cost is None:
        return Cell("unknown price", "The price list does not have this model.", tone="warn")
    return text_cell(dollars(model.cost) if model.cost else DASH)
