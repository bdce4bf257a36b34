"""What validation says of an upload as a page, and the form that makes a run of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from assay import api
from assay.core.contract import BUILT_IN, CONTRACTS
from assay.core.exposure import ExposedSetting, FormField, settings_struct
from assay.core.settings import run_settings
from assay.presentation import words
from assay.presentation.sections import Badge, Fact, KeyMetric, Table
from assay.presentation.subject import estimate_table
from assay.presentation.validation import (
    OUTCOME_TONES,
    OUTCOME_WORDS,
    CodeCount,
    ValidationSummary,
    code_counts,
    field_lines,
    record_word,
    select,
    shown_issues,
    validation_metrics,
    validation_reason,
)
from assay.presentation.words import assumption_text, counted, estimate_text

SHOWN = 100
"""Issues that the page lists; all of them are counted."""
CHOICES = (("auto", "recognise it"), *((name, f"{name}: {contract.written_as}") for name, contract in CONTRACTS.items()))
_Model = Annotated[str, Meta(max_length=256)]


def examine(path: Path, contract: str, *, allow_size: bool = False) -> ValidationSummary:
    """Validate a file for the page."""
    # Only built-in contracts: a page must not let a caller run code of a plugin on the server.
    report = api.validate(path, BUILT_IN if contract == "auto" else contract, allow_size=allow_size, interface="page")
    counts = report.issue_counts
    # Collapsed: the same mistake in each of 50,000 rows would otherwise fill the page.
    selection = select(report, max_issues=SHOWN, is_collapsed=True)
    left_out = ((selection.omitted_errors, "more error"), (selection.omitted_warnings, "more warning"))
    return ValidationSummary(
        outcome=report.outcome,
        contract=report.contract or "",
        counts=report.counts,
        findings=tuple(shown_issues(selection.shown)),
        omitted=" and ".join(counted(count, noun) for count, noun in left_out if count),
        codes=tuple((code, severity, count) for (code, severity), count in counts.most_common()),
        errors=report.count("error"),
        warnings=report.count("warning"),
        fields=tuple(field_lines(report.fields, record_word(report.contract))),
    )


class ValidateChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the address of the form may say."""

    contract: str = "auto"


class ValidatePage(msgspec.Struct, frozen=True, kw_only=True):
    """Form that takes a file."""

    contract: str
    contracts: tuple[tuple[str, str], ...]
    max_bytes: int
    limit: str
    problem: str = ""
    hint: str = ""


def validate_page(contract: str, max_bytes: int, *, problem: str = "", hint: str = "") -> ValidatePage:
    """Return the form, with a problem above it."""
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


# Decided by the definition of a setting: one without a form field does not appear here.
_ON_FORM = tuple(setting for setting in run_settings().values() if setting.form is not None)
# mypy cannot see members that are made from the definitions at import time.
if TYPE_CHECKING:
    _ChosenSettings = _ChosenModels
else:
    _ChosenSettings = settings_struct(
        "_ChosenSettings", [(one.parameter_name, one.query_kind, None) for one in _ON_FORM], base=_ChosenModels, module=__name__
    )


class RunFormQuery(_ChosenSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run as its form sends them: those of `core/settings.py` that have a field there."""

    @property
    def judges(self) -> tuple[str, ...]:
        """Those that are named."""
        return tuple(name for name in (self.judge, self.judge2, self.judge3) if name)

    def settings(self) -> dict[str, object]:
        """Return the settings by the names of their parameters."""
        return {setting.parameter_name: getattr(self, setting.parameter_name) for setting in _ON_FORM}

    def inputs(self, *, is_extra: bool, has_rejected: bool) -> list[FormInput]:
        """Return the fields of the form with what was chosen: the usual ones, or those below "More settings"."""
        found = [_form_input(setting, setting.form, chosen=self) for setting in _ON_FORM if setting.form is not None]
        # A field about rejected records has no meaning where there are none.
        return [one for one in found if one.field.is_extra == is_extra and (has_rejected or not one.field.needs_rejected)]

    @property
    def has_extra(self) -> bool:
        """True when something below "More settings" is chosen."""
        return bool(self.judge2 or self.judge3) or any(one.value for one in self.inputs(is_extra=True, has_rejected=True))

    def query(self) -> str:
        """Return the same as the query of an address."""
        given = {name: getattr(self, name) for name in RunFormQuery.__struct_fields__}
        # Left out where empty, so that the address of an estimate is the same for the same choice.
        return urlencode({name: value for name, value in given.items() if value not in ("", None)})


def _form_input(setting: ExposedSetting, field: FormField, *, chosen: RunFormQuery) -> FormInput:
    value = getattr(chosen, setting.parameter_name)
    attributes = {"type": "text"}
    if setting.kind in (int, float):
        bounds = {"min": setting.low, "max": setting.high, "step": "any" if setting.kind is float else None}
        given = {name: str(bound) for name, bound in bounds.items() if bound is not None}
        attributes = {"type": "number", **given, "inputmode": "decimal" if setting.kind is float else "numeric"}
    # Booleans are words in a form: HTML knows no other values.
    text = "" if value is None else str(value).lower() if setting.kind is bool else str(value)
    return FormInput(name=setting.parameter_name, field=field, value=text, attributes=attributes)


class ModelChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Models that a reader may choose."""

    names: tuple[str, ...]
    """By their whole names."""
    patterns: tuple[str, ...]
    """Others may be typed that look like these."""
    default: str
    """Who is taken where none is named; empty where one must be."""


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
    """Report on an upload, and the form that makes a run of it."""

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
    """Return the page with what validation found."""
    return msgspec.structs.replace(
        page,
        examined=examined,
        verdict=Badge(OUTCOME_WORDS[examined.outcome], OUTCOME_TONES[examined.outcome]),
        reason=validation_reason(examined),
        key_figures=tuple(validation_metrics(examined)),
        codes=tuple(code_counts(examined)),
        fields=tuple(Fact(label.capitalize(), text) for label, text in examined.fields),
        can_run=examined.outcome != "rejected",
    )


def estimate_view(found: EstimateResult) -> EstimateView | None:
    """Return the cost in words and by model; None until it is known."""
    if found.estimate is None:
        return None
    return EstimateView(
        cost=estimate_text(found.estimate),
        assumptions=assumption_text(found.estimate),
        models=estimate_table(found.estimate),
        notes=found.notes,
    )
