"""Conversions between contracts: what is carried, what moves, what is refused, and that the result is valid."""

import json
from typing import Any

import pytest

from assay import validate
from assay.core.case import Case, Turn
from assay.core.errors import UsageProblem
from assay.datasets.converters import PAIRS, ConversionResult, convert_cases

LEGAL_ROWS: Any = [
    {
        "schema_version": "legal_eval_v1",
        "id": "tenancy:1",
        "dataset": "tenancy",
        "task_type": "mcq",
        "prompt": "Who repairs the roof?",
        "context": "The lease is silent.",
        "choices": [{"id": "A", "text": "The owner"}, {"id": "B", "text": "The tenant"}],
        "correct_choice_ids": ["A"],
        "attachments": [{"path": "lease.pdf"}],
        "metadata": {"language": "en"},
        "origin": "exam 4",
    },
    {
        "schema_version": "legal_eval_v1",
        "id": "tenancy:2",
        "dataset": "tenancy",
        "task_type": "rubric_qa",
        "prompt": "And the window?",
        "messages": [{"role": "user", "content": "The roof leaks."}, {"role": "user", "content": "And the window?"}],
        "rubric": [
            {"id": "a", "title": "Names the owner", "weight": -2},
            {"id": "b", "title": "Is brief", "description": "One line"},
        ],
    },
    {
        "schema_version": "legal_eval_v1",
        "id": "tenancy:3",
        "dataset": "tenancy",
        "task_type": "reference_qa",
        "prompt": "Since when?",
        "reference_answers": ["Since 1911.", "From 1911 on."],
    },
]
GOLDEN: Any = {
    "version": "2.1.0",
    "description": "House rules",
    "cases": [
        {
            "id": f"case-{number}",
            "user_prompt": f"May I keep {number} cats?",
            "rubric": "Says that the house rules decide.",
            "context": "Asked by real tenants",
            "tags": ["pets"],
        }
        for number in range(5)
    ],
}
BATCH: Any = {
    "dataset_id": "support",
    "dataset_version": "3",
    "schema_version": "1.0",
    "records": [
        {
            "record_id": "r-1",
            "input": {"prompt": "How do I reset it?", "context": "Model X", "locale": "en"},
            "reference": {"answer": "Hold the button.", "source": "manual"},
            "tags": ["reset"],
            "expected": {"max_latency_ms": 900, "required_criteria": ["clarity"]},
            "metadata": {"team": "care"},
        },
        {"record_id": "r-2", "input": {"prompt": "Is it good?"}},
    ],
}


def cases_of(source: Any, contract: str) -> list[Case]:
    report = validate(source, contract=contract)
    assert report.outcome == "accepted"
    return list(report.cases)


def convert(source: Any, before: Any, after: Any, **naming: str) -> ConversionResult:
    return convert_cases(cases_of(source, before), source=before, target=after, **naming)


def actions(conversion: ConversionResult, record_id: str | None) -> list[tuple[str, str]]:
    return [(remark.action, remark.path) for remark in conversion.report.remarks if remark.record_id == record_id]


def record(**members: Any) -> Case:
    """A legal_eval_v1 case with one reference answer."""
    given = {"id": "c-1", "prompt": "Why?", "references": ("So.",), **members}
    return Case(index=0, contract="legal_eval_v1", task="reference", dataset="d", **given)


def to_batch(*cases: Case, **naming: str) -> ConversionResult:
    return convert_cases(cases, source="legal_eval_v1", target="batch_v1", **naming)


@pytest.mark.parametrize(
    ("source", "before", "after"),
    [
        (LEGAL_ROWS, "legal_eval_v1", "batch_v1"),
        (GOLDEN, "golden_v1", "batch_v1"),
        (GOLDEN, "golden_v1", "legal_eval_v1"),
        (BATCH, "batch_v1", "legal_eval_v1"),
    ],
)
def test_result_of_a_conversion_is_valid_under_the_new_contract(source: Any, before: str, after: str) -> None:
    conversion = convert(source, before, after)
    report = validate(b"".join(conversion.lines()), contract=after)
    assert (report.outcome, report.issues) == ("accepted", ())
    assert report.counts.total_records == conversion.report.to_dict()["totals"]["emitted"] > 0


