"""Where every field of a dataset goes: sent to a model, used for something else, or listed as not sent."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from assay import ValidationConfig, validate
from assay.core.open_fields import OTHERS, FieldCounter, FieldUse
from assay.datasets import read
from assay.datasets.parsing.config import ReadOptions
from assay.datasets.parsing.record_fields import SENT_METADATA, batch_uses, golden_uses, legal_uses, turn_uses
from assay.datasets.parsing.source import open_source
from assay.grading import POLICIES
from assay.surfaces.cli.program import program
from tests.engine.run_settings import batch_record, write_batch, write_rows
from tests.sent_requests import texts_sent

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LEGAL: dict[str, Any] = {"schema_version": "legal_eval_v1", "dataset": "USED", "prompt": "PROMPT", "context": "CONTEXT"}
ATTACHED = [{"path": "note.txt", "kind": "KIND", "title": "TITLE", "pages": "PAGES"}]


def marked(value: Any) -> list[str]:
    """All texts in capitals: the marks that a test follows."""
    if isinstance(value, str):
        return [value] if value.isupper() and value != "USED" else []
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [mark for member in members for mark in marked(member)]


BATCH_RECORD = {
    "record_id": "used",
    "input": {
        "prompt": "PROMPT",
        "context": "CONTEXT",
        "choices": [{"id": "a", "text": "CHOICE", "is_correct": "RIGHT"}],
        "key": "KEY",
    },
    "reference": {"answer": "ANSWER", "rubric": "RUBRIC", "source_metadata": {"a": "SOURCE"}, "source_tags": ["SOURCETAG"]},
    "tags": ["used"],
    "expected": {"max_latency_ms": 60_000, "required_criteria": ["accuracy"], "tone": "TONE"},
    "metadata": {"owner": "OWNER"},
    "priority": "PRIORITY",
}
GOLDEN_CASE = {
    "id": "used",
    "user_prompt": "PROMPT",
    "rubric": "RUBRIC THAT SAYS MUCH",
    "context": "NOTES",
    "tags": ["used"],
    "seed": ["SEED"],
}
RUBRIC_ROW = {
    **LEGAL,
    "id": "rubric",
    "task_type": "rubric_qa",
    "messages": [{"role": "user", "content": "MESSAGE", "name": "SPEAKER"}],
    "attachments": ATTACHED,
    "rubric": [{"id": "c", "title": "TITLEOFCRITERION", "description": "DESCRIPTION", "weight": 2, "author": "AUTHOR"}],
    "reference_answers": ["REFERENCE"],
    "metadata": {"policy_id": "default", "owner": "OWNER"},
    "priority": "PRIORITY",
}
MCQ_ROW = {
    **LEGAL,
    "id": "mcq",
    "task_type": "mcq",
    "choices": [{"id": "A", "text": "CHOICE", "why": "WHY"}, {"id": "B", "text": "OTHERCHOICE"}],
    "correct_choice_ids": ["A"],
}
TURNS = [
    {"turn_id": 1, "speaker": "user", "message": "QUESTION", "metadata": {"a": "USERDATA"}},
    {
        "turn_id": 2,
        "speaker": "assistant",
        "assistant_reply": "REPLY",
        "confidence_score": 0.5,
        "metadata": {"a": "REPLYDATA"},
        "mood": "MOOD",
    },
    {"turn_id": 3, "speaker": "user", "message": "SECONDQUESTION"},
    {
        "turn_id": 4,
        "speaker": "assistant",
        "assistant_reply": "SECONDREPLY",
        "tool_used": "search",
        "tool_input": {"q": "USED"},
        "tool_output": "OUTPUT",
    },
]  # fmt: skip


def follow(dataset: Path, folder: Path, content: Any, **settings: Any) -> tuple[dict[str, int], list[str]]:
    """What the plan lists as not sent, and the marks that no request held."""
    sent = texts_sent(dataset, folder, **settings)
    shown = "\n".join((*sent.candidate, *sent.judge))
    manifest = json.loads((folder / "runs" / "sent" / "run_manifest.json").read_bytes())
    listed = {name: count for entry in manifest["not_sent"] for name, count in entry["fields"].items()}
    return listed, [mark for mark in marked(content) if mark not in shown]


def test_every_field_of_a_batch_record_is_sent_used_or_listed(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("unknown_fields: warn\n", encoding="utf-8")
    dataset = write_batch(tmp_path / "data.json", BATCH_RECORD)
    listed, lost = follow(dataset, tmp_path, BATCH_RECORD, config="rules.yaml")
    assert lost == ["SOURCE", "SOURCETAG", "TONE", "OWNER", "PRIORITY"]
    fields = ("reference.source_metadata", "reference.source_tags", "expected.tone", "metadata", "priority")
    assert listed == dict.fromkeys(fields, 1)


def test_every_field_of_a_golden_case_is_sent_used_or_listed(tmp_path: Path) -> None:
    cases = [{**GOLDEN_CASE, "id": f"case-{number}"} for number in range(5)]
    dataset = tmp_path / "golden.json"
    dataset.write_text(json.dumps({"version": "1.0.0", "cases": cases}), encoding="utf-8")
    listed, lost = follow(dataset, tmp_path, GOLDEN_CASE)
    assert (listed, lost) == ({"context": 5, "seed": 5}, ["NOTES", "SEED"])


def test_every_field_of_a_legal_row_is_sent_used_or_listed(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("ATTACHMENT", encoding="utf-8")
    listed, lost = follow(write_rows(tmp_path / "rows.jsonl", RUBRIC_ROW, MCQ_ROW), tmp_path, [RUBRIC_ROW, MCQ_ROW])
    assert lost == ["SPEAKER", "KIND", "PAGES", "AUTHOR", "OWNER", "PRIORITY", "WHY"]
    fields = (
        "messages[].name",
        "attachments[].kind",
        "attachments[].pages",
        "rubric[].author",
        "metadata",
        "priority",
        "choices[].why",
    )
    assert listed == dict.fromkeys(fields, 1)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_every_field_of_a_conversation_is_sent_used_or_listed(tmp_path: Path, *, is_recorded: bool) -> None:
    dataset = tmp_path / "talk.json"
    dataset.write_text(json.dumps(TURNS), encoding="utf-8")
    listed, lost = follow(dataset, tmp_path, TURNS, **({"candidates": []} if is_recorded else {}))
    assert listed == {"metadata": 2, "confidence_score": 1, "mood": 1}
    # Where the candidate is to call the tool itself, no judge is shown the words that came with it, and a candidate that does
    # not call it is not sent its output.
    assert lost == ["USERDATA", "REPLYDATA", "MOOD", *([] if is_recorded else ["SECONDREPLY", "OUTPUT"])]


def test_the_metadata_that_policies_send_is_not_listed() -> None:
    assert {name: policy.metadata for name, policy in POLICIES.items() if policy.metadata} == SENT_METADATA
    row = {
        **MCQ_ROW,
        "task_type": "reference_qa",
        "choices": [],
        "metadata": {"policy_id": "lexam_oq_v1", "course": "Contract law"},
    }
    assert list(legal_uses({**row, "choices": []})) == []
    assert FieldUse("metadata", "not_sent") in legal_uses({**row, "metadata": {"course": "Contract law"}})


def counted_slowly(path: Path) -> dict[str, dict[str, int]]:
    """The same numbers, record by record."""
    counter = FieldCounter()
    report = validate(path)
    text = path.read_text(encoding="utf-8")
    if report.contract == "legal_eval_v1":
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    else:
        document = json.loads(text)
        records = document if isinstance(document, list) else document.get("records") or document["cases"]
    rejected = {issue.index for issue in report.issues if issue.severity == "error"}
    uses: Any = {"legal_eval_v1": legal_uses, "batch_v1": batch_uses, "golden_v1": golden_uses, "conversation_v1": turn_uses}
    for index, record in enumerate(records):
        if index not in rejected:
            counter.add(uses[report.contract](record))
    return {audience: dict(fields) for audience, fields in counter.counts().items()}


FILES = [
    *(f"{contract}/{name}" for contract, name in (("batch_v1", "support-answers.json"), ("batch_v1", "broken.json"))),
    *("legal_eval_v1/contract-law.jsonl", "golden_v1/assistant.json", "conversation_v1/travel-agent.json"),
]


@pytest.mark.parametrize("name", FILES)
def test_the_fast_path_counts_what_the_exact_rules_count(name: str) -> None:
    assert validate(EXAMPLES / name).fields == counted_slowly(EXAMPLES / name)


def test_rows_that_leave_the_fast_path_are_counted_once(tmp_path: Path) -> None:
    plain = {**MCQ_ROW, "choices": [{"id": "A", "text": "x"}, {"id": "B", "text": "y"}]}
    odd = [
        {**plain, "id": "odd", "priority": 1},
        {**MCQ_ROW, "id": "why"},
        {**plain, "id": "bad", "prompt": "", "metadata": {"a": 1}},
    ]
    good = [{**plain, "id": f"row-{number}", "metadata": {"a": number}} for number in range(50)]
    path = write_rows(tmp_path / "rows.jsonl", *good, *odd, *({**row, "id": f"{row['id']}-again"} for row in good))
    assert validate(path).fields == counted_slowly(path) == {"not_sent": {"metadata": 100, "priority": 1, "choices[].why": 1}}


def test_several_processes_count_together_what_one_counts(tmp_path: Path) -> None:
    records = [{**batch_record(f"r{number}"), "metadata": {"n": number}} for number in range(200)]
    records[7]["input"] |= {"context": "c", "answer_key": "k"}
    source = open_source(write_batch(tmp_path / "data.json", *records))
    counted = [
        read(source, "batch_v1", config=ValidationConfig(), options=ReadOptions(workers=workers)).fields for workers in (1, 2)
    ]
    assert (
        counted[0]
        == counted[1]
        == {
            "not_sent": {"metadata": 200},
            "judge_only": {"input.answer_key": 1},
            "candidate_and_judge": {"input.context": 1},
        }
    )


def test_a_file_with_a_field_name_of_its_own_in_every_record_lists_a_hundred(tmp_path: Path) -> None:
    records = [{**batch_record(f"r{number}"), "input": {"prompt": "p", f"field{number}": 1}} for number in range(5_000)]
    fields = validate(write_batch(tmp_path / "data.json", *records)).fields["candidate_and_judge"]
    assert (len(fields), fields[OTHERS], Counter(fields).total()) == (101, 4_900, 5_000)


def test_values_of_fields_that_are_not_listed_are_not_called_records(tmp_path: Path) -> None:
    records = [
        {**batch_record(f"r{number}"), "input": {"prompt": "p", **{f"f{number}x{member}": 1 for member in range(1_000)}}}
        for number in range(20)
    ]
    shown = invoke("validate", str(write_batch(tmp_path / "data.json", *records)))
    assert "other fields (19,900 values)" in shown
    assert "9,900 records" not in shown


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(program, arguments, prog_name="assay")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_validate_dry_run_and_report_list_what_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record = {**batch_record("r"), "metadata": {"owner": "me"}}
    record["reference"] |= {"rubric": "Be brief."}
    write_batch(Path("data.json"), record, {**batch_record("s"), "metadata": {"owner": "you"}})
    shown = invoke("validate", "data.json")
    assert "    not sent: metadata (2 records)\n    judge only: reference.rubric (1 record)\n" in shown
    checked = json.loads(invoke("validate", "data.json", "--format", "json"))["files"][0]
    assert (checked["not_sent"], checked["judge_only"], checked["candidate_and_judge"]) == (
        {"metadata": 2},
        {"reference.rubric": 1},
        {},
    )
    models = ("--model", "scripted/echo", "--judge", "scripted/judge-5")
    assert "not sent    metadata (2 records)\njudge only  reference.rubric (1 record)\n" in invoke(
        "run", "data.json", *models, "--dry-run"
    )
    assert json.loads(invoke("run", "data.json", *models, "--dry-run", "--json"))["not_sent"] == {"metadata": 2}
    assert "not sent    metadata (2 records)\n" in invoke("run", "data.json", *models, "--run-id", "one")
    assert "not sent    metadata (2 records)\n" in invoke("show", "one")


def test_a_name_from_the_file_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    record = {**batch_record("r"), "input": {"prompt": "p", "\u202ered": "x"}}
    shown = invoke("validate", str(write_batch(tmp_path / "data.json", record)))
    assert "\u202e" not in shown
    assert "red (1 record)" in shown
