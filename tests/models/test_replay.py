"""Recorded replies: found by what was asked, whoever is asked now."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.errors import UsageProblem
from assay.core.model_call import ModelFailure, Reply, Usage
from assay.models import check_models, messages_sha256, request_sha256
from tests.models.asking import ask_of, plan_of, provider_of, reply_to

ASK = ask_of()
SHA256 = messages_sha256(ASK.messages)


def recorded(folder: Path, *lines: dict[str, Any]) -> str:
    path = folder / "replies.jsonl"
    path.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    return str(path)


def test_a_reply_is_found_by_its_messages(tmp_path: Path) -> None:
    reply = Reply(text="4", finish_reason="stop", usage=Usage(input_tokens=3), model="gpt", request_id="r1")
    path = recorded(tmp_path, {"messages_sha256": SHA256, "reply": msgspec.to_builtins(reply)})
    assert reply_to(plan_of(provider_of("replay"), path)) == reply


def test_a_reply_is_found_by_its_request(tmp_path: Path) -> None:
    plan = plan_of(provider_of("replay"), str(tmp_path / "replies.jsonl"))
    recorded(tmp_path, {"request_sha256": request_sha256(plan.providers[0], plan.candidate, ASK), "reply": {"text": "4"}})
    assert reply_to(plan).text == "4"


def test_a_text_alone_is_enough(tmp_path: Path) -> None:
    path = recorded(tmp_path, {"messages_sha256": SHA256, "response_text": "4", "example_id": "e1"})
    assert reply_to(plan_of(provider_of("replay"), path)).text == "4"


def test_the_reply_of_the_model_with_that_name_comes_first(tmp_path: Path) -> None:
    lines = [{"messages_sha256": SHA256, "model": name, "reply": {"text": name}} for name in ("other", "m", "m")]
    assert reply_to(plan_of(provider_of("replay"), recorded(tmp_path, *lines))).text == "m"


def test_attempts_that_failed_are_passed_over(tmp_path: Path) -> None:
    failed = {"messages_sha256": SHA256, "reply": None, "error_code": "timeout", "error_message": "late"}
    path = recorded(tmp_path, failed, {"messages_sha256": SHA256, "reply": {"text": "4"}, "error_code": None})
    assert reply_to(plan_of(provider_of("replay"), path)).text == "4"


def test_a_missing_reply_is_final_and_names_the_hash(tmp_path: Path) -> None:
    path = recorded(tmp_path, {"messages_sha256": "0" * 64, "reply": {"text": "4"}})
    with pytest.raises(ModelFailure, match=SHA256) as caught:
        reply_to(plan_of(provider_of("replay"), path))
    assert (caught.value.code, caught.value.is_transient) == ("no_recorded_reply", False)


def test_a_file_that_is_not_there_is_a_problem_before_the_run(tmp_path: Path) -> None:
    plan = plan_of(provider_of("replay"), str(tmp_path / "none.jsonl"))
    assert check_models(plan, environ={}) == [
        f"the recorded replies '{tmp_path}/none.jsonl' cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"messages_sha256": SHA256}, "has neither a reply nor an error"),
        ({"reply": {"text": "4"}}, "has neither messages_sha256 nor request_sha256"),
        ({"messages_sha256": SHA256, "reply": {"text": 4}}, "cannot be read: Expected `str`"),
    ],
)
def test_a_line_that_is_no_reply_is_named(tmp_path: Path, line: dict[str, Any], problem: str) -> None:
    plan = plan_of(provider_of("replay"), recorded(tmp_path, {"messages_sha256": SHA256, "reply": {"text": "4"}}, line))
    found = check_models(plan, environ={})
    assert len(found) == 1
    assert f"line 2 of the recorded replies '{plan.candidate.model}' {problem}" in found[0]
    with pytest.raises(UsageProblem, match="line 2"):
        reply_to(plan)


def test_an_empty_file_is_a_problem(tmp_path: Path) -> None:
    plan = plan_of(provider_of("replay"), recorded(tmp_path))
    assert check_models(plan, environ={}) == [f"the file '{plan.candidate.model}' holds no recorded replies"]
