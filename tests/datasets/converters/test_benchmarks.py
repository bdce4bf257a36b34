"""Benchmark converters: rows of our own in the shape of each source, one claim per rule and per trap."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from assay import validate
from assay.core.errors import UsageProblem
from assay.datasets.converters import CONVERTERS, ConversionResult, RowSource, UnreadableLine, convert_rows
from assay.datasets.converters.rows import choice_id

PRBENCH = {
    "task": "t-17",
    "field": "Legal",
    "topic": "Tenancy",
    "expert": "Expert",
    "scratchpad": "The tenant is right.",
    "prompt_0": " May my landlord enter? ",
    "response_0": "It depends on the lease.",
    "prompt_1": "The lease says nothing.",
    "response_1": None,
    "reference_texts_1": [],
    "rubric": [
        {
            "id": "c-1",
            "title": "Asks for notice ",
            "annotations": {"criteria_description": "Notice comes first.", "weight_class": "important", "important_weight": 6.0},
        }
    ],
}
APEX = {
    "Task ID": 31,
    "Domain": "Legal",
    "Prompt": "Compare the two leases.",
    "Rubric JSON": '{"criterion 1": {"description": "Names the longer lease", "justification": "B: 9 years", "weight": "Primary"}}',
    "File Attachments": "leases/a, signed.pdf\n\nleases/b.txt",
}
LEXAM = {
    "question": "Which are true?",
    "choices": "['i', 'ii', 'i und ii']",
    "gold": 1.0,
    "id": "q-5",
    "course": "Torts",
    "year": 2021,
}
INCLUDE = {
    "question": "Who signs the act?",
    "option_a": "The clerk",
    "option_b": "The judge",
    "option_c": "The mayor",
    "option_d": "Nobody",
    "answer": 1,
    "source_file": "Latvian/test.parquet",
    "confusion_score": 0.4,
}
ECHR = {
    "record_id": "001-9_4",
    "case_id": "001-9_4",
    "facts": "The applicant was detained for nine days.",
    "context_arguments": "The Government argued that nine days were short.",
    "a": "The Court disagrees.",
    "b": "The Court adjourns.",
    "label": "a",
}


def convert(name: str, *rows: Mapping[str, Any] | UnreadableLine, id_style: Any = "stable") -> ConversionResult:
    return convert_rows(name, [RowSource("rows.jsonl", list(enumerate(rows, 1)))], id_style=id_style)


def only_row(name: str, row: Mapping[str, Any], id_style: Any = "stable") -> dict[str, Any]:
    (converted,) = convert(name, row, id_style=id_style).rows
    return converted


def refusal(name: str, row: Mapping[str, Any]) -> str:
    """Why the one row was not converted."""
    conversion = convert(name, row)
    assert conversion.rows == ()
    return next(remark.reason for remark in conversion.report.remarks if remark.action == "invalid")


def criterion(**annotations: Any) -> dict[str, Any]:
    return {**PRBENCH, "rubric": [{"id": "c-1", "title": "Asks for notice", "annotations": annotations}]}


@pytest.mark.parametrize(
    ("name", "row"), [("prbench", PRBENCH), ("apexv1", APEX), ("lexam", LEXAM), ("includebase", INCLUDE), ("lar_echr", ECHR)]
)
@pytest.mark.parametrize("id_style", ["stable", "upstream"])
def test_what_a_converter_emits_is_valid_without_a_warning(name: str, row: dict[str, Any], id_style: str) -> None:
    report = validate(b"".join(convert(name, row, id_style=id_style).lines()), contract="legal_eval_v1")
    assert (report.outcome, report.counts.accepted_records, report.issues) == ("accepted", 1, ())


def test_all_five_benchmarks_have_a_converter() -> None:
    assert list(CONVERTERS) == ["prbench", "apexv1", "lexam", "includebase", "lar_echr"]


def test_prbench_row_becomes_a_conversation_with_a_rubric() -> None:
    row = only_row("prbench", PRBENCH)
    assert list(row) == ["schema_version", "id", "dataset", "task_type", "prompt", "metadata", "messages", "rubric"]
    assert (row["id"], row["task_type"], row["prompt"]) == ("prbench:t-17", "rubric_qa", "The lease says nothing.")
    assert [message["role"] for message in row["messages"]] == ["user", "assistant", "user"]
    assert row["messages"][0]["content"] == "May my landlord enter?"
    assert row["rubric"] == [{"id": "c-1", "title": "Asks for notice", "description": "Notice comes first.", "weight": 6.0}]


def test_prbench_scratchpad_reaches_metadata_and_nothing_else() -> None:
    row = only_row("prbench", PRBENCH)
    assert row["metadata"].pop("scratchpad") == "The tenant is right."
    assert "The tenant is right." not in str(row)


def test_prbench_metadata_keeps_ten_turns_and_the_policy() -> None:
    metadata = only_row("prbench", PRBENCH)["metadata"]
    assert metadata["policy_id"] == "prbench_v1"
    assert len(metadata["source_turns"]) == 10
    assert metadata["source_turns"][1] == {"turn": 1, "prompt": "The lease says nothing.", "response": "", "reference_texts": []}


def test_prbench_weight_is_the_one_its_class_names() -> None:
    row = criterion(weight_class="critically detrimental", critically_important_weight=8.0, critically_detrimental_weight=-8.0)
    assert only_row("prbench", row)["rubric"][0]["weight"] == -8.0


def test_prbench_weight_without_a_class_is_taken_where_there_is_only_one() -> None:
    assert only_row("prbench", criterion(important_weight=5, detrimental_weight=None))["rubric"][0]["weight"] == 5.0


def test_prbench_criterion_without_any_weight_has_none() -> None:
    assert only_row("prbench", criterion(criteria_description=" "))["rubric"] == [{"id": "c-1", "title": "Asks for notice"}]


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({"weight_class": "important", "important_weight": None, "detrimental_weight": -3.0}, "for which it has no weight"),
        ({"important_weight": 5.0, "detrimental_weight": -3.0}, "2 weights and no weight_class"),
        ({"weight_class": "important", "important_weight": "5"}, "not a number but text"),
        ({"weight_class": "important", "important_weight": True}, "not a number but a boolean"),
    ],
)
def test_prbench_weight_is_never_guessed(annotations: dict[str, Any], reason: str) -> None:
    assert reason in refusal("prbench", criterion(**annotations))


def test_prbench_reference_lists_stand_numbered_before_their_prompt() -> None:
    row = only_row(
        "prbench", {**PRBENCH, "reference_texts_1": [" § 1 "], "other_reference_1": ["§ 2", " "], "reference_count_1": 2}
    )
    assert row["prompt"] == "Reference Text 0:\n§ 1\n\nReference Text 1:\n§ 2\n\nThe lease says nothing."
    assert row["messages"][-1]["content"] == row["prompt"]
    assert row["metadata"]["source_turns"][1]["reference_texts"] == ["§ 1", "§ 2"]


def test_prbench_reference_list_may_be_written_as_text() -> None:
    assert only_row("prbench", {**PRBENCH, "reference_texts_1": "['§ 1']"})["prompt"].startswith("Reference Text 0:\n§ 1\n\n")


def test_prbench_reference_that_is_no_text_is_refused() -> None:
    assert (
        refusal("prbench", {**PRBENCH, "reference_texts_0": [{"law": 1}]}) == "reference_texts_0 holds something that is not text"
    )


def test_prbench_response_without_a_prompt_stays_in_the_conversation() -> None:
    row = only_row("prbench", {**PRBENCH, "prompt_0": None})
    assert [message["role"] for message in row["messages"]] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prompt_0": None, "prompt_1": "  "}, "no prompt in prompt_0 to prompt_9"),
        ({"prompt_0": 7}, "prompt_0 is not text but a number"),
        ({"rubric": []}, "rubric is required"),
        ({"rubric": None}, "rubric is not a list but null"),
        ({"rubric": ["be kind"]}, "rubric is not an object but text"),
        ({"rubric": [{"id": "c-1", "title": " "}]}, "rubric[0].title must not be empty"),
        ({"rubric": [{"id": "c-1", "title": "a"}, {"id": "c-1", "title": "b"}]}, "id 'c-1' was used by rubric[0]"),
        ({"rubric": [{"id": "c-1", "title": "a", "annotations": 3}]}, "annotations is not an object but a number"),
    ],
)
def test_prbench_row_that_cannot_be_judged_is_refused(change: dict[str, Any], reason: str) -> None:
    assert refusal("prbench", {**PRBENCH, **change}) == reason


def test_prbench_id_falls_back_to_id_then_canary_then_content() -> None:
    nameless = {**PRBENCH, "task": None}
    assert only_row("prbench", {**nameless, "id": 4.0, "canary": "c"})["id"] == "prbench:4"
    assert only_row("prbench", {**nameless, "canary": "c"})["id"] == "prbench:c"
    assert only_row("prbench", nameless)["id"] == only_row("prbench", {**nameless, "bucket": "x"})["id"]
    assert only_row("prbench", nameless)["id"] != only_row("prbench", {**nameless, "prompt_0": "Other"})["id"]
    assert only_row("prbench", nameless, "upstream")["id"] != only_row("prbench", nameless)["id"]


def test_apex_judges_the_description_and_explains_with_the_justification() -> None:
    row = only_row("apexv1", APEX)
    assert row["rubric"] == [{"id": "criterion 1", "title": "Names the longer lease", "description": "B: 9 years"}]
    assert (row["id"], row["metadata"]["source_task_id"]) == ("apexv1:31", 31)


def test_apex_attachments_are_separated_by_line_breaks_and_not_by_commas() -> None:
    attachments = only_row("apexv1", APEX)["attachments"]
    assert attachments == [{"path": "leases/a, signed.pdf", "kind": "pdf"}, {"path": "leases/b.txt", "kind": "file"}]


def test_apex_rubric_may_be_an_object_with_a_weight_in_figures() -> None:
    row = only_row("apexv1", {**APEX, "Rubric JSON": {"one": {"description": "Names it", "weight": 2}}, "File Attachments": None})
    assert row["rubric"] == [{"id": "one", "title": "Names it", "weight": 2.0}]
    assert "attachments" not in row


def test_apex_row_without_a_task_id_is_named_by_its_content() -> None:
    first, second = {**APEX, "Task ID": ""}, {**APEX, "Task ID": None, "Prompt": "Compare them."}
    assert only_row("apexv1", first)["id"] != only_row("apexv1", second)["id"]
    assert only_row("apexv1", first, "upstream")["id"] == f"apexv1:{hashlib.sha1(b'Compare the two leases.').hexdigest()[:16]}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"Prompt": " "}, "prompt must not be empty"),
        ({"Rubric JSON": ""}, "Rubric JSON is empty"),
        ({"Rubric JSON": "[]"}, "Rubric JSON is not an object but a list"),
        (
            {"Rubric JSON": '{"a": {"description": "x"}, "a": {"description": "y"}}'},
            "Rubric JSON: the name 'a' appears twice in one object",
        ),
        ({"Rubric JSON": {"a": "x"}}, "Rubric JSON is not an object but text"),
        ({"Rubric JSON": {"a": {"justification": "only that"}}}, "rubric[0].title must not be empty"),
        ({"File Attachments": 7}, "File Attachments is not text but a number"),
        ({"Task ID": True}, "Task ID is not an identifier but a boolean"),
    ],
)
def test_apex_row_that_cannot_be_judged_is_refused(change: dict[str, Any], reason: str) -> None:
    assert refusal("apexv1", {**APEX, **change}) == reason


def test_apex_attachment_outside_the_folder_is_refused() -> None:
    assert "not a relative path below the dataset's folder" in refusal("apexv1", {**APEX, "File Attachments": "../secret.pdf"})


def test_lexam_choices_in_a_python_literal_and_a_float_gold_are_read() -> None:
    row = only_row("lexam", LEXAM)
    assert row["choices"] == [{"id": "A", "text": "i"}, {"id": "B", "text": "ii"}, {"id": "C", "text": "i und ii"}]
    assert (row["correct_choice_ids"], row["metadata"]["gold_index"]) == (["B"], 1)
    assert row["metadata"]["question_type"] == "mcq"


@pytest.mark.parametrize("choices", [["i", "ii", 3], '["i", "ii", 3]', "('i', 'ii', 3)"])
def test_lexam_choices_may_be_a_list_json_or_a_tuple(choices: Any) -> None:
    assert [choice["text"] for choice in only_row("lexam", {**LEXAM, "choices": choices})["choices"]] == ["i", "ii", "3"]


def test_lexam_choice_written_as_an_escaped_pair_stays_one_character() -> None:
    assert only_row("lexam", {**LEXAM, "choices": '["\\ud83d\\ude00", "ii"]'})["choices"][0]["text"] == "😀"


def test_lexam_question_with_an_answer_and_no_choices_is_open() -> None:
    row = only_row("lexam", {"Question": "Why?", "Answer": " Because. ", "ID": "q-6", "Course": "Torts"})
    assert (row["id"], row["task_type"], row["reference_answers"]) == ("lexam:open:open_question:q-6", "reference_qa", ["Because."])
    assert (row["metadata"]["course"], row["metadata"]["policy_id"]) == ("Torts", "lexam_oq_v1")


def test_lexam_stable_id_names_the_subset_and_never_the_line() -> None:
    rows = [{**LEXAM, "id": f"q-{number}", "source_subset": "mcq_3_choices"} for number in range(2)]
    assert [row["id"] for row in convert("lexam", *rows).rows] == ["lexam:mcq:mcq_3_choices:q-0", "lexam:mcq:mcq_3_choices:q-1"]
    assert convert("lexam", *reversed(rows)).rows == tuple(reversed(convert("lexam", *rows).rows))


def test_lexam_upstream_id_ends_in_the_line() -> None:
    rows = convert("lexam", LEXAM, {"question": "Why?", "answer": "So."}, id_style="upstream").rows
    assert [row["id"] for row in rows] == ["lexam:mcq:q-5:1", "lexam:open:line_2:2"]


def test_lexam_row_without_an_id_is_named_by_its_content() -> None:
    first, second = {**LEXAM, "id": None}, {**LEXAM, "id": "", "choices": ["i", "iv"]}
    assert only_row("lexam", first)["id"] == only_row("lexam", {**first, "course": "Other"})["id"]
    assert only_row("lexam", first)["id"] != only_row("lexam", second)["id"]


def test_choices_past_z_continue_with_two_letters_or_the_older_names() -> None:
    texts = [str(number) for number in range(32)]
    stable, older = (only_row("lexam", {**LEXAM, "choices": texts, "gold": 28}, style) for style in ("stable", "upstream"))
    assert [choice["id"] for choice in stable["choices"]][25:28] == ["Z", "AA", "AB"]
    assert [choice["id"] for choice in older["choices"]][25:28] == ["Z", "CHOICE_26", "CHOICE_27"]
    assert (stable["correct_choice_ids"], older["correct_choice_ids"]) == (["AC"], ["CHOICE_28"])


def test_choice_ids_stay_unique_far_past_the_alphabet() -> None:
    ids = [choice_id(position, "stable") for position in range(1000)]
    assert len(set(ids)) == 1000
    assert (ids[51], ids[52], ids[701], ids[702]) == ("AZ", "BA", "ZZ", "AAA")


def test_lexam_row_with_several_sizes_of_choices_gives_one_row_for_each() -> None:
    row = {
        "question": "Which?",
        "4_choices": "['a', 'b']",
        "4_choices_gold": 0,
        "8_choices": "['c', 'd']",
        "8_choices_gold": 1,
        "id": "q-7",
    }
    stable, older = convert("lexam", row), convert("lexam", row, id_style="upstream")
    assert [converted["id"] for converted in stable.rows] == ["lexam:mcq:mcq_4_choices:q-7", "lexam:mcq:mcq_8_choices:q-7"]
    assert [converted["id"] for converted in older.rows] == ["lexam:mcq:q-7:1:4_choices", "lexam:mcq:q-7:1:8_choices"]
    assert [converted["correct_choice_ids"] for converted in stable.rows] == [["A"], ["B"]]
    assert stable.report.to_dict()["totals"] == {"read": 1, "emitted": 2, "invalid": 0, "skipped": 0}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"gold": 1.5}, "gold is not a whole number: 1.5"),
        ({"gold": True}, "gold is not a whole number: True"),
        ({"gold": None}, "gold is not a whole number: None"),
        ({"gold": 3}, "gold is 3, but the choices are numbered 0 to 2"),
        ({"gold": -1}, "gold is -1, but the choices are numbered 0 to 2"),
        ({"choices": "['i', 'ii'"}, "choices is not a list that can be read: ['i', 'ii'"),
        ({"choices": "__import__('os').getcwd()"}, "choices is not a list that can be read: __import__('os').getcwd()"),
        ({"choices": "{'i': 1}"}, "choices is not a list but an object"),
        ({"choices": ["i", 2.5]}, "choices[1] is not text but a number"),
        ({"choices": ["i", " "], "gold": 0}, "choices[1].text must not be empty"),
        ({"choices": "['i']", "gold": 0}, "choices has 1 item(s); at least 2 are needed"),
        ({"choices": "['i', '\\ud800']", "gold": 0}, "a text holds an unpaired surrogate"),
        ({"choices": " ", "question_type": "mcq"}, "a multiple-choice question without choices"),
        ({"question": None}, "prompt must not be empty"),
        ({"question_type": "essay"}, "the question type 'essay' is neither 'open' nor 'mcq'"),
        ({"question_type": "open"}, "an open question without an answer"),
        ({"Question": "Another?"}, "the columns 'question' and 'Question' say different things"),
    ],
)
def test_lexam_row_that_would_need_guessing_is_refused(change: dict[str, Any], reason: str) -> None:
    assert refusal("lexam", {**LEXAM, **change}) == reason


@pytest.mark.parametrize("text", ["[" * 100_000, "-" * 100_000 + "1", "['a', 'b'" + " " * 1_000_000 + "]"])
def test_lexam_choices_that_attack_the_parser_are_refused(text: str) -> None:
    assert refusal("lexam", {**LEXAM, "choices": text}).startswith("choices is ")


def test_includebase_takes_an_integral_float_and_figures_as_text() -> None:
    answers = [only_row("includebase", {**INCLUDE, "answer": answer})["correct_choice_ids"] for answer in (2, 2.0, "2", "2.0")]
    assert answers == [["C"]] * 4


def test_includebase_empty_option_is_dropped_and_the_letters_stay() -> None:
    row = only_row("includebase", {**INCLUDE, "option_a": "  ", "option_c": 1999})
    assert row["choices"] == [{"id": "B", "text": "The judge"}, {"id": "C", "text": "1999"}, {"id": "D", "text": "Nobody"}]
    assert (row["correct_choice_ids"], row["metadata"]["answer_index"]) == (["B"], 1)


def test_includebase_stable_id_depends_on_file_question_and_options_alone() -> None:
    first = only_row("includebase", INCLUDE)["id"]
    assert convert("includebase", {**INCLUDE, "question": "Other?"}, {**INCLUDE, "confusion_score": 0.9}).rows[1]["id"] == first
    changed = [{**INCLUDE, name: "x"} for name in ("question", "option_d", "source_file")]
    assert first not in {only_row("includebase", row)["id"] for row in changed}


def test_includebase_upstream_id_is_a_hash_of_file_line_and_question() -> None:
    named, nameless = convert("includebase", INCLUDE, {**INCLUDE, "source_file": None}, id_style="upstream").rows
    assert named["id"] == f"includebase:{hashlib.sha1(b'Latvian/test.parquet:1:Who signs the act?').hexdigest()[:16]}"
    assert nameless["id"] == f"includebase:{hashlib.sha1(b'unknown:2:Who signs the act?').hexdigest()[:16]}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"answer": 4}, "answer is 4, but the options are numbered 0 to 3"),
        ({"answer": "B"}, "answer is not a whole number: B"),
        ({"option_b": None}, "answer is 1, but option_b is empty"),
        ({"option_a": ["x"]}, "option_a is not text but a list"),
    ],
)
def test_includebase_row_with_a_doubtful_answer_is_refused(change: dict[str, Any], reason: str) -> None:
    assert refusal("includebase", {**INCLUDE, **change}) == reason


def test_lar_echr_facts_and_arguments_reach_the_model_as_context() -> None:
    row = only_row("lar_echr", ECHR)
    assert row["context"] == f"Facts:\n{ECHR['facts']}\n\nArguments:\n{ECHR['context_arguments']}"
    assert (row["id"], row["correct_choice_ids"]) == ("lar_echr:001-9_4", ["A"])


def test_lar_echr_context_stands_in_for_missing_arguments() -> None:
    row = only_row("lar_echr", {**ECHR, "context_arguments": None, "context": "The Government said so.", "toughness_score": 0.5})
    assert row["context"].endswith("Arguments:\nThe Government said so.")
    assert row["metadata"]["toughness_score"] == 0.5


def test_lar_echr_row_without_a_case_id_is_named_by_record_or_content() -> None:
    nameless = {**ECHR, "case_id": None}
    assert only_row("lar_echr", nameless)["id"] == "lar_echr:001-9_4"
    assert (
        only_row("lar_echr", {**nameless, "record_id": None})["id"]
        != only_row("lar_echr", {**nameless, "record_id": None, "b": "x"})["id"]
    )
    seed = f"1:{ECHR['facts']}:{ECHR['context_arguments']}"
    assert only_row("lar_echr", nameless, "upstream")["id"] == f"lar_echr:{hashlib.sha1(seed.encode()).hexdigest()[:16]}"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"facts": " "}, "facts is empty"),
        ({"context_arguments": None}, "context_arguments and context are empty"),
        ({"label": None}, "label is empty"),
        ({"label": "C"}, "'C' is not the id of a choice"),
        ({"label": 0}, "label is not text but a number"),
    ],
)
def test_lar_echr_row_without_what_it_asks_about_is_refused(change: dict[str, Any], reason: str) -> None:
    assert refusal("lar_echr", {**ECHR, **change}) == reason


def test_unknown_converter_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageProblem, match="no converter 'mmlu'") as caught:
        convert_rows("mmlu", [])
    assert caught.value.hint == "converters: prbench, apexv1, lexam, includebase, lar_echr"


def test_unknown_id_style_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageProblem, match="no id style 'short'") as caught:
        convert("lexam", id_style="short")
    assert caught.value.hint == "id styles: stable, upstream"