def test_legal_rows_keep_everything_in_the_open_objects_of_batch_v1() -> None:
    mcq, rubric, reference = (convert(LEGAL_ROWS, "legal_eval_v1", "batch_v1").document or {})["records"]
    assert mcq["input"] == {
        "prompt": "Who repairs the roof?",
        **{name: LEGAL_ROWS[0][name] for name in ("context", "attachments", "choices")},
    }
    assert mcq["reference"] == {"correct_choice_ids": ["A"]}
    assert mcq["metadata"] == {"dataset": "tenancy", "task_type": "mcq", "origin": "exam 4", "language": "en"}
    assert rubric["reference"] == {"rubric": LEGAL_ROWS[1]["rubric"]}
    assert rubric["input"]["messages"] == LEGAL_ROWS[1]["messages"]
    assert reference["reference"] == {"answer": "Since 1911.", "answers": ["Since 1911.", "From 1911 on."]}


def test_members_that_batch_v1_has_no_field_for_are_reported_row_by_row() -> None:
    conversion = convert(LEGAL_ROWS, "legal_eval_v1", "batch_v1")
    assert actions(conversion, "tenancy:1") == [("moved", "context, attachments, choices, correct_choice_ids"), ("moved", "origin")]
    assert actions(conversion, "tenancy:2") == [("moved", "messages, rubric")]
    assert actions(conversion, "tenancy:3") == [("moved", "answers")]
    assert actions(conversion, None) == [("changed", "dataset_version")]


def test_metadata_over_8_kb_moves_its_largest_members_and_says_so() -> None:
    conversion = to_batch(record(metadata={"note": "n", "turns": ["x" * 9000], "pad": "y" * 4000}), version="1")
    (kept,) = (conversion.document or {})["records"]
    assert kept["metadata"] == {"dataset": "d", "task_type": "reference_qa", "note": "n", "pad": "y" * 4000}
    assert kept["reference"] == {"answer": "So.", "source_metadata": {"turns": ["x" * 9000]}}
    assert actions(conversion, "c-1") == [("moved", "metadata.turns")]


def test_metadata_deeper_than_five_levels_moves() -> None:
    conversion = to_batch(record(metadata={"flat": {"a": {"b": {"c": []}}}, "deep": {"a": {"b": {"c": {"d": []}}}}}))
    assert list((conversion.document or {})["records"][0]["metadata"]) == ["dataset", "task_type", "flat"]
    assert ("moved", "metadata.deep") in actions(conversion, "c-1")


def test_moved_metadata_is_dropped_only_where_the_record_grows_over_256_kb() -> None:
    conversion = to_batch(record(metadata={"huge": "x" * 300_000, "large": "y" * 10_000}))
    assert (conversion.document or {})["records"][0]["reference"]["source_metadata"] == {"large": "y" * 10_000}
    assert actions(conversion, "c-1") == [("moved", "metadata.large"), ("dropped", "metadata.huge")]


