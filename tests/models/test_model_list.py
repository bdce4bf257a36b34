"""Lists of models in the formats of the vendors."""

import json
from datetime import date
from typing import Any

import pytest

from assay.models.model_list import ListedModel, nearest_names, read_page

GPT = {"id": "gpt-5.6", "object": "model", "created": 1, "owned_by": "openai"}
CLAUDE = {"type": "model", "id": "claude-opus-5", "display_name": "Claude Opus 5", "created_at": "2026-02-01T00:00:00Z"}
DAY = date(2026, 12, 11)


@pytest.mark.parametrize(
    ("body", "names", "next_query"),
    [
        ({"object": "list", "data": [GPT]}, ["gpt-5.6"], ""),
        (
            {"data": [CLAUDE], "has_more": True, "first_id": "a", "last_id": "claude opus"},
            ["claude-opus-5"],
            "after_id=claude%20opus",
        ),
        ({"data": [CLAUDE], "has_more": False, "last_id": "claude-opus-5"}, ["claude-opus-5"], ""),
        ({"models": [{"name": "models/gemini-3-pro"}], "nextPageToken": "a/b="}, ["gemini-3-pro"], "pageToken=a%2Fb%3D"),
        ([{"id": "meta/llama-5"}, {"id": "qwen"}], ["meta/llama-5", "qwen"], ""),
        ({"models": [{"name": "smollm2:latest", "model": "smollm2:latest"}]}, ["smollm2:latest"], ""),
        ({"data": []}, [], ""),
        ({"data": [], "has_more": True, "last_id": "x"}, [], ""),
        ({"data": [None, 5, "gpt", {"id": 7}, {"id": ""}, GPT]}, ["gpt-5.6"], ""),
    ],
    ids=["OpenAI", "Anthropic", "Anthropic's last", "Google", "Together", "Ollama", "empty", "empty with more", "odd entries"],
)
def test_a_list_of_each_vendor_is_read(body: Any, names: list[str], next_query: str) -> None:
    page = read_page(json.dumps(body).encode())
    assert page is not None
    assert ([model.id for model in page.models], page.next_query) == (names, next_query)


@pytest.mark.parametrize("body", [b"", b"<html></html>", b'{"error": "no"}', b'{"data": {}}', b"5", b"[" * 100_000, b"\xff"])
def test_what_is_no_list_of_models_is_none(body: bytes) -> None:
    assert read_page(body) is None


@pytest.mark.parametrize(
    ("members", "retires"),
    [
        ({"deprecation": "2026-12-11T00:00:00Z"}, DAY),
        ({"deprecation": {"fine_tune": 1_700_000_000, "inference": 1_796_947_200}}, DAY),
        ({"expiration_date": "2026-12-11"}, DAY),
        ({"shutdown_date": 1_796_947_200}, DAY),
        ({"deprecation": "2026-11-01", "retirement_date": "2026-12-11"}, DAY),
        ({"deprecation": None}, None),
        ({"deprecation": "soon"}, None),
        ({"deprecation": "2026-99-99"}, None),
        ({"deprecation": True}, None),
        ({"deprecation": 1e300}, None),
    ],
)
def test_a_date_of_retirement_is_read_in_the_forms_of_the_vendors(members: dict[str, Any], retires: date | None) -> None:
    page = read_page(json.dumps({"data": [{**GPT, **members}]}).encode())
    assert page is not None
    assert page.models[0].retires == retires


def test_the_likest_names_come_first_and_unlike_ones_not_at_all() -> None:
    models = [ListedModel(name) for name in ("gpt-5.6", "GPT-5.6-mini", "whisper", "tts")]
    assert nearest_names("gpt-5.6-min", models) == ["GPT-5.6-mini", "gpt-5.6"]
    assert nearest_names("zzz", models) == []
