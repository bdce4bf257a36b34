"""What a run would cost, in words; a price that is not known is called so."""

from __future__ import annotations

from assay import api
from assay.presentation.words import counted, dollars


def cost_text(estimate: api.CostEstimate) -> str:
    """`about $0.0123 for 12 calls`, or why no sum can be told."""
    calls = counted(estimate.calls, "call")
    if not estimate.calls:
        return "free: no model is called"
    if all(model.is_free for model in estimate.models):
        return f"free: local or scripted models only ({calls})"
    if estimate.cost is not None:
        return f"about {dollars(estimate.cost)} for {calls}"
    unknown = dict.fromkeys(model.model for model in estimate.models if model.cost is None)
    rest = f"; about {dollars(estimate.known_cost)} for the rest" if estimate.known_cost else ""
    return f"unknown for {calls}: no price is listed for {', '.join(unknown)}{rest}"


def batch_text(model: api.ModelEstimate) -> str:
    """`2 batches of openai/gpt-5-mini for 60,000 requests, about $1.20 instead of $2.40 one by one; answers within 24 hours`."""
    batches = "1 batch" if model.batches == 1 else f"{model.batches:,} batches"
    cost = ", price unknown"
    if model.cost is not None and model.live_cost is not None:
        cost = f", about {dollars(model.cost)} instead of {dollars(model.live_cost)} one by one"
        cost += " (half is taken for granted, no price of batches is listed)" if model.is_assumed else ""
    return f"{batches} of {model.model} for {counted(model.calls, 'request')}{cost}; answers within 24 hours"


def assumption_text(estimate: api.CostEstimate) -> str:
    """What was taken for granted; empty where nobody is asked for money."""
    if not any(not model.is_free for model in estimate.models):
        return ""
    sent = sum(model.input_tokens for model in estimate.models)
    parts = [f"{sent:,} tokens are sent (4 bytes each)"]
    parts += [f"answers have {estimate.answer_tokens:,} tokens"] if _has(estimate, "candidate") else []
    parts += [f"verdicts have {estimate.verdict_tokens:,}"] if _has(estimate, "judge") else []
    if estimate.sampled < estimate.records:
        parts.append(f"all {estimate.records:,} records are like the {estimate.sampled:,} looked at")
    return f"if {', '.join(parts)}; without thinking, retries and cached replies"


def _has(estimate: api.CostEstimate, stage: str) -> bool:
    return any(model.stage == stage for model in estimate.models)
