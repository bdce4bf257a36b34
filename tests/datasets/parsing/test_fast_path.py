"""Lines are judged in blocks, and nobody can tell where a block ends: verdicts and line numbers are those of each line alone."""

import hashlib
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import ValidationConfig, ValidationReport, validate
from assay.api import validate_with_hashes
from assay.core.canonical import canonical_json
from assay.datasets.conversation_v1.fast import fast_path_for
from assay.datasets.legal_eval_v1.fast import ROW_SCHEMA
from assay.datasets.legal_eval_v1.rules import TASK_FIELDS, check_row
from assay.datasets.parsing.fast_path import FastPath
from assay.datasets.parsing.source import BATCH_BYTES, BOM, LineBlock, open_source
from tests.mutants import mutant_of

ROW: dict[str, Any] = {"schema_version": "legal_eval_v1", "id": "r", "dataset": "d", "task_type": "reference_qa", "prompt": "Why?"}
ROW |= {"reference_answers": ["Because."], "metadata": {"page": {"from": 1}}}
TURNS = [{"turn_id": 1, "speaker": "user", "message": "hi"}, {"turn_id": 2, "speaker": "assistant", "assistant_reply": "hello"}]


def row(number: int, **members: Any) -> bytes:
    return json.dumps(ROW | {"id": f"r{number}"} | members).encode()


def block(content: bytes) -> LineBlock:
    return LineBlock(bytearray(content + b"left over from the block before"), len(content))


def places(report: ValidationReport) -> list[tuple[str, int | None, int | None]]:
    return [(issue.code, issue.index, issue.line) for issue in report.issues]


def test_a_block_of_clean_rows_is_taken_as_a_whole() -> None:
    taken = FastPath(ROW_SCHEMA).all_rows(block(b"\n".join(map(row, range(40))) + b"\n"))
    assert taken is not None
    assert [each.id for each in taken.rows] == [f"r{number}" for number in range(40)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("last", [b"", b"\n", b"\r\n"])
def test_line_endings_do_not_keep_a_block_from_being_taken(ending: bytes, last: bytes) -> None:
    taken = FastPath(ROW_SCHEMA).all_rows(block(ending.join(map(row, range(3))) + last))
    assert taken is not None
    assert len(taken.rows) == 3


@pytest.mark.parametrize(
    "content",
    [
        row(1) + b" " + row(2) + b"\n" + row(3).replace(b", ", b",\n", 1) + b"\n",
        row(1) + row(2) + b"\n" + row(3).replace(b"}}", b"}\n}") + b"\n",
        row(1) + b"\n\n" + row(2),
        b"\n" + row(1),
        b" " + row(1),
        row(1) + b"\n" + row(2)[:-1],
        row(1) + b"\r" + row(2) + b"\n",
    ],
    ids=["a-space-between", "nothing-between", "blank", "blank-first", "indented", "cut-off", "carriage-return"],
)
def test_a_block_in_which_lines_and_rows_may_differ_is_left_to_its_lines(content: bytes) -> None:
    assert FastPath(ROW_SCHEMA).all_rows(block(content)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"dataset"', b'"dataset": "x", "dataset"'),
        (b'"from"', b'"from": 2, "from"'),
        (b'"reference_answers"', b'"reference_answers": ["a", "b"], "reference_answers"'),
        (b"Because.", b"a \\u0000 inside"),
        (b"Because.", b"\\u3000\\t"),
        (b"Because.", b"half \\ud83d"),
        (b"Because.", b"\xff"),
    ],
    ids=["name-twice", "nested-name-twice", "list-twice", "nul", "blank", "surrogate", "not-utf8"],
)
@pytest.mark.parametrize("position", [0, 17, 39])
def test_one_bad_row_in_a_block_is_found_alone(old: bytes, new: bytes, position: int) -> None:
    lines = [row(number) for number in range(40)]
    lines[position] = lines[position].replace(old, new)
    report = validate(b"\n".join(lines), "legal_eval_v1")
    assert [(issue.index, issue.line) for issue in report.issues] == [(position, position + 1)]
    assert report.counts.accepted_records == 39