def test_metadata_that_had_to_go_altogether_leaves_no_empty_object() -> None:
    conversion = to_batch(record(metadata={"huge": "x" * 300_000}))
    assert (conversion.document or {})["records"][0]["reference"] == {"answer": "So."}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"id": "x" * 129}, "record_id has 129 characters; the limit is 128"),
        ({"prompt": "x" * 200_001}, "input.prompt has 200,001 characters; the limit is 200,000"),
        ({"references": ("x" * 200_001,)}, "reference.answer has 200,001 characters; the limit is 200,000"),
        ({"prompt": "€" * 100_000}, "the record is 300,124 bytes as compact JSON; the limit is 262,144"),
        ({"prompt": "a\x0bb"}, "input.prompt holds the control character U+000B at position 1"),
        ({"metadata": {"a": "\ud800"}}, "a text holds an unpaired surrogate"),
    ],
)
def test_row_beyond_a_limit_of_batch_v1_is_refused_and_the_others_go_on(members: dict[str, Any], reason: str) -> None:
    conversion = to_batch(record(**members), record(id="c-2"))
    assert [kept["record_id"] for kept in (conversion.document or {})["records"]] == ["c-2"]
    assert [remark.reason for remark in conversion.report.remarks if remark.action == "invalid"] == [reason]
    assert conversion.report.to_dict()["totals"] == {"read": 2, "emitted": 1, "invalid": 1, "skipped": 0}


def test_second_case_with_an_id_is_skipped_and_reported() -> None:
    conversion = to_batch(record(), record(prompt="Why not?"))
    assert conversion.report.to_dict()["totals"] == {"read": 2, "emitted": 1, "invalid": 0, "skipped": 1}
    assert ("skipped", "") in actions(conversion, "c-1")


def test_text_is_brought_into_nfc_and_the_change_is_reported() -> None:
    conversion = to_batch(record(prompt="Cafe\u0301?"))
    assert (conversion.document or {})["records"][0]["input"]["prompt"] == "Café?"
    assert ("changed", "") in actions(conversion, "c-1")


def test_unknown_member_that_metadata_has_too_is_dropped_with_a_remark() -> None:
    conversion = to_batch(record(metadata={"source": "book"}, extra={"source": "web"}))
    assert (conversion.document or {})["records"][0]["metadata"] == {"dataset": "d", "task_type": "reference_qa", "source": "book"}
    assert ("dropped", "source") in actions(conversion, "c-1")


def test_document_is_named_by_the_caller_or_by_the_dataset_all_cases_share() -> None:
    named = to_batch(record(), dataset_id="mine", version="2026-01").document or {}
    shared = to_batch(record()).document or {}
    mixed = convert_cases(
        [record(), Case(**{**as_members(record()), "id": "c-2", "dataset": "e"})], source="legal_eval_v1", target="batch_v1"
    )
    assert (named["dataset_id"], named["dataset_version"]) == ("mine", "2026-01")
    assert (shared["dataset_id"], (mixed.document or {})["dataset_id"]) == ("d", "legal_eval_v1")


def as_members(case: Case) -> dict[str, Any]:
    return {name: getattr(case, name) for name in case.__struct_fields__}


@pytest.mark.parametrize(
    ("naming", "reason"), [({"dataset_id": "a b"}, "dataset_id may hold only"), ({"version": ""}, "must not be empty")]
)
def test_name_that_batch_v1_does_not_allow_is_refused(naming: dict[str, str], reason: str) -> None:
    with pytest.raises(UsageProblem, match=reason):
        to_batch(record(), **naming)


def test_document_without_a_single_record_is_refused_with_the_first_reason() -> None:
    with pytest.raises(UsageProblem, match="nothing could be converted to batch_v1: there are no cases"):
        to_batch()
    with pytest.raises(UsageProblem, match=r"nothing could be converted to batch_v1: input\.prompt must not be empty"):
        to_batch(record(prompt=""))


def test_more_records_than_batch_v1_takes_are_refused() -> None:
    with pytest.raises(UsageProblem, match="at most 50,000 records, these are 50,001"):
        to_batch(*(record(id=f"c-{number}") for number in range(50_001)))


def test_more_bytes_than_batch_v1_takes_are_refused() -> None:
    prompt = "x" * 199_000
    with pytest.raises(UsageProblem, match="at most 104,857,600 bytes"):
        to_batch(*(record(id=f"c-{number}", prompt=prompt) for number in range(530)))


