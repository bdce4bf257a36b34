"""The table of failures: statuses, words and waits."""

import ast
import re
import time
from email.utils import formatdate
from pathlib import Path

import pytest

from assay.core.model_call import TRANSIENT_CODES, ModelFailure, Usage
from assay.core.outcome import ANSWER_TRUNCATED
from assay.engine.execution.batch_requests import UNANSWERED_MESSAGES
from assay.engine.execution.rejections import REJECTED
from assay.models.failures import (
    ERROR_WORDS,
    EXCEPTION_CODES,
    STATUS_CODES,
    ErrorResponse,
    error_failure,
    exception_failure,
    parse_retry_after,
    status_failure,
)
from assay.models.function import MODEL_ERROR
from assay.testing import StubProvider, StubReply
from tests.models.asking import class_of, plan_of, provider_of, reply_to

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "src" / "assay" / "models"
CODES_PAGE = ROOT / "docs" / "reference" / "failure-codes.md"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (302, "redirect_refused"),
        (400, "invalid_request"),
        (401, "unauthorized"),
        (402, "payment_required"),
        (403, "forbidden"),
        (404, "not_found"),
        (408, "timeout"),
        (409, "conflict"),
        (413, "request_too_large"),
        (418, "refused"),
        (422, "invalid_request"),
        (425, "service_unavailable"),
        (429, "rate_limited"),
        (500, "internal_error"),
        (502, "service_unavailable"),
        (529, "service_unavailable"),
        (599, "service_unavailable"),
    ],
)
def test_a_status_has_its_code(status: int, code: str) -> None:
    failure = status_failure(ErrorResponse(provider="p", status=status))
    assert (failure.code, failure.http_status) == (code, status)


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("context_length_exceeded", "context_too_long"),
        ("content_filter", "content_filtered"),
        ("unsupported_value", "parameter_refused"),
        ("whatever", "invalid_request"),
    ],
)
def test_an_error_word_makes_a_refused_request_more_exact(word: str, code: str) -> None:
    assert status_failure(ErrorResponse(provider="p", status=400, body={"error": {"code": word}})).code == code


def test_an_error_word_never_makes_a_redirect_anything_else() -> None:
    assert (
        status_failure(ErrorResponse(provider="p", status=307, body={"error": {"code": "content_filter"}})).code
        == "redirect_refused"
    )


@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota", "message": "You exceeded your current quota"},
        {"type": "billing_error", "message": "pay"},
        {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
    ],
)
def test_an_account_without_quota_is_exhausted(error: dict[str, str]) -> None:
    assert status_failure(ErrorResponse(provider="p", status=429, body={"error": error})).is_exhausted
    assert error_failure(ErrorResponse(provider="p", status=200, body={"error": error})).is_exhausted


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"message": "Your account is not active, please check your billing details.", "type": "billing_not_active"}),
        (429, {"message": "Your access was terminated due to violation of our policies.", "type": "access_terminated"}),
        (429, "Your team 1f-2 has either used all available credits or reached its monthly spending limit."),
        (400, {"message": "This organization has been disabled.", "type": "invalid_request_error"}),
        (400, {"message": "You have reached your specified API usage limits.", "type": "invalid_request_error"}),
        (400, {"message": "Organization has been restricted.", "code": "organization_restricted"}),
        (400, {"message": "API key expired. Please renew the API key.", "status": "INVALID_ARGUMENT", "code": 400}),
        (400, "Incorrect API key provided: ab***yz."),
        (400, {"message": "The model `old-70b` has been decommissioned.", "code": "model_decommissioned"}),
        (400, {"message": "Invalid model: large-9", "type": "invalid_model", "code": "1500"}),
        (400, {"message": "maker/large-9 is not a valid model ID", "code": 400}),
        (400, {"message": "Model Not Exist", "type": "invalid_request_error", "code": "invalid_request_error"}),
        (400, {"message": "The provided model identifier is invalid."}),
        (412, {"message": "Account someone-1 is suspended, possibly due to reaching the monthly spending limit."}),
    ],
)
def test_words_tell_that_a_key_a_model_or_an_account_is_rejected_whatever_the_status(status: int, error: object) -> None:
    body = {"error": error}
    for refused in (body, [body]):
        failure = status_failure(ErrorResponse(provider="p", status=status, body=refused))
        assert failure.is_exhausted or failure.code in REJECTED, failure.code


@pytest.mark.parametrize(
    "error",
    [
        {"message": "Your model requires moderation and your input was flagged", "code": 403, "metadata": {"flagged_input": "x"}},
        {"message": 'it requires moderation. Your input was flagged for "violence".'},
        {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"},
        {"message": "Request blocked by guardrail: content policy violation"},
    ],
)
@pytest.mark.parametrize("status", [400, 403])
def test_a_text_that_moderation_refuses_says_nothing_about_the_account(status: int, error: dict[str, object]) -> None:
    assert status_failure(ErrorResponse(provider="p", status=status, body={"error": error})).code == "content_filtered"


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "`temperature` is deprecated for this model.",
        "This model doesn't support the field. Remove it and try again.",
        "Tool choice is required, but model did not call a tool",
        "The model requested a tool 'x' that does not exist",
        "prompt is too long: 208310 tokens > 200000 maximum",
        "Invalid model output: expected JSON",
    ],
)
def test_a_request_that_is_refused_is_not_taken_for_a_rejected_model(message: str) -> None:
    assert status_failure(ErrorResponse(provider="p", status=400, body={"error": {"message": message}})).code == "invalid_request"