SPACES = [chr(point) for point in range(0x110000) if chr(point).isspace()]
RUBRIC = ROW | {"task_type": "rubric_qa", "rubric": [{"id": "c", "title": "t", "weight": 1}], "reference_answers": ["a"]}
QUIZ = {name: ROW[name] for name in ROW if name != "reference_answers"}
QUIZ |= {"task_type": "mcq", "choices": [{"id": "A", "text": "a"}, {"id": "B", "text": "b"}], "correct_choice_ids": ["B"]}
REQUIRED: dict[str, tuple[dict[str, Any], str]] = {
    "id": (ROW, '"id": "r"'),
    "dataset": (ROW, '"dataset": "d"'),
    "prompt": (ROW, '"prompt": "Why?"'),
    "answer": (ROW, '"Because."'),
    "criterion": (RUBRIC, '"id": "c"'),
    "title": (RUBRIC, '"title": "t"'),
    "choice": (QUIZ, '"id": "A"'),
    "text": (QUIZ, '"text": "b"'),
    "content": (ROW | {"messages": [{"role": "user", "content": "Why?"}]}, '"content": "Why?"'),
    "path": (ROW | {"attachments": [{"path": "a.pdf"}]}, '"path": "a.pdf"'),
}
OPTIONAL: dict[str, tuple[dict[str, Any], str]] = {
    "context": (ROW | {"context": "c"}, '"context": "c"'),
    "description": (RUBRIC | {"rubric": [{"id": "c", "title": "t", "description": "d"}]}, '"description": "d"'),
    "sample": (RUBRIC, '["a"]'),
    "metadata": (ROW | {"metadata": {"note": "n"}}, '"note": "n"'),
}


def spellings(kind: tuple[dict[str, Any], str], filling: str) -> list[bytes]:
    """Lines in which one text is replaced by characters as they are and escaped, among lines that are clean."""
    members, old = kind
    text = old.rsplit('"', 2)[1]
    inner = {json.dumps(filling, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True)}
    inner.add("".join(f"\\u{ord(character):04X}" for character in filling))
    line = json.dumps(members)
    assert line.count(old) == 1
    return [line.replace(old, old.replace(f'"{text}"', f'"{new}"')).encode() for new in sorted(inner)]


def is_taken(line: bytes) -> bool:
    return FastPath(ROW_SCHEMA).all_rows(block(b"\n".join([row(1), line, row(2)]))) is not None


@pytest.mark.parametrize("kind", REQUIRED)
def test_a_blank_text_keeps_a_block_from_being_taken_however_it_is_spelled(kind: str) -> None:
    lines = [line for space in SPACES for filling in (space, space * 3, f" {space}") for line in spellings(REQUIRED[kind], filling)]
    assert [line for line in lines if is_taken(line)] == []


@pytest.mark.parametrize("kind", REQUIRED | OPTIONAL)
def test_a_text_that_only_begins_with_white_space_or_an_escape_does_not(kind: str) -> None:
    fillings = [f"{space}x" for space in SPACES] + ["\u200b", "\ufeff", "\u4e2d", "\x08", '"']
    lines = [line for filling in fillings for line in spellings((REQUIRED | OPTIONAL)[kind], filling)]
    assert [line for line in lines if not is_taken(line)] == []


@pytest.mark.parametrize("kind", OPTIONAL)
def test_a_blank_text_is_taken_where_it_is_allowed(kind: str) -> None:
    lines = [line for space in SPACES for line in spellings(OPTIONAL[kind], space)]
    assert [line for line in lines if not is_taken(line)] == []


@pytest.mark.parametrize("speaker", ["user", "assistant"])
def test_a_blank_turn_keeps_a_block_from_being_taken_however_it_is_spelled(speaker: str) -> None:
    fast_path = fast_path_for(ValidationConfig())
    assert fast_path is not None
    marked = json.dumps(TURNS).replace({"user": '"hi"', "assistant": '"hello"'}[speaker], '"@"')
    texts = [
        text
        for space in SPACES
        for text in (space, json.dumps(space)[1:-1], f"\\u{ord(space):04x}")
        if space > "\x1f" or "\\" in text
    ]
    taken = [text for text in texts if fast_path.all_rows(block(marked.replace("@", text).encode())) is not None]
    assert taken == []


