"""Runs that send their traces to a collector."""

from typing import Any

from click.testing import CliRunner, Result

from assay.surfaces.cli.program import program
from tests.integrations.telemetry.collector import Collector

KEY = "sk-canary-abcdef0123456789"
ANSWER = "canary-answer"


def run(
    url: str, *options: str, model: str = f"scripted/say-{ANSWER}", judge: str = "scripted/judge-4", **variables: str
) -> Result:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OPENAI_API_KEY": KEY, **variables}
    arguments = ["run", "golden.json", "--model", model, "--judge", judge, "--run-id", "traced", "--otel", "--quiet", *options]
    return CliRunner(env=environment).invoke(program, arguments, prog_name="assay")


def named(found: Collector, name: str) -> list[Any]:
    return [span for span in found.spans if span.name == name]
