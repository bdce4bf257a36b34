"""The names of OpenTelemetry's GenAI conventions: those of the installed package, for calls and grades."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.integrations.telemetry import conventions
from assay.surfaces.cli.program import program
from tests.integrations.telemetry.collector import Collector, attributes, collector
from tests.integrations.telemetry.traced import named
from tests.models.faulty_provider import completion, faulty_provider, http, send


def test_a_call_says_model_provider_tokens_and_finish_in_the_names_of_the_conventions(seen: Collector) -> None:
    call = attributes(named(seen, "chat judge-4")[0])
    assert (call["gen_ai.operation.name"], call["gen_ai.provider.name"], call["gen_ai.request.model"]) == (
        "chat",
        "scripted",
        "judge-4",
    )
    assert (call["gen_ai.response.model"], call["gen_ai.response.finish_reasons"]) == ("judge-4", ["stop"])
    assert call["gen_ai.usage.input_tokens"] > 0 < call["gen_ai.usage.output_tokens"]


@pytest.mark.usefixtures("folder")
def test_a_provider_of_ones_own_is_named_after_what_it_speaks() -> None:
    with faulty_provider(send(http(completion("4")))) as url, collector() as found:
        Path("run.yaml").write_text(
            f"datasets: [golden.json]\nproviders: [{{name: gpu, kind: openai, base_url: '{url}'}}]\n"
            "candidates: [gpu/house]\njudges: [scripted/judge-4]\n",
            encoding="utf-8",
        )
        CliRunner(env={"OTEL_EXPORTER_OTLP_ENDPOINT": found.url}).invoke(program, ["run", "run.yaml", "--otel", "--quiet"])
    call = attributes(named(found, "chat house")[0])
    assert (call["gen_ai.provider.name"], call["assay.provider"]) == ("openai", "gpu")


def test_every_name_is_one_of_the_installed_conventions() -> None:
    package = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {value for value in vars(package).values() if isinstance(value, str)}
    used = {value for value in vars(conventions).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    used |= set(conventions.PARAMETERS.values())
    assert used - known == {conventions.EVALUATION_EVENT, conventions.DURATION, conventions.TOKEN_USAGE}
    assert len(used & known) > 15
