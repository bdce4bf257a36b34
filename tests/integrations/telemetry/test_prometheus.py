"""Figures of runs for Prometheus, from real runs."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from assay.integrations.telemetry.prometheus import MAX_VALUES, OTHER, PrometheusMetrics
from tests.integrations.telemetry.test_json_log import run, seen

pytestmark = pytest.mark.usefixtures("folder")


def samples(path: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Values of a file by name and values of labels, as Prometheus' own reader reads it."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(Path(path).read_text(encoding="utf-8")):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_figures_are_those_of_the_run_in_a_format_that_prometheus_reads() -> None:
    run("--metrics-file", "assay.prom", "--quiet")
    found = samples("assay.prom")
    assert found["assay_records_total"] == {("evaluated", "golden_v1"): 5}
    assert found["assay_calls_total"] == {("candidate", "scripted/say-canary"): 5, ("judge", "scripted/judge-4"): 5}
    assert found["assay_call_seconds_count"] == found["assay_calls_total"]
    assert found["assay_runs_ended_total"] == {("completed",): 1}
    assert (found["assay_run_pass_rate"], found["assay_run_mean_score"]) == (
        {("scripted/say-canary",): 1},
        {("scripted/say-canary",): 0.75},
    )


def test_errors_are_counted_by_code() -> None:
    run("--metrics-file", "assay.prom", "--quiet", model="scripted/fail-content_filter")
    found = samples("assay.prom")
    assert found["assay_record_failures_total"] == {("content_filter",): 5}
    assert found["assay_call_errors_total"] == {("candidate", "scripted/fail-content_filter", "content_filter"): 5}


def test_names_that_others_choose_cannot_fill_the_memory() -> None:
    figures = PrometheusMetrics()
    for number in range(MAX_VALUES + 10):
        figures(seen(model=f'a "model"\\\n{number}'))
    values = {
        sample.labels["model"]
        for family in text_string_to_metric_families(figures.text())
        for sample in family.samples
        if "model" in sample.labels
    }
    assert (len(values), OTHER in values) == (MAX_VALUES + 1, True)
