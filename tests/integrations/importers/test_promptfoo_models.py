"""Providers of promptfoo become models of a run where assay knows them by name."""

from typing import Any

import pytest

from assay.datasets.imports.items import ImportState
from assay.integrations.importers.promptfoo_models import model_names, note_models


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai:gpt-6-luna", "openai/gpt-6-luna"),
        ("openai:chat:ft:gpt:a::b", "openai/ft:gpt:a::b"),
        ("anthropic:messages:claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("togetherai:org/large", "together/org/large"),
        ("ollama:chat:llama3:8b", "ollama/llama3:8b"),
        ("echo", "scripted/echo"),
    ],
)
def test_a_provider_that_assay_knows_is_a_model(provider: str, model: str) -> None:
    assert list(model_names(provider)) == [model]


@pytest.mark.parametrize(
    "provider",
    ["openai:embedding:x", "openai:image:dall-e", "file://p.py", "python:p.py", "https://x", "http", "function:f", "unknown:x",
     "openai", "openai:chat", "openai:{{env.MODEL}}"],
)  # fmt: skip
def test_any_other_provider_is_none(provider: str) -> None:
    assert [name for name in model_names(provider) if name != "openai/chat"] == []


def test_models_and_judges_of_a_config_are_noted() -> None:
    reading = ImportState()
    config: dict[str, Any] = {
        "providers": ["echo", {"id": "openai:gpt-6-luna", "label": "x"}, {"anthropic:claude-sonnet-5": {"config": {}}}, 7],
        "defaultTest": {"options": {"provider": {"text": "openai:gpt-6-sol", "embedding": "openai:embedding:x"}}},
    }
    note_models(config, reading)
    assert list(reading.models) == ["scripted/echo", "openai/gpt-6-luna", "anthropic/claude-sonnet-5"]
    assert list(reading.judges) == ["openai/gpt-6-sol"]
