"""What imported questions can become, and what the command says where they cannot."""

import json
import os
from pathlib import Path

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought

REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "inspect_logs"
TURNS = [
    {"role": "user", "content": "Where is my parcel?"},
    {"role": "assistant", "content": "", "tools_called": [{"name": "track", "input_parameters": {"id": 7}, "output": "in Bonn"}]},
    {"role": "assistant", "content": "It is in Bonn."},
]


def test_questions_become_golden_cases_with_a_rubric_in_words() -> None:
    brought("capitals.eval", options=("--to", "golden_v1", "-o", "golden.json"))
    cases = {case["id"]: case for case in json.loads(Path("golden.json").read_text())["cases"]}
    assert cases["3"]["rubric"] == "The answer says the same as: 6 / six"
    assert api.validate("golden.json", "golden_v1").outcome == "accepted"


def test_too_few_questions_for_golden_v1_are_refused_and_nothing_is_written() -> None:
    result = assay("import", str(FIXTURES / "letters.eval"), "--to", "golden_v1", "-o", "golden.json")
    assert result.exit_code == 2
    assert "cannot be golden_v1" in result.output
    assert not Path("golden.json").exists()


def test_turns_with_tools_become_a_conversation() -> None:
    Path("talks.json").write_text(json.dumps([{"name": "parcel", "turns": TURNS}]))
    report = brought(Path("talks.json").absolute(), options=("--to", "conversation_v1", "-o", "talks.jsonl"))["report"]
    [turns] = map(json.loads, Path("talks.jsonl").read_text().splitlines())
    assert [turn["turn_id"] for turn in turns] == [1, 2, 3]
    assert (turns[1]["tool_used"], turns[1]["tool_input"], turns[1]["tool_output"]) == ("track", {"id": 7}, "in Bonn")
    assert report["left_out"] == {"text of a reply that only uses a tool, named in its place": 1}
    assert api.validate("talks.jsonl", "conversation_v1").outcome == "accepted"


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
@pytest.mark.parametrize(("name", "turns"), [("log_message_deduplication.eval", 7), ("2025-05-12T20-27-36-04-00_browser.json", 6)])
def test_what_a_real_agent_said_and_did_becomes_a_conversation(name: str, turns: int) -> None:
    brought(REALDATA / name, options=("--to", "conversation_v1", "-o", "talks.jsonl"))
    report = api.validate("talks.jsonl", "conversation_v1")
    assert (report.outcome, report.counts.total_records) == ("accepted", turns)


def test_checks_are_in_the_metadata_of_every_contract_that_has_some() -> None:
    asserted = "[{type: contains, value: y}, {type: pi, value: Z}]"
    text = f"prompts: ['{{{{a}}}}']\ntests: [{{vars: {{a: x}}, metadata: {{checks: own}}, assert: {asserted}}}]"
    Path("promptfooconfig.yaml").write_text(text)
    checks = [{"type": "contains", "any": ["y"]}]
    for contract in ("batch_v1", "legal_eval_v1"):
        brought(Path("promptfooconfig.yaml").absolute(), options=("--to", contract, "-o", "out.json"))
        found = json.loads(Path("out.json").read_text())
        metadata = found["records"][0]["metadata"] if contract == "batch_v1" else found["metadata"]
        assert (metadata["checks"], metadata["source_checks"]) == (checks, "own")
        assert api.validate("out.json", contract).outcome == "accepted"


def test_checks_stay_where_large_metadata_moves_away() -> None:
    text = f"prompts: ['{{{{a}}}}']\ntests: [{{vars: {{a: {'x' * 9_000}}}, assert: [{{type: contains, value: {'y' * 3_000}}}]}}]"
    Path("promptfooconfig.yaml").write_text(text)
    brought(Path("promptfooconfig.yaml").absolute(), options=("-o", "out.json"))
    [record] = json.loads(Path("out.json").read_text())["records"]
    assert record["metadata"]["checks"] == [{"type": "contains", "any": ["y" * 3_000]}]
    assert list(record["reference"]["source_metadata"]) == ["vars"]


def test_open_questions_do_not_fit_legal_eval_v1_and_are_refused_one_by_one() -> None:
    report = brought("batch_output.jsonl", "batch_input.jsonl", options=("--to", "legal_eval_v1"))["report"]
    assert report["records"] == 0
    assert "no reference, rubric or choices" in report["remarks"][0]["reason"]


def test_an_answer_that_is_missing_in_one_epoch_is_skipped_not_scored() -> None:
    log = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))
    log["samples"] = [sample for sample in log["samples"] if (sample["id"], sample["epoch"]) != ("capital-fr", 2)]
    Path("log.json").write_text(json.dumps(log))
    [run] = brought(Path("log.json").absolute(), options=("--run",))["runs"]
    assert run["counts"]["skipped_records"] == 1
    assert run["counts"]["evaluated_records"] == 7


def test_hostile_texts_stay_data() -> None:
    hostile = "\x1b[31mred\x1b[0m <script>alert(1)</script> sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
    log = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))
    log["samples"][0]["output"]["choices"][0]["message"]["content"] = hostile
    log["eval"]["model"] = "mock\x1b[2J"
    Path("log.json").write_text(json.dumps(log))
    shown = assay("import", "log.json", "--run", "--id", "hostile")
    assert "\x1b" not in shown.output
    assert "abcdefghijklmnopqrstuvwxyz0123456789" not in Path("runs/hostile/predictions.jsonl").read_text()


def test_characters_that_no_store_takes_are_replaced_and_flagged() -> None:
    log = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))
    log["samples"][0]["output"]["choices"][0]["message"]["content"] = "Par\x00is"
    Path("log.json").write_text(json.dumps(log))
    brought(Path("log.json").absolute(), options=("--run", "--id", "odd"))
    line = json.loads(Path("runs/odd/predictions.jsonl").read_text().splitlines()[0])
    assert line["model_response"] == "Par\ufffdis"
    assert line["flags"] == ["imported", "replaced_characters"]
