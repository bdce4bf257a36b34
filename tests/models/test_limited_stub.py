"""Limits of stub providers, and the headers in which they state them."""

from typing import get_args

import pytest

from assay.models.limited_stub import (
    CallsInFlight,
    FixedWindow,
    HeaderStyle,
    LimitState,
    SlidingWindow,
    StubLimit,
    TokenBucket,
    limit_headers,
)

NOW = 1_800_000_000.0


def accepted(limit: StubLimit, times: list[float], *, units: float = 1.0, in_flight: int = 0) -> list[bool]:
    return [limit.take(at, units, in_flight).is_accepted for at in times]


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    assert accepted(TokenBucket(10, 2), [0.0, 0.0, 0.0, 0.1, 0.1]) == [True, True, False, True, False]


def test_a_bucket_of_tokens_rejects_what_is_larger_than_the_rest() -> None:
    bucket = TokenBucket(100, 100, unit="tokens")
    assert accepted(bucket, [0.0], units=80) == [True]
    assert bucket.take(0.0, 50, 0).wait == pytest.approx(0.3)


def test_a_fixed_window_begins_at_a_multiple_of_its_length() -> None:
    assert accepted(FixedWindow(2, 1.0, phase=0.4), [0.0, 0.1, 0.2, 0.6, 0.7, 0.8]) == [True, True, False, True, True, False]


def test_a_sliding_window_counts_the_last_seconds() -> None:
    assert accepted(SlidingWindow(2, 1.0), [0.0, 0.6, 0.9, 1.0, 1.5, 1.6]) == [True, True, False, True, False, True]


def test_a_limit_on_the_calls_in_flight_counts_those_alone() -> None:
    limit = CallsInFlight(2)
    assert [limit.take(0.0, 1, in_flight).is_accepted for in_flight in (0, 1, 2)] == [True, True, False]


FULL = LimitState(is_accepted=False, limit=10, remaining=0, reset=90.5, wait=0.25)
FREE = LimitState(is_accepted=True, limit=10, remaining=4, reset=0.02)


@pytest.mark.parametrize(
    ("style", "full", "free"),
    [
        ("none", {"retry-after": "1"}, {}),
        ("retry-after", {"retry-after": "1"}, {}),
        ("retry-after-date", {"retry-after": "Fri, 15 Jan 2027 08:00:01 GMT"}, {}),
        ("retry-after-ms", {"retry-after": "1", "retry-after-ms": "250"}, {}),
        (
            "openai",
            {
                "x-ratelimit-limit-requests": "10",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1m31s",
                "retry-after": "1",
            },
            {"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": "4", "x-ratelimit-reset-requests": "20ms"},
        ),
        (
            "anthropic",
            {
                "anthropic-ratelimit-requests-limit": "10",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2027-01-15T08:01:31Z",
                "retry-after": "1",
            },
            {
                "anthropic-ratelimit-requests-limit": "10",
                "anthropic-ratelimit-requests-remaining": "4",
                "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:01Z",
            },
        ),
        (
            "ietf",
            {"ratelimit-policy": '"default";q=10;w=60', "ratelimit": '"default";r=0;t=91', "retry-after": "1"},
            {"ratelimit-policy": '"default";q=10;w=60', "ratelimit": '"default";r=4;t=1'},
        ),
        (
            "epoch",
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000090500"},
            {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "4", "x-ratelimit-reset": "1800000000020"},
        ),
    ],
)
def test_a_limit_is_stated_as_a_vendor_states_it(style: HeaderStyle, full: dict[str, str], free: dict[str, str]) -> None:
    expected = {} if style == "none" else full
    assert limit_headers(style, FULL, "requests", now=NOW, seconds=60) == expected
    assert limit_headers(style, FREE, "requests", now=NOW, seconds=60) == free


@pytest.mark.parametrize("style", get_args(HeaderStyle))
def test_headers_are_lower_case_and_hold_no_line_end(style: HeaderStyle) -> None:
    headers = limit_headers(style, FULL, "tokens", now=NOW)
    assert all(name == name.lower() and "\n" not in value for name, value in headers.items())