def test_a_model_that_thinks_until_its_limit_gave_a_truncated_answer_whatever_the_status() -> None:
    said = "Could not finish the message because max_tokens or model output limit was reached."
    assert status_failure(ErrorResponse(provider="p", status=400, body={"error": {"message": said}})).code == ANSWER_TRUNCATED


def test_a_quota_that_is_full_again_in_a_minute_is_waited_for() -> None:
    said = "You exceeded your current quota, please check your plan.\n* limit: 10\nPlease retry in 34.07s."
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    for message, seconds in ((said, 34.07), (said.partition("\n")[0], 34.0)):
        error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": [delay]}
        failure = status_failure(ErrorResponse(provider="p", status=429, body=[{"error": error}]))
        assert (failure.code, failure.is_exhausted, failure.retry_after) == ("rate_limited", False, seconds)
        error = {**error, "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}, delay]}
        assert status_failure(ErrorResponse(provider="p", status=429, body=[{"error": error}])).is_exhausted


def test_a_page_of_an_explanation_takes_no_time() -> None:
    began = time.process_time()
    for piece in ("model ", "account x ", "model:" + "x" * 300, "invalid model ", "reached your ", "try again in 1 "):
        status_failure(ErrorResponse(provider="p", status=400, body=piece * (3_000_000 // len(piece))))
    assert time.process_time() - began < 2


def test_an_ordinary_rate_limit_is_not_exhausted() -> None:
    assert not status_failure(ErrorResponse(provider="p", status=429, body={"error": {"message": "slow down"}})).is_exhausted


@pytest.mark.parametrize("body", [{"error": "plain words"}, {"message": "plain words"}, {"detail": "plain words"}, "plain words"])
def test_the_providers_words_are_kept_in_every_common_shape(body: object) -> None:
    assert "plain words" in status_failure(ErrorResponse(provider="p", status=500, body=body)).message


@pytest.mark.parametrize(("value", "seconds"), [("3", 3.0), ("1.5", 1.5), ("86400", 86400.0), ("0", 0.0)])
def test_seconds_to_wait_are_read(value: str, seconds: float) -> None:
    assert parse_retry_after({"retry-after": value}) == seconds


@pytest.mark.parametrize(
    "value", ["", "-5", "soon", "nan", "inf", "Sun, 99 Foo 2026 25:61:61 GMT", "Mon, 01 Jan 99999999999 00:00:00 GMT"]
)
def test_a_wait_that_means_nothing_is_none(value: str) -> None:
    assert parse_retry_after({"retry-after": value}) is None


def test_a_date_to_wait_for_is_read() -> None:
    assert parse_retry_after({"retry-after": formatdate(4102444800, usegmt=True)}) == pytest.approx(4102444800, rel=0.9)


def test_a_date_in_the_past_is_no_wait() -> None:
    assert parse_retry_after({"retry-after": formatdate(0, usegmt=True)}) == 0.0


@pytest.mark.parametrize(
    ("problem", "code"),
    [(TimeoutError(), "timeout"), (ConnectionResetError(), "service_unavailable"), (KeyError(), "internal_error")],
)
def test_an_exception_has_its_code(problem: Exception, code: str) -> None:
    assert exception_failure(problem, provider="p").code == code


def said_in(module: Path) -> set[str]:
    """The codes that a module writes out where a call fails."""
    calls = [node for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    failures = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in ("ModelFailure", "Broken")]
    return {call.args[0].value for call in failures if isinstance(call.args[0], ast.Constant)}


def test_the_reference_lists_every_code_and_which_are_tried_again() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", CODES_PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    written = set().union(*(said_in(module) for module in MODELS.glob("*.py")))
    tables = {*STATUS_CODES.values(), *ERROR_WORDS.values(), *EXCEPTION_CODES.values(), MODEL_ERROR, "refused", "redirect_refused"}
    tables |= {ANSWER_TRUNCATED}
    assert {code for code, _ in rows} == written | tables | set(UNANSWERED_MESSAGES)
    assert {code for code, answer in rows if answer == "yes"} == TRANSIENT_CODES


def test_an_end_that_is_an_error_is_no_answer() -> None:
    body = {"choices": [{"message": {"content": "half an ans"}, "finish_reason": "error"}]}
    with StubProvider([StubReply(body=body)]) as stub, pytest.raises(ModelFailure) as caught:
        reply_to(plan_of(provider_of("openai", stub.base_url)))
    assert (caught.value.code, caught.value.is_transient) == ("internal_error", True)
    assert caught.value.message == "the provider ended the reply with 'error'"


def test_a_response_that_failed_is_no_answer() -> None:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "half an ans"}]}]
    with StubProvider([StubReply(body={"status": "failed", "output": output})]) as stub:
        assert class_of(plan_of(provider_of("openai_responses", stub.base_url))) == "internal_error"


def test_tokens_are_added_up_where_a_provider_has_no_sum() -> None:
    body = {"choices": [{"message": {"content": "4"}}], "usage": {"prompt_tokens": 40, "completion_tokens": 12}}
    with StubProvider([StubReply(body=body)]) as stub:
        assert reply_to(plan_of(provider_of("openai", stub.base_url))).usage == Usage(40, 12, 52)
