"""Parameters that a run's providers rejected: kept in the notes of its ledger, for all workers and for its manifest."""

from collections.abc import Iterable, Mapping
from typing import get_args

import msgspec

from assay.core.manifest import LimitOrigin, NegotiatedModel
from assay.core.model_call import OMITTED, Adjustment
from assay.core.plan import ModelPlan, Plan
from assay.core.provider import PROVIDERS
from assay.core.settings import ModelParameters
from assay.engine.records.redaction import RedactedPlan
from assay.models.negotiation import REPLY_FORMATS, SystemRole
from assay.models.rejections import MAX_TOKENS, REPLY_FORMAT
from assay.store.ledger import Ledger

_PREFIX = "parameters"
_STEPS: tuple[str, ...] = (*get_args(SystemRole), *REPLY_FORMATS)


def save_adjustments(ledger: Ledger, model: str, adjustments: Iterable[Adjustment]) -> None:
    """Store what was learned of a model's parameters, each in a note of its own: workers learn at the same time."""
    for adjustment in adjustments:
        ledger.set_note(f"{_PREFIX}/{adjustment.parameter}/{_change(adjustment)}/{model}", msgspec.json.encode(adjustment).decode())


def exchange_adjustments(ledger: Ledger, model: str, adjustments: Iterable[Adjustment]) -> tuple[Adjustment, ...]:
    """Store what was learned of a model's parameters, and return all that is known by now: other workers learn too."""
    save_adjustments(ledger, model, adjustments)
    return read_adjustments(ledger.run().notes).get(model, ())


def _change(adjustment: Adjustment) -> str:
    """Return the part of a note's name that keeps a limit and another name of one parameter apart."""
    return "limit" if adjustment.value.isdecimal() else adjustment.value


def read_adjustments(notes: Mapping[str, str]) -> dict[str, tuple[Adjustment, ...]]:
    """Read what was learned, by model."""
    found: dict[str, list[Adjustment]] = {}
    for name, value in sorted(notes.items()):
        parts = name.split("/", 3)
        if parts[0] == _PREFIX and len(parts) == 4 and value:
            found.setdefault(parts[3], []).append(msgspec.json.decode(value, type=Adjustment))
    return {model: tuple(sorted(adjustments, key=_step)) for model, adjustments in found.items()}


def _step(adjustment: Adjustment) -> int:
    """Return how far an adjustment goes among those of its parameter: names of notes have an order of their own."""
    return _STEPS.index(adjustment.value) if adjustment.value in _STEPS else 0


def negotiated_models(plan: Plan, notes: Mapping[str, str], shown: RedactedPlan) -> tuple[NegotiatedModel, ...]:
    """Describe for the manifest what was learned of each model, and which output limit it had."""
    learned = {
        name: tuple(
            msgspec.structs.replace(adjustment, reason=shown.redactor.text(adjustment.reason)) for adjustment in adjustments
        )
        for name, adjustments in read_adjustments(notes).items()
    }
    models = {model.name: model for model in plan.models() if plan.takes_parameters(model)}
    judges = {judge.name for judge in plan.judges if _is_sent_schemas(plan, judge)}
    return tuple(
        _negotiated(shown.name(name), model, learned.get(name, ()), is_judge=name in judges) for name, model in models.items()
    )


def _is_sent_schemas(plan: Plan, judge: ModelPlan) -> bool:
    """Return whether assay chooses the form of a judge's replies: over HTTP, unless the plan's own members set it."""
    kinds = [provider.kind for provider in plan.providers if provider.name == judge.provider]
    is_set = judge.parameters.extra_body.keys() & {"response_format", "text", "output_config"}
    return all(PROVIDERS[kind].vendor is not None for kind in kinds) and not is_set


def _negotiated(name: str, model: ModelPlan, adjustments: tuple[Adjustment, ...], *, is_judge: bool) -> NegotiatedModel:
    limit, origin = _output_limit(model, adjustments)
    forms = [adjustment.value for adjustment in adjustments if adjustment.parameter == REPLY_FORMAT]
    form = max(forms, key=REPLY_FORMATS.index, default=REPLY_FORMATS[0]) if is_judge else ""
    return NegotiatedModel(name, adjustments, limit, origin, form)


def _output_limit(model: ModelPlan, adjustments: Iterable[Adjustment]) -> tuple[int | None, LimitOrigin]:
    limits = [adjustment for adjustment in adjustments if adjustment.parameter == MAX_TOKENS]
    numbers = [int(adjustment.value) for adjustment in limits if adjustment.value.isdecimal()]
    if numbers:
        return min(numbers), "provider"
    is_omitted = any(adjustment.value == OMITTED for adjustment in limits)
    if model.parameters.max_tokens is not None and not is_omitted:
        return model.parameters.max_tokens, "user"
    return None, "model"


def sent_parameters(model: ModelPlan, adjustments: Iterable[Adjustment]) -> ModelParameters:
    """Return the parameters as the model was sent them; None is what was left to the provider."""
    sent: dict[str, object] = {}
    for adjustment in adjustments:
        if adjustment.value == OMITTED:
            sent[adjustment.parameter] = None
        elif adjustment.value.isdecimal():
            sent[adjustment.parameter] = int(adjustment.value)
    known = {name: value for name, value in sent.items() if name in ModelParameters.__struct_fields__}
    return msgspec.structs.replace(model.parameters, **known)
