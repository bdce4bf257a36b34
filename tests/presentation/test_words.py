"""Numbers and states in words: each once, unknown ones as a dash, and rounding that promises nothing."""

import pytest

from assay.api import CostEstimate, ModelEstimate
from assay.core.summary import Interval, MeanBounds, MetricValue
from assay.presentation import words
from assay.presentation.sections import Cell, IntervalBar
from assay.presentation.words import assumption_text, batch_text, estimate_text


def interval(low: float, high: float, n: int) -> Interval:
    return Interval(low=low, high=high, method="wilson", n=n)


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(0, 9, "0.0 %"), (9, 9, "100.0 %"), (1, 5000, "0.1 %"), (4999, 5000, "99.9 %"), (1, 0, words.DASH)],
)
def test_a_share_is_all_or_nothing_only_where_it_is(count: int, total: int, text: str) -> None:
    assert words.share(count, total).text == text


def test_an_interval_stands_in_brackets_and_one_that_is_unknown_is_left_out() -> None:
    assert (
        words.metric_text(MetricValue(value=0.833, interval=interval(0.436, 0.97, 6), n=6), is_rate=True)
        == "83.3 % [43.6 %, 97.0 %]"
    )
    assert words.metric_text(MetricValue(value=4.33, interval=interval(3.97, 4.69, 6), n=6)) == "4.33 [3.97, 4.69]"
    assert words.metric_text(MetricValue(value=4.33, interval=None, n=1)) == "4.33"
    assert words.metric_text(MetricValue(value=None, interval=None, n=0)) == words.UNKNOWN


def test_a_change_has_signs_and_says_that_it_has_no_interval() -> None:
    found = MetricValue(value=0.05, interval=interval(-0.012, 0.113, 40), n=40)
    assert words.change_text(found, is_rate=True) == "+5.0 pp [-1.2 pp, +11.3 pp]"
    assert words.change_text(found) == "+0.05 [-0.01, +0.11]"
    assert words.change_text(MetricValue(value=0.05, interval=None, n=1)) == "+0.05 (no interval)"
    assert words.change_text(MetricValue(value=None, interval=None, n=0)) == words.UNKNOWN


@pytest.mark.parametrize(("scale", "text"), [("1-5", "3.00 at worst, 4.00 at best"), ("0-1", "0.50 at worst, 0.75 at best")])
def test_bounds_are_on_the_scale_of_the_records(scale: str, text: str) -> None:
    assert words.bounds_text(MeanBounds(worst=0.5, best=0.75, n=4), scale=scale) == text
    assert words.bounds_text(None, scale=scale) == ""


def test_answers_to_records_that_were_asked_several_times_are_no_records() -> None:
    found = words.rate_value(0.5, (0.2, 0.8), over=words.basis(18, interval(0.2, 0.8, 6), None))
    assert (found.n, found.says) == ("n 6", "pass rate 50.0 % of 18 scored answers to 6 records; 95 % interval 20.0 % to 80.0 %")
    assert found.full == "50.0 % [20.0 %, 80.0 %]"


def test_a_figure_of_records_that_hang_together_has_the_interval_of_their_clusters() -> None:
    plain, wider = interval(0.4, 0.6, 30), interval(0.2, 0.8, 6)
    found = words.rate_value(0.5, words.ends_of(wider), over=words.basis(30, plain, wider))
    assert (found.n, found.says) == (
        "n 6 clusters",
        "pass rate 50.0 % of 30 scored records in 6 clusters; 95 % interval 20.0 % to 80.0 %",
    )


