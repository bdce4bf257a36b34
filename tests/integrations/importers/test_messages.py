"""Messages of other tools: prompts and conversations."""

import json
from pathlib import Path

from tests.integrations.importers.bringing import brought, rows_of
from tests.integrations.importers.test_older_logs import written
from tests.integrations.importers.test_promptfoo import config, records


def test_a_conversation_as_input_keeps_its_messages_and_counts_what_is_no_text() -> None:
    picture = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image", "image": "data:"}]}
    path = written({"input": [{"role": "system", "content": "Look."}, picture, {"role": "tool", "content": "x"}]})
    row = rows_of(path)["s0"]
    assert row["messages"] == [{"role": "system", "content": "Look."}, {"role": "user", "content": "What is this?"}]
    left_out = brought(path)["report"]["left_out"]
    assert (left_out["content of type image"], left_out["message of role tool in input"]) == (1, 1)


def test_calls_to_tools_stand_with_what_they_gave_back() -> None:
    call = {"id": "1", "function": "bash", "arguments": {"cmd": "ls"}, "type": "function"}
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": "a.txt", "tool_call_id": "1", "function": "bash"},
        {"role": "assistant", "content": "There is a.txt."},
    ]
    brought(written({"messages": messages}), options=("--to", "conversation_v1", "-o", "talks.jsonl"))
    turns = json.loads(Path("talks.jsonl").read_text())
    assert (turns[1]["tool_used"], turns[1]["tool_input"], turns[1]["tool_output"]) == ("bash", {"cmd": "ls"}, "a.txt")
    assert [turn["turn_id"] for turn in turns] == [1, 2, 3]


def test_a_prompt_that_is_written_as_chat_becomes_messages() -> None:
    chat = '[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello {{name}}"}]'
    [record] = records(config(f"prompts: ['{chat}']\ntests: [{{vars: {{name: Eve}}}}]")).values()
    assert record["input"]["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello Eve"}]
