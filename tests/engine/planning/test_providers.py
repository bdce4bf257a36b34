"""Names of models and providers in a plan."""

from pathlib import Path

import pytest

from assay.engine.planning.providers import split_model
from assay.engine.planning.request import RunRequest
from tests.engine.run_settings import mcq_row, planned, write_rows


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("openai/gpt-4.1", "openai", "gpt-4.1"),
        ("openai:gpt-4.1", "openai", "gpt-4.1"),
        ("openai:/gpt-4.1", "openai", "gpt-4.1"),
        ("openai/ft:gpt:org", "openai", "ft:gpt:org"),
        ("litellm/bedrock/model", "litellm", "bedrock/model"),
        ("replay/a/b.jsonl", "replay", "a/b.jsonl"),
        ("replay//tmp/b.jsonl", "replay", "/tmp/b.jsonl"),
        ("replay:/tmp/b.jsonl", "replay", "/tmp/b.jsonl"),
    ],
)
def test_models_are_named_with_their_provider(text: str, provider: str, model: str) -> None:
    assert split_model(text) == (provider, model)


def test_the_address_of_openai_comes_from_the_environment(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    environ = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "sk-not-in-the-plan"}
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("openai/gpt",)), **environ).plans
    assert (plan.providers[0].base_url, plan.providers[0].key_variable) == ("http://127.0.0.1:9/v1", "OPENAI_API_KEY")
    assert "sk-not-in-the-plan" not in repr(plan)


def test_a_server_of_ones_own_does_not_get_the_key_of_a_vendor(tmp_path: Path) -> None:
    write_rows(tmp_path / "law.jsonl", mcq_row("a"))
    run_file = tmp_path / "run.yaml"
    run_file.write_text("datasets: [law.jsonl]\ncandidates: [gpu/m]\nproviders: [{name: gpu, base_url: 'http://127.0.0.1:9/v1'}]\n")
    (plan,) = planned(RunRequest(run_file=str(run_file)), OPENAI_API_KEY="sk-x").plans
    assert (plan.providers[0].kind, plan.providers[0].key_variable) == ("openai", "")