def test_golden_notes_never_become_context_of_legal_eval_v1() -> None:
    conversion = convert(GOLDEN, "golden_v1", "legal_eval_v1")
    row = conversion.rows[0]
    assert "context" not in row
    assert row["metadata"] == {"version": "2.1.0", "notes": "Asked by real tenants", "tags": ["pets"]}
    assert row["rubric"] == [{"id": "rubric", "title": "Says that the house rules decide."}]
    assert actions(conversion, "case-0") == [("moved", "context"), ("moved", "tags")]
    assert actions(conversion, None) == [("changed", "rubric")]


def test_golden_cases_become_batch_records_with_the_version_of_their_file() -> None:
    document = convert(GOLDEN, "golden_v1", "batch_v1").document or {}
    assert (document["dataset_id"], document["dataset_version"]) == ("House_rules", "2.1.0")
    assert document["records"][0] == {
        "record_id": "case-0",
        "input": {"prompt": "May I keep 0 cats?"},
        "reference": {"rubric": "Says that the house rules decide."},
        "tags": ["pets"],
        "metadata": {"version": "2.1.0", "notes": "Asked by real tenants"},
    }


def test_tags_beyond_the_limits_of_batch_v1_move_to_the_reference() -> None:
    tags = ["x" * 65, "a\nb", *(f"t{number}" for number in range(33))]
    golden = {**GOLDEN, "cases": [{**GOLDEN["cases"][0], "tags": tags}, *GOLDEN["cases"][1:]]}
    conversion = convert(golden, "golden_v1", "batch_v1")
    first = (conversion.document or {})["records"][0]
    assert len(first["tags"]) == 32
    assert first["reference"]["source_tags"] == ["x" * 65, "a\nb", "t32"]
    assert ("moved", "tags") in actions(conversion, "case-0")


def test_golden_file_survives_the_way_to_batch_v1_and_back() -> None:
    there = convert(GOLDEN, "golden_v1", "batch_v1")
    back = convert(there.document, "batch_v1", "golden_v1")
    assert back.document == {"version": "2.1.0", "cases": GOLDEN["cases"]}
    assert {remark.action for remark in back.report.remarks} == {"moved"}


def test_what_golden_v1_has_no_field_for_is_dropped_with_a_remark() -> None:
    records = [{**BATCH["records"][0], "record_id": f"r-{number}"} for number in range(5)]
    rubrics = [{**one, "reference": {"answer": "Hold it.", "rubric": "Says which button."}} for one in records]
    conversion = convert({**BATCH, "records": rubrics}, "batch_v1", "golden_v1", version="0.1.0")
    lost = ["reference.answer", "expected.max_latency_ms", "expected.required_criteria", "metadata.team"]
    assert actions(conversion, "r-0") == [("moved", "input.context, input.locale"), *(("dropped", path) for path in lost)]
    assert (conversion.document or {})["cases"][0]["user_prompt"] == "How do I reset it?\n\ncontext:\nModel X\n\nlocale:\nen"
    assert (conversion.document or {})["version"] == "0.1.0"


def test_records_that_cannot_all_be_golden_are_refused_with_every_reason() -> None:
    with pytest.raises(UsageProblem) as caught:
        convert(BATCH, "batch_v1", "golden_v1")
    assert "cases has 2 item(s)" in caught.value.message
    assert "cases[0].rubric: rubric is required" in caught.value.message
    assert "reference.rubric" in caught.value.hint


def test_long_list_of_reasons_is_cut_and_counted() -> None:
    records = [{"record_id": f"R{number}", "input": {"prompt": "?"}} for number in range(8)]
    with pytest.raises(UsageProblem, match=r"and 6 more$"):
        convert({**BATCH, "records": records}, "batch_v1", "golden_v1")


def test_golden_version_is_invented_only_with_a_remark() -> None:
    records = [{"record_id": f"r-{n}", "input": {"prompt": "?"}, "reference": {"rubric": "Answers at all."}} for n in range(5)]
    conversion = convert({**BATCH, "records": records}, "batch_v1", "golden_v1")
    assert (conversion.document or {})["version"] == "1.0.0"
    assert actions(conversion, None) == [("changed", "version")]


