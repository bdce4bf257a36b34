"""Traces and metrics as a real receiver gets them; a collector that is slow or gone costs a run nothing but its spans."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from assay.integrations.telemetry.otel import BATCH, Outbox
from tests.integrations.telemetry.collector import Collector, attributes, collector
from tests.integrations.telemetry.traced import ANSWER, KEY, named, run
from tests.models.faulty_provider import completion, faulty_provider, http, send

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")

CLIENT = 3
"""The kind of a span that calls somebody."""


def test_every_record_has_a_trace_of_its_own_that_is_linked_to_its_run(seen: Collector) -> None:
    records, (whole,) = named(seen, "assay.record"), named(seen, "assay.run")
    assert len({span.trace_id for span in records}) == 5
    assert {(link.trace_id, link.span_id) for span in records for link in span.links} == {(whole.trace_id, whole.span_id)}
    assert attributes(whole)["assay.run.state"] == "completed"


def test_the_trace_of_a_record_can_be_told_from_its_name(seen: Collector) -> None:
    traces = {attributes(span)["assay.record.id"]: span.trace_id for span in named(seen, "assay.record")}
    assert traces["sum-1"] == hashlib.sha256(b"traced/sum-1/0").digest()[:16]


def test_calls_of_candidate_and_judge_are_client_spans_below_their_record(seen: Collector) -> None:
    records = {span.span_id: span for span in named(seen, "assay.record")}
    calls = [span for span in seen.spans if span.parent_span_id in records]
    assert sorted(attributes(span)["assay.stage"] for span in calls) == ["candidate"] * 5 + ["judge"] * 5
    assert {span.kind for span in calls} == {CLIENT}
    assert all(span.trace_id == records[span.parent_span_id].trace_id for span in calls)


def test_grades_are_evaluation_events_on_the_call_that_was_graded(seen: Collector) -> None:
    (event, single), *_ = [span.events for span in named(seen, f"chat say-{ANSWER}")]
    assert {event.name, single.name} == {"gen_ai.evaluation.result"}
    assert attributes(event)["gen_ai.evaluation.score.label"] == "pass"
    assert (attributes(single)["gen_ai.evaluation.score.value"], attributes(single)["assay.evaluation.scale"]) == (4.0, "1-5")


def test_metrics_have_duration_and_tokens_by_model(seen: Collector) -> None:
    durations = {
        attributes(point)["gen_ai.request.model"]: point.count for point in seen.metric("gen_ai.client.operation.duration")
    }
    kinds = {attributes(point)["gen_ai.token.type"] for point in seen.metric("gen_ai.client.token.usage")}
    assert durations == {"judge-4": 5, f"say-{ANSWER}": 5}
    assert kinds == {"input", "output"}
    assert [point.as_int for point in seen.metric("assay.records")] == [5]


def test_no_prompt_answer_explanation_or_key_is_sent_unless_it_is_asked_for(seen: Collector) -> None:
    sent = b"".join(seen.bodies).replace(f"say-{ANSWER}".encode(), b"")
    assert not any(text in sent for text in (ANSWER.encode(), b"2 + 2", b"The script gives", KEY.encode()))
    assert seen.resource["service.name"] == "assay"


@pytest.mark.usefixtures("folder")
def test_content_that_is_asked_for_is_sent_redacted() -> None:
    with collector() as found:
        run(found.url, "--otel-content", model=f"scripted/say-the key is {KEY}")
    calls = [attributes(span) for span in found.spans if span.kind == CLIENT]
    answers = [json.loads(call["gen_ai.output.messages"])[0]["parts"][0]["content"] for call in calls]
    assert any(answer.startswith("the key is [REDACTED:") for answer in answers)
    assert any("2 + 2" in call["gen_ai.input.messages"] for call in calls)
    assert b"The script gives" in b"".join(found.bodies)
    assert KEY.encode() not in b"".join(found.bodies)


@pytest.mark.usefixtures("folder")
def test_a_call_that_fails_has_its_code_as_error_type() -> None:
    with collector() as found:
        run(found.url, model="scripted/fail-invalid_request")
    (first, *_) = named(found, "chat fail-invalid_request")
    assert (attributes(first)["error.type"], first.status.code) == ("invalid_request", 2)
    assert {attributes(span)["error.type"] for span in named(found, "assay.record")} == {"invalid_request"}


@pytest.mark.usefixtures("folder")
def test_a_judge_that_fails_leaves_an_evaluation_with_its_code_and_no_score() -> None:
    with collector() as found:
        run(found.url, judge="scripted/fail-content_filter")
    (event,) = named(found, f"chat say-{ANSWER}")[0].events
    assert event.name == "gen_ai.evaluation.result"
    assert attributes(event) == {"gen_ai.evaluation.name": "overall", "error.type": "content_filter"}


@pytest.mark.usefixtures("folder")
def test_the_environment_names_the_service_and_its_headers() -> None:
    with collector() as found:
        run(found.url, OTEL_SERVICE_NAME="nightly", OTEL_RESOURCE_ATTRIBUTES="team=search")
    assert (found.resource["service.name"], found.resource["team"]) == ("nightly", "search")


@pytest.mark.usefixtures("folder")
def test_a_collector_that_is_gone_costs_the_spans_and_not_the_run() -> None:
    result = run("http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT="1")
    assert result.exit_code == 0
    assert re.match(r"assay: 16 of 16 spans were not taken by the collector at http://127.0.0.1:9", result.stderr)


@pytest.mark.usefixtures("folder")
def test_spans_that_are_still_being_sent_when_the_command_ends_are_said_to_be_lost() -> None:
    code = (
        "import time; from assay import api; from assay.integrations.telemetry.otel import Otel; otel = Otel()\n"
        "api.run('golden.json', model='scripted/echo', judge='scripted/judge-5', observe=otel)\n"
        "print(*otel.close(0.1)); time.sleep(1)"
    )
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("15 of 15 spans were not taken by the collector at http://127.0.0.1:9")
    assert done.stderr == ""


@pytest.mark.usefixtures("folder")
def test_a_collector_that_is_slow_costs_the_spans_and_not_the_run() -> None:
    with collector(delay=3) as found:
        result = run(found.url, OTEL_EXPORTER_OTLP_TIMEOUT="0.5")
    assert (result.exit_code, result.stderr.startswith("assay: 16 of 16 spans were not taken")) == (0, True)


@pytest.mark.usefixtures("folder")
def test_a_collector_that_refuses_is_said_once() -> None:
    with collector(status=400) as found:
        result = run(found.url)
    assert (result.exit_code, result.stderr.count("not taken by the collector")) == (0, 1)


def test_what_does_not_fit_is_lost_and_counted_and_nobody_waits() -> None:
    over = threading.Event()
    slow: Outbox[int] = Outbox(lambda _: over.wait(), tick=lambda: None, limit=2 * BATCH)
    for number in range(10 * BATCH):
        slow.add(number)
    assert (slow.close(0.1), slow.sent) == (10 * BATCH, 0)
    over.set()


@pytest.mark.usefixtures("folder")
def test_another_protocol_than_http_is_refused_before_anything_is_called(folder: Path) -> None:
    result = run("http://127.0.0.1:9", OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    assert (result.exit_code, "only http/protobuf is spoken" in result.stderr) == (2, True)
    assert not (folder / "runs" / "traced").exists()


@pytest.mark.usefixtures("folder")
def test_nothing_is_imported_unless_it_is_asked_for() -> None:
    arguments = ["assay", "run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-5", "--quiet"]
    code = (
        f"import sys; sys.argv = {arguments}; from assay.surfaces.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = tuple(f"assay.integrations.telemetry.{name}" for name in ("otel", "outbox", "json_log", "prometheus"))
    telling = ("opentelemetry", "prometheus_client", "structlog", *own)
    assert "assay.engine.execution.run" in loaded
    assert [name for name in loaded if name.startswith(telling)] == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "answer", [http(completion(f"My key is {KEY}")), http(f'{{"error": "bad key {KEY}"}}'.encode(), status=400)]
)
def test_a_key_that_a_provider_repeats_is_told_to_nobody(answer: bytes) -> None:
    with faulty_provider(send(answer)) as url, collector() as found:
        told = ("--otel-content", "--log-format", "json", "--log-file", "run.log", "--metrics-file", "x.prom")
        run(found.url, *told, model="openai/gpt-5-mini", judge="openai/gpt-5", OPENAI_BASE_URL=url)
    written = Path("run.log").read_bytes() + Path("x.prom").read_bytes()
    assert len(found.spans) > 5 < written.count(b"\n")
    assert KEY.encode() not in b"".join(found.bodies) + written


@pytest.mark.usefixtures("folder")
def test_what_is_not_sampled_is_neither_sent_nor_lost() -> None:
    with collector() as found:
        result = run(found.url, OTEL_TRACES_SAMPLER="always_off")
    assert (result.exit_code, result.stderr, found.spans) == (0, "", [])
    assert len(found.metric("gen_ai.client.operation.duration")) == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "without", ["sys.modules['opentelemetry'] = None", "import opentelemetry.sdk.trace.export as old; del old.SpanExportResult"]
)
def test_without_the_extra_or_with_one_too_old_the_line_that_installs_it_is_said(without: str) -> None:
    arguments = ["assay", "run", "golden.json", "--model", "scripted/echo", "--judge", "scripted/judge-5", "--otel"]
    code = f"import sys; {without}; sys.argv = {arguments}; from assay.surfaces.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[0].partition(":")[0]) == (2, "assay")
    assert done.stderr.splitlines()[-1] == "hint: pip install 'assay[otel]'"
