"""The table of failures: statuses, words and waits."""

import ast
import re
from email.utils import formatdate
from pathlib import Path

import pytest

from assay.core.ask import TRANSIENT_CODES, ModelFailure, Usage
from assay.engine.running.batch_merge import UNANSWERED_MESSAGES
from assay.models.failures import (
    ERROR_WORDS,
    EXCEPTION_CODES,
    STATUS_CODES,
    Refusal,
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
    failure = status_failure(Refusal(provider="p", status=status))
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
    assert status_failure(Refusal(provider="p", status=400, body={"error": {"code": word}})).code == code


def test_an_error_word_never_makes_a_redirect_anything_else() -> None:
    assert status_failure(Refusal(provider="p", status=307, body={"error": {"code": "content_filter"}})).code == "redirect_refused"


@pytest.mark.parametrize(
    "error",
    [
        {"code": "insufficient_quota", "message": "You exceeded your current quota"},
        {"type": "billing_error", "message": "pay"},
        {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
    ],
)
def test_an_account_without_quota_is_exhausted(error: dict[str, str]) -> None:
    assert status_failure(Refusal(provider="p", status=429, body={"error": error})).is_exhausted
    assert error_failure(Refusal(provider="p", status=200, body={"error": error})).is_exhausted


def test_an_ordinary_rate_limit_is_not_exhausted() -> None:
    assert not status_failure(Refusal(provider="p", status=429, body={"error": {"message": "slow down"}})).is_exhausted


@pytest.mark.parametrize("body", [{"error": "plain words"}, {"message": "plain words"}, {"detail": "plain words"}, "plain words"])
def test_the_providers_words_are_kept_in_every_common_shape(body: object) -> None:
    assert "plain words" in status_failure(Refusal(provider="p", status=500, body=body)).message


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