def test_batch_record_with_an_answer_becomes_reference_qa() -> None:
    conversion = convert(BATCH, "batch_v1", "legal_eval_v1")
    assert conversion.rows == (
        {
            "schema_version": "legal_eval_v1",
            "id": "r-1",
            "dataset": "support",
            "task_type": "reference_qa",
            "prompt": "How do I reset it?",
            "context": "Model X\n\nlocale:\nen",
            "metadata": {
                "team": "care",
                "batch_v1": {
                    "tags": ["reset"],
                    "expected": {"max_latency_ms": 900, "required_criteria": ["clarity"]},
                    "input": {"locale": "en"},
                    "reference": {"source": "manual"},
                },
            },
            "reference_answers": ["Hold the button."],
        },
    )


def test_row_that_legal_eval_v1_would_not_accept_is_refused_and_a_second_id_is_skipped() -> None:
    members = as_members(cases_of(BATCH, "batch_v1")[0])
    cases = [Case(**{**members, **change}) for change in ({"prompt": " "}, {}, {})]
    report = convert_cases(cases, source="batch_v1", target="legal_eval_v1").report
    assert report.to_dict()["totals"] == {"read": 3, "emitted": 1, "invalid": 1, "skipped": 1}
    assert [remark.reason for remark in report.remarks if remark.action == "invalid"] == ["prompt must not be blank"]


def test_batch_record_without_an_answer_is_reported_as_not_convertible() -> None:
    conversion = convert(BATCH, "batch_v1", "legal_eval_v1")
    assert conversion.report.to_dict()["totals"] == {"read": 2, "emitted": 1, "invalid": 1, "skipped": 0}
    assert actions(conversion, "r-2") == [("invalid", "")]


def conversation(*turns: Turn) -> ConversionResult:
    case = Case(
        id="conversation-1", index=0, contract="conversation_v1", task="conversation", dataset="desk", prompt="", turns=turns
    )
    return convert_cases([case], source="conversation_v1", target="legal_eval_v1")


HELLO = Turn(1, "user", message="Hello?")
REPLY = Turn(2, "assistant", assistant_reply="How can I help?")
WISH = Turn(3, "user", message="Book a room.")
LOOK = Turn(4, "assistant", tool_used="rooms", tool_input={"day": 1}, tool_output=["R1"], confidence_score=0.5, metadata={"ms": 4})
DONE = Turn(5, "assistant", assistant_reply="R1 is yours.")


def test_each_user_turn_becomes_a_question_with_its_history_and_the_reply_as_reference() -> None:
    first, second = conversation(HELLO, REPLY, WISH, LOOK, DONE).rows
    assert (first["id"], first["prompt"], first["reference_answers"]) == ("conversation-1:turn-1", "Hello?", ["How can I help?"])
    assert second["messages"] == [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "How can I help?"},
        {"role": "user", "content": "Book a room."},
    ]
    assert (second["prompt"], second["reference_answers"]) == ("Book a room.", ["R1 is yours."])


def test_tools_of_a_reply_are_kept_in_metadata_and_reported() -> None:
    conversion = conversation(HELLO, REPLY, WISH, LOOK, DONE)
    tool = {"tool_used": "rooms", "tool_input": {"day": 1}, "tool_output": ["R1"]}
    assert conversion.rows[1]["metadata"]["reply_turns"] == [{"turn_id": 4, **tool, "confidence_score": 0.5, "metadata": {"ms": 4}}]
    assert actions(conversion, "conversation-1") == [("moved", "tool_used, tool_input, tool_output")]