def tasks() -> Iterator[dict[str, Any]]:
    """Rows of every task with members of every other, with and without their own."""
    for members, other, name in product((ROW, RUBRIC, QUIZ), (ROW, RUBRIC, QUIZ), TASK_FIELDS):
        yield {key: value for key, value in members.items() if key != name}
        yield members | {key: value for key, value in other.items() if key in (name, "task_type")}
        yield members | {key: value for key, value in other.items() if key == name}


def test_a_row_is_taken_when_it_has_what_its_task_needs_and_nothing_that_another_does() -> None:
    judged = [(is_taken(json.dumps(each).encode()), check_row(each, ValidationConfig()) == []) for each in tasks()]
    assert set(judged) == {(True, True), (False, False)}


def test_what_another_task_needs_is_found_beside_an_unknown_field() -> None:
    report = validate(json.dumps(QUIZ | {"language": "en", "rubric": RUBRIC["rubric"]}).encode(), "legal_eval_v1")
    assert [issue.path for issue in report.record_errors] == ["rubric"]


TOOL = {"tool_used": "search", "tool_input": {"q": 1}, "tool_output": "none"}


@pytest.mark.parametrize(
    "turn",
    [
        {"speaker": "user"},
        {"speaker": "assistant"},
        {"speaker": "user", "assistant_reply": "hello"},
        {"speaker": "assistant", "message": "hi"},
        {"speaker": "user", "message": "hi", "assistant_reply": "hello"},
        {"speaker": "assistant", "message": "hi", "assistant_reply": "hello"},
        {"speaker": "user", "message": "hi"} | TOOL,
        {"speaker": "user", "message": "hi", "tool_input": {"q": 1}},
        {"speaker": "judge", "message": "hi"},
    ],
)
def test_words_and_tools_of_another_speaker_keep_a_block_from_being_taken(turn: dict[str, Any]) -> None:
    fast_path = fast_path_for(ValidationConfig())
    assert fast_path is not None
    assert fast_path.all_rows(block(json.dumps([*TURNS, turn | {"turn_id": 3}]).encode())) is None
    assert fast_path.all_rows(block(json.dumps([*TURNS, TURNS[1] | {"turn_id": 3} | TOOL]).encode())) is not None


@pytest.mark.parametrize("depth", range(1, 12))
def test_metadata_of_any_depth_is_clean_or_bad_like_in_a_shallow_row(depth: int) -> None:
    lines = [
        row(1, metadata={"a": json.loads("[" * depth + opening + "]" * depth)}) for opening in ('{"b": 1}', '{"b": "\\u0000"}')
    ]
    twice = lines[0].replace(b'"b": 1', b'"b": 1, "b": 2')
    outcomes = [validate(line, "legal_eval_v1").outcome for line in (*lines, twice)]
    assert outcomes == ["accepted", "rejected", "rejected"]


@pytest.mark.parametrize("kept", ["first", "same"])
def test_an_id_is_used_once_within_a_block_and_across_blocks(kept: str) -> None:
    size = 60 if kept == "same" else 600
    lines = [row(number, context="c" * 1000) for number in range(size)]
    report = validate(b"\n".join([*lines, lines[3]]), "legal_eval_v1")
    assert places(report) == [("duplicate_record_id", size, size + 1)]
    assert "(line 4)" in report.issues[0].message


def test_blank_lines_and_line_endings_leave_line_numbers_right_in_every_block() -> None:
    parts = [row(number, context="c" * 3000) + (b"\r\n", b"\n", b"\n \t\n\n")[number % 3] for number in range(500)]
    parts[450] = b"{}\n"
    content = BOM + b"\n" + b"".join(parts)
    expected = 1 + content[: content.index(b"{}\n")].count(b"\n")
    assert len(content) > 3 * BATCH_BYTES
    assert {(issue.index, issue.line) for issue in validate(content, "legal_eval_v1").record_errors} == {(450, expected)}


