"""The table of failures: statuses, words and waits."""

from email.utils import formatdate

import pytest

from assay.models.failures import Refusal, error_failure, exception_failure, parse_retry_after, status_failure


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