@pytest.mark.parametrize(("number", "text"), [(0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1.0 KB"), (5 << 30, "5.0 GB")])
def test_sizes_are_told_in_units_of_1024(number: int, text: str) -> None:
    assert words.size(number) == text


def test_a_figure_without_a_value_is_a_dash_and_says_why() -> None:
    assert words.rate_value(None, None, over=words.MetricBasis(0)) == Cell(words.DASH, "pass rate: no record has a score")
    assert words.money(None, unpriced=3).text == "unknown"
    assert words.money(1.5, unpriced=3).text == "> $1.50"
    assert words.whisker(None, None) is None


def test_a_bar_stays_on_its_line() -> None:
    assert words.whisker(4.0, (2.0, 6.0), domain=words.domain("1-5")) == IntervalBar(25.0, 75.0, 100.0)


@pytest.mark.parametrize(("p95", "text"), [(0.4, "95 % took <1 ms"), (812, "95 % took less than 812 ms"), (None, "")])
def test_how_long_nearly_all_took_is_said_in_one_sentence(p95: float | None, text: str) -> None:
    assert words.most_took(p95) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (0.2, "<1 ms"), (812.4, "812 ms"), (2140.0, "2.1 s"), (59_700.0, "1 min 00 s"), (185_000.0, "3 min 05 s")],
)
def test_latencies_are_told_in_the_unit_that_fits(milliseconds: float | None, text: str) -> None:
    assert words.latency(milliseconds) == text


def test_durations_of_hours_are_told_in_hours() -> None:
    assert words.duration(7_620) == "2 h 07 min"


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, "$0.00"), (1204.5, "$1,204.50"), (0.43, "$0.4300"), (0.01234, "$0.0123"), (0.0000045, "$0.00000450")],
)
def test_small_amounts_keep_three_digits(amount: float, text: str) -> None:
    assert words.dollars(amount) == text


def test_a_bar_is_as_long_as_its_share_and_never_empty_for_something() -> None:
    assert (words.bar(0, 9), words.bar(3, 6), len(words.bar(6, 6)), words.bar(1, 10_000)) == ("", "█" * 12, 24, "▏")


def test_a_share_says_100_only_when_everything_is_done() -> None:
    assert (words.percent(999, 1000), words.percent(1000, 1000), words.percent(0, 0)) == ("99 %", "100 %", "-")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("no whole answer within 60 s", "timeout: no whole answer within 60 s"),
        ("judge a/b: timeout: no whole answer", "timeout: judge a/b: no whole answer"),
        ("judge a/b: timeout after 3 attempts: no whole answer", "timeout: judge a/b after 3 attempts: no whole answer"),
        ("timeout after 3 attempts: no whole answer", "timeout: after 3 attempts: no whole answer"),
        ("judge a/timeout: slow", "timeout: judge a/timeout: slow"),
        ("", "timeout"),
        (None, "timeout"),
    ],
)
def test_an_error_in_words(message: str | None, text: str) -> None:
    assert words.error_text("timeout", message) == text


ASKED = {"calls": 50, "input_tokens": 12_000, "output_tokens": 20_000}


def estimate(*models: ModelEstimate, cost: float | None) -> CostEstimate:
    calls = sum(model.calls for model in models)
    known = sum(model.cost or 0.0 for model in models)
    return CostEstimate(models=models, calls=calls, cost=cost, known_cost=known, records=50, sampled=50)


def test_what_calls_no_model_is_free() -> None:
    assert estimate_text(estimate(cost=0.0)) == "free: no model is called"


def test_a_price_that_is_not_listed_is_named_and_the_rest_is_counted() -> None:
    small = ModelEstimate(stage="candidate", model="small", cost=0.043, **ASKED)
    judge = ModelEstimate(stage="judge", model="openai/gpt-5", cost=None, **ASKED)
    found = estimate(small, judge, cost=None)
    assert estimate_text(found) == "unknown for 100 calls: no price is listed for openai/gpt-5; about $0.0430 for the rest"
    assert assumption_text(found).startswith("if 24,000 tokens are sent (4 bytes each), answers have ")


def test_batches_say_how_much_less_they_cost() -> None:
    model = ModelEstimate(stage="candidate", model="small", cost=1.2, live_cost=2.4, batches=2, **ASKED)
    assert (
        batch_text(model) == "2 batches of small for 50 requests, about $1.20 instead of $2.40 one by one; answers within 24 hours"
    )