@given(st.lists(st.integers(0, 3), max_size=8), st.booleans(), st.booleans())
def test_blocks_are_the_lines_of_a_source_whatever_their_length(sizes: list[int], has_mark: bool, is_ended: bool) -> None:  # noqa: FBT001
    lines = [b"x" * (size * BATCH_BYTES // 2) for size in sizes]
    content = b"\n".join(lines) + b"\n" * is_ended
    blocks = [bytes(each.view) for each in open_source(BOM * has_mark + content).blocks()]
    assert b"".join(blocks) == content
    assert all(each.endswith(b"\n") for each in blocks[:-1])


def test_a_file_has_the_blocks_of_its_bytes(tmp_path: Path) -> None:
    content = BOM + b"".join(b"%d\n" % number for number in range(100_000)) + b"y" * 3 * BATCH_BYTES
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    from_file, from_bytes = (b"".join(bytes(each.view) for each in open_source(each).blocks()) for each in (path, content))
    assert from_file == from_bytes == content.removeprefix(BOM)


def test_a_line_longer_than_a_block_is_judged_like_others() -> None:
    lines = [row(1), row(2, context="c" * 3 * BATCH_BYTES), row(3, context="c" * 3 * BATCH_BYTES, prompt=" "), row(4)]
    report = validate(b"\n".join(lines), "legal_eval_v1")
    assert places(report) == [("value_out_of_range", 2, 3)]


@given(st.integers(0, 2**32 - 1))
def test_rows_in_a_block_are_judged_like_rows_alone(seed: int) -> None:
    random = Random(seed)
    mutants = [mutant_of(ROW | {"id": f"r{number}"}, random, most=1).replace(b"\n", b" ") for number in range(6)]
    lines = [*map(row, range(10, 14)), *mutants]
    fast_path = FastPath(ROW_SCHEMA)
    together = fast_path.clean_rows(lines)
    alone = [fast_path.clean_rows([line])[0] for line in lines]
    taken = fast_path.all_rows(block(b"\n".join(lines)))
    assert together == alone
    assert taken is None or taken.rows == alone


def test_conversations_are_taken_in_blocks_and_a_bad_one_is_found_alone() -> None:
    lines = [msgspec.json.encode(TURNS)] * 30
    bad = lines[7].replace(b'"hello"', b'"hello","assistant_reply":"again"')
    fast_path = fast_path_for(ValidationConfig())
    assert fast_path is not None
    taken = fast_path.all_rows(block(b"\n".join(lines)))
    assert taken is not None
    assert taken.rows == fast_path.clean_rows(lines)
    report = validate(b"\n".join([*lines[:7], bad, *lines[8:]]), "conversation_v1")
    assert {(issue.conversation, issue.line) for issue in report.issues} == {(7, 8)}
    assert report.counts.total_records == 60


def test_input_of_a_tool_without_the_tool_is_seen_in_a_block() -> None:
    turns = [TURNS[0], TURNS[1] | {"tool_input": {"q": 1}}]
    fast_path = fast_path_for(ValidationConfig())
    assert fast_path is not None
    assert fast_path.all_rows(block(msgspec.json.encode(turns))) is None


NUMBERS = ["1", "1.0", "-0.0", "0.5", "1e-5", "0.0001", "1e16", "1e21", "123456789.25", "9007199254740993", "18446744073709551617"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", ["weight", "metadata"])
def test_rows_are_hashed_in_blocks_as_their_cases_are(number: str, place: str) -> None:
    rubric = [{"id": "c", "title": "t", "weight": 2}, {"id": "d", "title": "u", "weight": 3}]
    members = {key: ROW[key] for key in ("schema_version", "dataset", "prompt")} | {"task_type": "rubric_qa", "rubric": rubric}
    members["metadata"] = {"b": [2, {"z": 1, "\u00e9": 7, "a": 7}], "\ue000": 0, "B": "\u2028\x7f\n"}
    marked = {"weight": b'"weight": 3', "metadata": b'"z": 1'}[place]
    lines = [json.dumps(members | {"id": f"h{at}"}).encode() for at in range(3)]
    lines[1] = lines[1].replace(marked, marked[:-1] + number.encode())
    report = validate_with_hashes(b"\r\n".join(lines), "legal_eval_v1")
    assert report.digests is not None
    assert list(report.hashes) == [rfc8785_digest(line) for line in lines] == [case.record_sha256 for case in report.cases]


@given(
    st.lists(st.sampled_from(["0", "1", "1.0", "-0.0", "0.5", "1e-5", "1e-7", "0.0001"]) | st.floats(0, 1).map(repr), max_size=4)
)
def test_conversations_with_any_score_are_hashed_as_their_cases_are(scores: list[str]) -> None:
    turn = b'{"turn_id": %d, "speaker": "user", "message": "hi", "confidence_score": %s, "metadata": {"v": "1.0 or 2e5"}}'
    turns = [turn % (at, score.encode()) for at, score in enumerate(scores, 2)]
    line = b"[" + b", ".join([msgspec.json.encode(TURNS[0]), *turns]) + b"]"
    report = validate_with_hashes(b"\n".join([line, msgspec.json.encode(TURNS)]) + b"\n", "conversation_v1")
    assert list(report.hashes) == [rfc8785_digest(line), rfc8785_digest(msgspec.json.encode(TURNS))]


def test_a_carriage_return_inside_a_row_does_not_end_it_when_it_is_hashed() -> None:
    lines = [row(number, metadata={"share": 1.0}).replace(b", ", b",\r", 1) for number in range(3)]
    report = validate_with_hashes(b"\n".join(lines) + b"\n", "legal_eval_v1")
    assert FastPath(ROW_SCHEMA).all_rows(block(b"\n".join(lines))) is not None
    assert list(report.hashes) == [rfc8785_digest(line) for line in lines]


def rfc8785_digest(text: bytes) -> str:
    return hashlib.sha256(canonical_json(msgspec.json.decode(text))).hexdigest()


@given(st.integers(0, 2**32 - 1))
def test_hashes_made_while_checking_are_those_of_the_cases(seed: int) -> None:
    random = Random(seed)
    rows = [mutant_of(ROW | {"id": f"r{number}"}, random, most=1).replace(b"\n", b" ") for number in range(3)]
    talks = [mutant_of(list(TURNS), random, most=1).replace(b"\n", b" ") for _ in range(3)]
    lines = {"legal_eval_v1": [row(7), *rows], "conversation_v1": [msgspec.json.encode(TURNS), *talks]}
    reports = [validate_with_hashes(b"\n".join(each), contract) for contract, each in lines.items()]
    assert [list(report.hashes) for report in reports] == [[case.record_sha256 for case in report.cases] for report in reports]


@pytest.mark.parametrize("nested", [False, True])
def test_names_above_the_first_plane_are_hashed_in_the_order_of_utf16(nested: bool) -> None:  # noqa: FBT001  # a table's column
    names = {"\uff5e": 1, "\U0001f600": 2}
    line = row(1, metadata={"a": [1, [names], "b"]} if nested else names)
    assert list(validate_with_hashes(line, "legal_eval_v1").hashes) == [rfc8785_digest(line)]


def test_a_score_written_as_an_integer_is_hashed_as_it_is_written() -> None:
    line = json.dumps([TURNS[0], TURNS[1] | {"confidence_score": 1}]).encode()
    report = validate_with_hashes(line + b"\n" + line, "conversation_v1")
    assert list(report.hashes) == [rfc8785_digest(line)] * 2


def test_hashes_of_other_formats_are_those_of_the_cases() -> None:
    report = validate_with_hashes(json.dumps(TURNS).encode(), "conversation_v1")
    assert list(report.hashes) == [case.record_sha256 for case in report.cases] != []
