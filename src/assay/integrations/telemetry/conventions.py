"""The names of OpenTelemetry's GenAI conventions, and a call or a grade in those names."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from assay import api
from assay.core.case import Message
from assay.core.provider import PROVIDERS

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
EVALUATION_NAME = "gen_ai.evaluation.name"
SCORE_VALUE = "gen_ai.evaluation.score.value"
SCORE_LABEL = "gen_ai.evaluation.score.label"
EXPLANATION = "gen_ai.evaluation.explanation"
TOKEN_TYPE = "gen_ai.token.type"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
HTTP_STATUS = "http.response.status_code"
EVALUATION_EVENT = "gen_ai.evaluation.result"
DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"
CHAT = "chat"
OVERALL = "overall"
"""Name of an evaluation whose evaluator is not known."""
PARAMETERS = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
    "max_tokens": "gen_ai.request.max_tokens",
    "seed": "gen_ai.request.seed",
}
"""Parameters of a call that the conventions know, by their names in a plan."""
DURATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS = tuple(float(4**power) for power in range(14))
"""Both as the conventions advise."""

Attributes = dict[str, Any]


# Few values only: each combination is a time series of its own.
def measured(call: api.CallEvent) -> Attributes:
    """Return the attributes of a call's metrics, each with few values."""
    found = {
        OPERATION: CHAT,
        PROVIDER: PROVIDERS[call.provider_kind].telemetry_name or call.provider_kind,
        "assay.provider": call.provider,
        REQUEST_MODEL: call.request_model,
        RESPONSE_MODEL: call.response_model,
        ERROR_TYPE: call.error_code,
        **_server(call.base_url),
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def described(call: api.CallEvent) -> Attributes:
    """Return the attributes of a call's span."""
    usage = call.usage
    found = {
        **measured(call),
        **_parameters(call),
        RESPONSE_ID: call.response_id,
        FINISH_REASONS: (call.finish_reason,) if call.finish_reason else None,
        INPUT_TOKENS: usage.input_tokens,
        OUTPUT_TOKENS: usage.output_tokens,
        CACHED_TOKENS: usage.cached_tokens,
        REASONING_TOKENS: usage.reasoning_tokens,
        HTTP_STATUS: call.http_status,
        INPUT_MESSAGES: _messages(call.asked),
        OUTPUT_MESSAGES: _answer(call),
        "assay.stage": call.stage,
        "assay.call.id": call.call_id,
        "assay.round": call.round,
        "assay.cost.usd": call.cost,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def evaluations(seen: api.RecordEvent) -> list[Attributes]:
    """Yield the result of the record, named by its evaluator and scaled to 0..1, and one for each criterion on its own scale.

    An answer that could not be graded has one result with the error code; a record without an answer has none.
    """
    if seen.score is None:
        # A candidate that failed left no answer that could be evaluated.
        return [{EVALUATION_NAME: OVERALL, ERROR_TYPE: seen.code}] if seen.stage == "judge" else []
    whole = {
        EVALUATION_NAME: seen.evaluator or OVERALL,
        SCORE_VALUE: seen.score,
        SCORE_LABEL: "pass" if seen.passed else "fail",
        EXPLANATION: seen.explanation,
        "assay.evaluation.scale": "0-1",
        "assay.failure.label": seen.label,
    }
    single = [
        {
            EVALUATION_NAME: score.criterion,
            SCORE_VALUE: score.score,
            EXPLANATION: score.explanation,
            "assay.evaluation.scale": score.scale,
            "assay.judge": score.judge,
        }
        for score in seen.scores
    ]
    return [{name: value for name, value in found.items() if value != ""} for found in (whole, *single)]


def _parameters(call: api.CallEvent) -> Attributes:
    sent = PROVIDERS[call.provider_kind].sent_names
    # Providers call one parameter by different names; the conventions have one for each.
    given = {sent.get(name, name): value for name, value in call.parameters.items()}
    return {attribute: given[name] for name, attribute in PARAMETERS.items() if given.get(name) is not None}


def _server(base_url: str) -> Attributes:
    parts = urlsplit(base_url)
    return {SERVER_ADDRESS: parts.hostname, SERVER_PORT: parts.port or (443 if parts.scheme == "https" else 80)} if base_url else {}


def _messages(messages: Sequence[Message]) -> str:
    said = [{"role": message.role, "parts": [{"type": "text", "content": message.content}]} for message in messages]
    return json.dumps(said, ensure_ascii=False) if said else ""


def _answer(call: api.CallEvent) -> str:
    parts = [{"type": "text", "content": call.said}]
    answer = {"role": "assistant", "parts": parts, "finish_reason": call.finish_reason or "stop"}
    return json.dumps([answer], ensure_ascii=False) if call.said else ""
