"""Gates for people: threshold, value and reason, in the unit of what they are about."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.core.gate_text import MissedGate, gate_texts, missed_gates
from assay.core.settings import Gates
from assay.core.summary import Interval
from assay.metrics.summary import summarize
from tests.engine.graded_files import graded


def test_gates_are_shown_in_the_unit_of_what_they_are_about() -> None:
    gates = gate_texts(Gates(pass_rate=0.8, min_score=3.5, max_error_rate=0.0), None)
    assert [gate.asked for gate in gates] == [
        "pass rate at least 80.0 %",
        "mean score at least 3.50",
        "error rate at most 0.0 %",
    ]


def test_gates_on_checks_and_graders_are_named(tmp_path: Path) -> None:
    gates = Gates(pass_rate=0.5, checks={"exact": 0.6}, graders={"house": 0.9, "none": 0.1})
    found = gate_texts(gates, graded(tmp_path).reader.result.summary)
    assert [(gate.gate, gate.name, gate.value, gate.is_met) for gate in found] == [
        ("pass_rate", "pass rate", 0.5, True),
        ("checks.exact", "pass rate of the check 'exact'", 0.5, False),
        ("graders.house", "pass rate of the grader 'house'", 1.0, True),
        ("graders.none", "pass rate of the grader 'none'", None, False),
    ]
    assert found[1].missed == "pass rate of the check 'exact' 50.0 % is below 60.0 %"


def test_a_missed_gate_is_shown_with_the_digits_that_tell_it_from_its_limit() -> None:
    gates = gate_texts(Gates(pass_rate=0.8), replace(summarize(()), pass_rate=0.7996))
    stored = ["pass rate 0.7996 is below 0.8000"]
    assert missed_gates(stored, gates) == [MissedGate("pass_rate", "pass rate 79.96 % is below 80.00 %")]


def test_a_reason_belongs_to_its_gate_however_it_is_worded() -> None:
    gates = gate_texts(
        Gates(pass_rate=0.8, min_score=3.5, max_error_rate=0.1), replace(summarize(()), pass_rate=0.9, error_rate=0.2)
    )
    missed = missed_gates(["no score at all", "too many errors"], gates)
    assert missed == [MissedGate("min_score", "no score at all"), MissedGate("max_error_rate", "error rate 20.0 % is above 10.0 %")]


def test_a_reason_about_the_whole_run_belongs_to_no_gate() -> None:
    gates = gate_texts(Gates(pass_rate=0.8), replace(summarize(()), pass_rate=0.8))
    assert missed_gates(["pass rate or not, nothing could be evaluated"], gates) == [
        MissedGate("", "pass rate or not, nothing could be evaluated")
    ]


def test_a_gate_has_the_value_and_the_interval_of_its_metric() -> None:
    interval = Interval(low=0.8, high=0.95, method="wilson", n=40)
    summary = replace(summarize(()), pass_rate=0.9, pass_rate_interval=interval)
    (gate,) = gate_texts(Gates(pass_rate=0.8), summary)
    assert (gate.met, gate.interval) == ("pass rate 90.0 % (at least 80.0 %)", interval)


def test_a_gate_without_a_value_is_unknown() -> None:
    (gate,) = gate_texts(Gates(min_score=3.5), None)
    assert (gate.met, gate.missed, gate.is_met) == ("mean score unknown (at least 3.50)", "mean score is undefined", False)


@pytest.mark.parametrize(("value", "text"), [(3.2, "3.20 is below 3.50"), (3.499, "3.499 is below 3.500")])
def test_a_missed_gate_on_scores_is_shown_as_scores(value: float, text: str) -> None:
    (gate,) = gate_texts(Gates(min_score=3.5), None)
    assert replace(gate, value=value).missed == f"mean score {text}"
