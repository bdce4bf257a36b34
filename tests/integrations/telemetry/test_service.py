"""A real service that tells other tools of its runs and requests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integrations.telemetry.collector import Collector, attributes, collector
from tests.surfaces.server.serving import Serving, dataset

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")


class Told(Serving):
    """A service with lines of JSON and OpenTelemetry."""

    def command(self) -> list[str]:
        return [*super().command(), "--otel", "--log-format", "json"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[dict[str, Any]], str, Collector]]:
    """A run's id, the lines, the figures and the spans of a service that made one run."""
    folder = tmp_path_factory.mktemp("told")
    with collector() as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        with Told(folder) as service:
            run_id = service.submit(dataset(3)).json["run_id"]
            service.wait_for(lambda: b"assay_runs_ended_total{" in service.ask("GET", "/metrics").body)
            service.ask("GET", "/v1/runs/none", headers={"X-Request-Id": "request-7"})
            figures = service.ask("GET", "/metrics").body.decode()
            assert service.end() == 0
        lines = [json.loads(line) for line in Path(folder, "server.log").read_text(encoding="utf-8").splitlines() if line[0] == "{"]
        yield run_id, lines, figures, found


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text)
    return {tuple(sample.labels.values()): sample.value for family in families for sample in family.samples if sample.name == name}


def test_figures_of_runs_stand_beside_those_of_requests(told: Any) -> None:
    _, _, figures, _ = told
    assert samples(figures, "assay_records_total") == {("evaluated", "batch_v1"): 3}
    assert samples(figures, "assay_runs_ended_total") == {("completed",): 1}
    assert samples(figures, "assay_call_seconds_count")[("judge", "scripted/judge-5")] == 3
    assert samples(figures, "assay_runs_submitted_total") == {(): 1}


def test_lines_tell_of_the_run_its_records_and_every_request(told: Any) -> None:
    run_id, lines, _, _ = told
    events = [line["event"] for line in lines if line.get("run_id") == run_id]
    assert events == ["run_started", "record", "record", "record", "run_ended"]
    (request,) = [line for line in lines if line.get("request_id") == "request-7"]
    assert (request["event"], request["route"], request["status"]) == ("request", "/v1/runs/{run_id}", 404)


def test_traces_of_a_service_are_those_of_its_runs(told: Any) -> None:
    run_id, _, _, found = told
    records = [attributes(span) for span in found.spans if span.name == "assay.record"]
    assert [record["assay.run.id"] for record in records] == [run_id] * 3


def test_requests_are_logged_in_plain_words_where_the_settings_ask_for_it(tmp_path: Path) -> None:
    with Serving(tmp_path, settings="log_requests: true\n") as service:
        service.ask("GET", "/healthz", headers={"X-Request-Id": "request-8"})
        service.end()
    assert (tmp_path / "server.log").read_text(encoding="utf-8").count(" request=request-8\n") == 1