def test_user_turn_without_a_reply_is_skipped_and_reported() -> None:
    conversion = conversation(HELLO, WISH, DONE, Turn(6, "user", message="Thanks.", metadata={"at": 9}))
    assert [row["prompt"] for row in conversion.rows] == ["Book a room."]
    assert [remark.path for remark in conversion.report.remarks if remark.action == "skipped"] == ["turn 1", "turn 6"]


def test_empty_user_turn_is_skipped_and_its_metadata_is_kept_otherwise() -> None:
    conversion = conversation(Turn(1, "user", message=" "), REPLY, Turn(3, "user", message="Hi", metadata={"at": 9}), DONE)
    assert [remark.reason for remark in conversion.report.remarks] == ["the user says nothing"]
    assert conversion.rows[0]["metadata"]["turn_metadata"] == {"at": 9}


def test_speaker_that_messages_do_not_know_is_left_out_with_a_remark() -> None:
    conversion = conversation(
        HELLO, REPLY, Turn(3, "auditor", message="Noted."), Turn(4, "system", message="Be brief."), WISH, DONE
    )
    assert [message["role"] for message in conversion.rows[1]["messages"]] == ["user", "assistant", "system", "user"]
    assert actions(conversion, "conversation-1") == [("dropped", "speaker")]


def test_conversation_read_from_a_file_is_named_by_its_content() -> None:
    turns = [{"turn_id": 1, "speaker": "user", "message": "Hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Hello"}]
    cases = [*cases_of(turns, "conversation_v1"), *cases_of([{**turns[0], "message": "Hey"}, turns[1]], "conversation_v1")]
    rows = convert_cases(cases, source="conversation_v1", target="legal_eval_v1").rows
    assert len({row["id"] for row in rows}) == 2
    assert all(row["id"].startswith("conversation:") and row["id"].endswith(":turn-1") for row in rows)


def test_pair_without_a_conversion_is_refused_with_the_possible_ones() -> None:
    with pytest.raises(UsageProblem, match="no conversion from golden_v1 to conversation_v1") as caught:
        convert_cases([], source="golden_v1", target="conversation_v1")
    assert all(f"{before} -> {after}" in caught.value.hint for before, after in PAIRS)


def test_document_is_written_as_indented_json_and_rows_as_json_lines() -> None:
    document = b"".join(convert(GOLDEN, "golden_v1", "batch_v1").lines())
    rows = list(convert(GOLDEN, "golden_v1", "legal_eval_v1").lines())
    assert document.startswith(b'{\n  "dataset_id": "House_rules",')
    assert [json.loads(row)["id"] for row in rows] == [f"case-{number}" for number in range(5)]
    assert all(row.count(b"\n") == 1 and row.endswith(b"\n") for row in rows)


def test_legal_rows_are_the_same_task_after_a_detour_over_batch_v1() -> None:
    document = convert(LEGAL_ROWS, "legal_eval_v1", "batch_v1").document
    back = convert(document, "batch_v1", "legal_eval_v1", dataset_id="tenancy").rows
    kept = ("id", "task_type", "prompt", "messages", "rubric", "reference_answers", "choices", "correct_choice_ids")
    assert [{name: row[name] for name in kept if name in row} for row in back] == [
        {name: row[name] for name in kept if name in row} for row in LEGAL_ROWS
    ]


def test_a_golden_rubric_survives_a_detour_over_batch_v1() -> None:
    document = convert(GOLDEN, "golden_v1", "batch_v1").document
    (first, *_) = convert(document, "batch_v1", "legal_eval_v1").rows
    assert (first["task_type"], first["rubric"][0]["title"]) == ("rubric_qa", "Says that the house rules decide.")


def test_what_says_where_a_record_comes_from_goes_to_metadata_which_no_model_sees() -> None:
    (kept,) = (to_batch(record(metadata={"dataset": "own"})).document or {})["records"]
    assert kept["input"] == {"prompt": "Why?"}
    assert kept["metadata"] == {"source_dataset": "d", "task_type": "reference_qa", "dataset": "own"}
