"""The drop-in names for conversations, and that they say what `assay.validate` says."""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import validate
from assay.conversation import (
    AgentDataValidator,
    ErrorType,
    ValidationConfig,
    ValidationError,
    ValidationResult,
    create_example_files,
)
from assay.core.errors import UsageProblem

USER: dict[str, Any] = {"turn_id": 1, "speaker": "user", "message": "Is it open?"}
REPLY: dict[str, Any] = {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Until six."}
TOOL: dict[str, Any] = {"tool_used": "hours", "tool_input": {"day": "today"}, "tool_output": None}
FIXTURES = Path(__file__).parent / "datasets" / "conversation_v1"
FILES = [
    path
    for path in sorted(FIXTURES.glob("*valid/**/*"))
    if path.is_file() and not path.name.endswith((".issues.json", ".config.yaml"))
]

Found = list[tuple[ErrorType, int | None, str | None]]


def errors_of(result: ValidationResult) -> Found:
    return [(error.error_type, error.turn_id, error.field) for error in result.errors]


def checked(*turns: Any, **settings: Any) -> ValidationResult:
    return AgentDataValidator(ValidationConfig(**settings)).validate_data(list(turns))


def test_a_good_conversation_is_valid() -> None:
    result = AgentDataValidator().validate_data([USER, {**REPLY, **TOOL, "confidence_score": 1, "metadata": {}}])
    assert (result.is_valid, result.total_turns, result.errors, result.warnings) == (True, 2, [], [])


def test_the_settings_have_the_known_names_and_defaults() -> None:
    config = ValidationConfig()
    assert (config.min_turns, config.max_turns) == (1, 100)
    assert (config.min_message_length, config.max_message_length) == (1, 5000)
    assert (config.min_assistant_reply_length, config.max_assistant_reply_length) == (1, 5000)
    assert config.required_fields == ["turn_id", "speaker"]
    assert config.optional_fields == [
        *("message", "assistant_reply", "tool_used", "tool_input", "tool_output", "confidence_score", "metadata"),
    ]
    assert (config.allowed_speakers, config.allowed_tools) == (["user", "assistant"], None)
    assert (config.require_tool_input, config.require_tool_output) == (True, True)
    assert (config.confidence_score_min, config.confidence_score_max) == (0.0, 1.0)
    assert (config.strict_mode, config.check_turn_sequence, config.allow_empty_messages) == (False, True, False)


def test_lists_of_two_settings_are_not_shared() -> None:
    one, two = ValidationConfig(), ValidationConfig()
    one.allowed_speakers.append("system")
    assert two.allowed_speakers == ["user", "assistant"]


def test_the_seven_error_types_have_their_values() -> None:
    assert [kind.value for kind in ErrorType] == [
        *("structure_error", "required_field_missing", "invalid_field_type", "invalid_field_value"),
        *("sequence_error", "content_error", "tool_error"),
    ]
    assert [kind.name.lower() for kind in ErrorType] == [kind.value for kind in ErrorType]


@pytest.mark.parametrize("data", [[], {}, {"turns": [USER]}, "text", None, 5, (USER,)], ids=range(7))
def test_what_is_no_list_of_turns_is_a_structure_error(data: Any) -> None:
    result = AgentDataValidator().validate_data(data)
    assert (errors_of(result), result.is_valid) == ([(ErrorType.STRUCTURE_ERROR, None, None)], False)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ({"speaker": "user", "message": "x"}, [(ErrorType.REQUIRED_FIELD_MISSING, 1, "turn_id")]),
        ({"turn_id": 1, "message": "x"}, [(ErrorType.REQUIRED_FIELD_MISSING, 1, "speaker")]),
        ({"turn_id": 1, "speaker": "user"}, [(ErrorType.REQUIRED_FIELD_MISSING, 1, "message")]),
        ({"turn_id": 1, "speaker": "assistant"}, [(ErrorType.REQUIRED_FIELD_MISSING, 1, "assistant_reply")]),
        ({**USER, "speaker": "bot"}, [(ErrorType.INVALID_FIELD_VALUE, 1, "speaker")]),
        ({**USER, "speaker": ["user"]}, [(ErrorType.INVALID_FIELD_TYPE, 1, "speaker")]),
        ({**USER, "turn_id": "1"}, [(ErrorType.INVALID_FIELD_TYPE, 1, "turn_id")]),
        ({**USER, "turn_id": True}, [(ErrorType.INVALID_FIELD_TYPE, 1, "turn_id")]),
        ({**USER, "turn_id": 0}, [(ErrorType.INVALID_FIELD_VALUE, 0, "turn_id")]),
        ({**USER, "message": 5}, [(ErrorType.INVALID_FIELD_TYPE, 1, "message")]),
        ({**USER, "message": ""}, [(ErrorType.CONTENT_ERROR, 1, "message")]),
        ({**USER, "message": "x" * 5001}, [(ErrorType.CONTENT_ERROR, 1, "message")]),
        ({**USER, "confidence_score": 1.5}, [(ErrorType.INVALID_FIELD_VALUE, 1, "confidence_score")]),
        ({**USER, "confidence_score": float("nan")}, [(ErrorType.INVALID_FIELD_VALUE, 1, "confidence_score")]),
        ({**USER, "confidence_score": "high"}, [(ErrorType.INVALID_FIELD_TYPE, 1, "confidence_score")]),
        ({**USER, "metadata": []}, [(ErrorType.INVALID_FIELD_TYPE, 1, "metadata")]),
        ({**USER, "turn_id": 3}, [(ErrorType.SEQUENCE_ERROR, 3, "turn_id")]),
        ("hello", [(ErrorType.STRUCTURE_ERROR, 1, None)]),
        (
            {**REPLY, "turn_id": 1, "tool_used": "hours"},
            [(ErrorType.TOOL_ERROR, 1, "tool_input"), (ErrorType.TOOL_ERROR, 1, "tool_output")],
        ),
        (
            {**REPLY, "turn_id": 1, **TOOL, "tool_input": "x"},
            [(ErrorType.INVALID_FIELD_TYPE, 1, "tool_input"), (ErrorType.TOOL_ERROR, 1, "tool_input")],
        ),
        ({**REPLY, "turn_id": 1, "tool_input": "x"}, [(ErrorType.INVALID_FIELD_TYPE, 1, "tool_input")]),
        ({**REPLY, "turn_id": 1, **TOOL, "tool_used": 1}, [(ErrorType.INVALID_FIELD_TYPE, 1, "tool_used")]),
    ],
    ids=range(22),
)
def test_each_rule_has_its_error_type_turn_and_field(turn: Any, expected: Found) -> None:
    assert errors_of(checked(turn)) == expected


@pytest.mark.parametrize(("turn_id", "number"), [(7, 7), (None, 2), ("two", 2)])
def test_a_warning_numbers_turns_as_an_error_does(turn_id: Any, number: int) -> None:
    turn = {**REPLY, "turn_id": turn_id, "mood": "calm"}
    lenient, strict = checked(USER, turn), checked(USER, turn, strict_mode=True)
    assert [warning.partition(":")[0] for warning in lenient.warnings] == [f"turn {number}"]
    assert (ErrorType.INVALID_FIELD_VALUE, number, "mood") in errors_of(strict)


def test_a_tool_input_of_a_wrong_type_has_both_names_of_the_contract() -> None:
    with_tool = validate([USER, {**REPLY, **TOOL, "tool_input": ["x"]}], "conversation_v1")
    without_tool = validate([USER, {**REPLY, "tool_input": ["x"]}], "conversation_v1")
    assert [issue.name for issue in with_tool.record_errors] == ["Invalid tool_input type", "Invalid tool_input"]
    assert [issue.name for issue in without_tool.record_errors] == ["Invalid tool_input type"]


def test_a_gap_in_the_ids_is_one_error() -> None:
    turns = [{**USER, "turn_id": number} for number in (1, 3, 4)]
    assert errors_of(checked(*turns)) == [(ErrorType.SEQUENCE_ERROR, 3, "turn_id")]
    assert checked(*turns, check_turn_sequence=False).is_valid


@pytest.mark.parametrize("output", [None, "", 0, False, [], {}])
def test_any_tool_output_counts_as_present(output: Any) -> None:
    assert checked(USER, {**REPLY, **TOOL, "tool_output": output}).is_valid


def test_custom_speakers_need_something_to_say_only_in_strict_mode() -> None:
    turn = {"turn_id": 1, "speaker": "system"}
    lenient = checked(turn, allowed_speakers=["system"])
    strict = checked(turn, allowed_speakers=["system"], strict_mode=True)
    assert (lenient.is_valid, len(lenient.warnings)) == (True, 1)
    assert errors_of(strict) == [(ErrorType.REQUIRED_FIELD_MISSING, 1, None)]
    assert checked({**turn, "message": "x"}, allowed_speakers=["system"], strict_mode=True).is_valid


@pytest.mark.parametrize(
    ("turn", "kind", "field"),
    [
        ({**USER, "mood": "calm"}, ErrorType.INVALID_FIELD_VALUE, "mood"),
        ({**USER, "assistant_reply": "x"}, ErrorType.INVALID_FIELD_VALUE, "assistant_reply"),
        ({**REPLY, "turn_id": 1, "message": "x"}, ErrorType.INVALID_FIELD_VALUE, "message"),
        ({**REPLY, "turn_id": 1, "tool_input": {}}, ErrorType.TOOL_ERROR, "tool_input"),
        ({**REPLY, "turn_id": 1, "tool_output": 1}, ErrorType.TOOL_ERROR, "tool_output"),
        ({**USER, "message": " \t"}, ErrorType.CONTENT_ERROR, "message"),
    ],
    ids=["unknown", "reply-of-the-user", "message-of-the-assistant", "input-alone", "output-alone", "blank"],
)
def test_odd_habits_are_warnings_and_errors_in_strict_mode(turn: Any, kind: ErrorType, field: str) -> None:
    lenient, strict = checked(turn), checked(turn, strict_mode=True)
    assert (lenient.is_valid, len(lenient.warnings)) == (True, 1)
    assert errors_of(strict) == [(kind, 1, field)]


def test_own_fields_are_known_when_they_are_configured() -> None:
    turn = {**USER, "mood": "calm", "at": 5}
    fields = {"required_fields": ["turn_id", "speaker", "at"], "optional_fields": ["message", "mood"]}
    assert checked(turn, strict_mode=True, **fields).is_valid
    assert errors_of(checked(USER, **fields)) == [(ErrorType.REQUIRED_FIELD_MISSING, 1, "at")]


def test_text_fields_that_are_required_bind_their_own_speaker() -> None:
    fields = {"required_fields": ["turn_id", "speaker", "message", "assistant_reply"]}
    assert checked(USER, REPLY, **fields).is_valid


def test_several_errors_are_all_reported() -> None:
    result = checked({"turn_id": "x", "speaker": 1}, "no turn", {**USER, "turn_id": 3, "confidence_score": 7})
    assert [error.error_type for error in result.errors] == [
        ErrorType.INVALID_FIELD_TYPE,
        ErrorType.INVALID_FIELD_TYPE,
        ErrorType.STRUCTURE_ERROR,
        ErrorType.INVALID_FIELD_VALUE,
    ]


def test_a_result_collects_errors_and_warnings() -> None:
    result = ValidationResult()
    result.add_warning("odd")
    assert (result.is_valid, result.warnings) == (True, ["odd"])
    result.add_error(ErrorType.TOOL_ERROR, "wrong", 3, "tool_input")
    result.add_error(ErrorType.CONTENT_ERROR, "empty")
    assert not result.is_valid
    assert result.errors == [
        ValidationError(ErrorType.TOOL_ERROR, "wrong", 3, "tool_input"),
        ValidationError(error_type=ErrorType.CONTENT_ERROR, message="empty", turn_id=None, field=None),
    ]


def test_two_results_share_nothing() -> None:
    ValidationResult().add_warning("odd")
    assert ValidationResult().warnings == []


def test_python_values_that_are_no_json_are_structure_errors() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    for metadata in ({1: 2}, loop, {"k": "half \ud800"}, {"k": [{None: 1}]}):
        result = AgentDataValidator().validate_data([{**USER, "metadata": metadata}])
        assert [error.error_type for error in result.errors] == [ErrorType.STRUCTURE_ERROR]


def test_the_speaker_system_speaks_as_the_system() -> None:
    config = ValidationConfig(allowed_speakers=["system", "user"])
    [case] = validate([{"turn_id": 1, "speaker": "system", "message": "Be brief."}, {**USER, "turn_id": 2}], config=config).cases
    assert [message.role for message in case.messages] == ["system", "user"]
    assert case.prompt == USER["message"]


class Polite(AgentDataValidator):
    """A rule of its own on top of ours."""

    def _validate_turn(self, turn: Any, position: int, result: ValidationResult) -> None:
        super()._validate_turn(turn, position, result)
        if isinstance(turn, dict) and "please" not in turn.get("message", "please"):
            result.add_error(ErrorType.CONTENT_ERROR, f"turn {position} is rude", turn.get("turn_id"), "message")


class Silent(AgentDataValidator):
    """Replaces our rules for turns altogether."""

    def _validate_turn(self, turn: Any, position: int, result: ValidationResult) -> None:
        result.add_warning(f"{position}: {type(turn).__name__}")


def test_a_subclass_can_add_rules_for_turns(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([USER, REPLY, {**USER, "turn_id": 3, "message": "Tell me, please"}]), encoding="utf-8")
    expected = [(ErrorType.CONTENT_ERROR, 1, "message")]
    assert errors_of(Polite().validate_file(path)) == expected
    assert errors_of(Polite().validate_data(json.loads(path.read_text(encoding="utf-8")))) == expected


def test_a_subclass_can_replace_the_rules_for_turns() -> None:
    result = Silent().validate_data([{"turn_id": 1}, "x"])
    assert (result.is_valid, result.warnings) == (True, ["0: dict", "1: str"])


@pytest.mark.parametrize(
    ("name", "content", "turns"),
    [
        ("a.json", json.dumps([USER, REPLY]), 2),
        ("a.yaml", "- {turn_id: 1, speaker: user, message: no}\n", 1),
        ("a.jsonl", json.dumps(USER) + "\n" + json.dumps(REPLY) + "\n", 2),
        ("b.jsonl", json.dumps([USER]) + "\n" + json.dumps([USER, REPLY]) + "\n", 3),
    ],
)
def test_files_of_all_formats_are_read(name: str, content: str, turns: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    result = AgentDataValidator().validate_file(path)
    assert (result.is_valid, result.total_turns, result.errors) == (True, turns, [])
    assert AgentDataValidator().validate_file(str(path)) == result


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b"[{"),
        ("a.json", b""),
        ("a.yaml", b"- [\n"),
        ("a.json", b"\xff\xfe"),
        ("a.json.gz", b"\x1f\x8b\x00"),
        ("a.yaml", b"- !!x y\n"),
    ],
    ids=range(6),
)
def test_a_file_that_cannot_be_understood_is_a_structure_error(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = AgentDataValidator().validate_file(path)
    assert (result.is_valid, {error.error_type for error in result.errors}) == (False, {ErrorType.STRUCTURE_ERROR})


@pytest.mark.parametrize("name", ["missing.json", ".", "a\0b.json"], ids=["missing", "folder", "nul"])
def test_a_file_that_cannot_be_opened_is_a_structure_error(name: str, tmp_path: Path) -> None:
    result = AgentDataValidator().validate_file(tmp_path / name)
    assert errors_of(result) == [(ErrorType.STRUCTURE_ERROR, None, None)]


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_file_has_the_errors_that_a_report_lists(path: Path) -> None:
    report = validate(path, "conversation_v1")
    result = AgentDataValidator().validate_file(path)
    errors = [issue for issue in report.issues if issue.severity == "error"]
    assert sorted(error.error_type.value for error in result.errors) == sorted(str(issue.error_type) for issue in errors)
    assert sorted(error.message for error in result.errors) == sorted(issue.message for issue in errors)
    assert len(result.warnings) == len(report.warnings)
    assert (result.is_valid, result.total_turns) == (report.is_valid, report.counts.total_records)


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(UsageProblem, match="turns"):
        AgentDataValidator(ValidationConfig(min_turns=3, max_turns=2))


def test_the_example_files_are_what_they_are_called(tmp_path: Path) -> None:
    create_example_files(tmp_path)
    validator = AgentDataValidator()
    assert validator.validate_file(tmp_path / "valid_example.json").is_valid
    kinds = {error.error_type for error in validator.validate_file(tmp_path / "invalid_example.json").errors}
    assert len(kinds) > 3


def test_a_number_that_only_yaml_has_is_an_issue_or_keeps_the_cases_readable() -> None:
    """`.nan` and `.inf` are YAML, not JSON; a case with one could not be hashed or stored."""
    report = validate(b"- {turn_id: 1, speaker: user, message: hi, metadata: {load: .nan}}\n", "conversation_v1")
    assert len(list(report.cases)) == (1 if report.is_valid else 0)


def test_what_nests_too_deeply_is_reported() -> None:
    nested = b'[{"turn_id":1,"speaker":"user","message":"m","metadata":{"a":' + b"[" * 900 + b"]" * 900 + b"}}]"
    assert [issue.code for issue in validate(nested, "conversation_v1").issues] == ["invalid_json"]


def test_a_broken_line_is_one_error() -> None:
    content = json.dumps(USER).encode() + b"\n{oops\n" + json.dumps({**REPLY, "turn_id": 3}).encode()
    report = validate(content, "conversation_v1")
    assert [(issue.path, issue.line) for issue in report.issues] == [("[1]", 2)]


def test_each_conversation_of_a_file_is_a_case(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(json.dumps(talk) for talk in ([USER, REPLY], [{**USER, "speaker": "x"}], [USER])), encoding="utf-8")
    report = validate(path)
    assert [(case.id, case.index, len(case.turns), case.dataset) for case in report.cases] == [
        ("conversation-1", 0, 2, "talks"),
        ("conversation-3", 2, 1, "talks"),
    ]
    assert [(issue.conversation, issue.index, issue.path, issue.line) for issue in report.record_errors] == [
        (1, 0, "[1][0].speaker", 2)
    ]


def test_a_case_holds_turns_and_messages() -> None:
    [case] = validate([USER, {**REPLY, **TOOL, "confidence_score": 0.5}]).cases
    assert (case.prompt, case.task, [message.role for message in case.messages]) == (
        "Is it open?",
        "conversation",
        ["user", "assistant"],
    )
    assert (case.turns[1].tool_used, case.turns[1].tool_input, case.turns[1].confidence_score) == ("hours", {"day": "today"}, 0.5)


@pytest.mark.parametrize(("field", "other"), [("message", "assistant_reply"), ("assistant_reply", "message")])
@pytest.mark.parametrize("text", ["", "x" * 5001])
def test_the_length_of_a_text_binds_the_speaker_whose_field_it_is(field: str, other: str, text: str) -> None:
    speaker = {"message": "user", "assistant_reply": "assistant"}[field]
    report = validate([{"turn_id": 1, "speaker": speaker, field: "Good morning", other: text}])
    assert (report.is_valid, [(issue.severity, issue.path) for issue in report.issues]) == (True, [("warning", f"[0].{other}")])


def test_what_a_turn_says_is_the_field_of_its_speaker() -> None:
    turns = [{**USER, "assistant_reply": "a draft"}, {**REPLY, "message": "a note"}]
    [case] = validate(turns).cases
    assert case.prompt == USER["message"]
    assert [(message.role, message.content) for message in case.messages] == [
        ("user", USER["message"]),
        ("assistant", REPLY["assistant_reply"]),
    ]


def test_an_assistant_with_nothing_to_say_does_not_speak_for_the_user() -> None:
    config = ValidationConfig(allow_empty_messages=True)
    [case] = validate([USER, {**REPLY, "assistant_reply": "", "message": "a note"}], config=config).cases
    assert [message.role for message in case.messages] == ["user"]


@pytest.mark.parametrize(
    "changes",
    [
        {"speaker": "robot"},
        {"message": ""},
        {"message": "x" * 5001},
        {"message": " "},
        {"assistant_reply": "x"},
        {"tool_used": "hours", "tool_input": {}, "tool_output": 1},
        {"speaker": "assistant", "assistant_reply": "Yes.", "tool_input": {}},
        {"confidence_score": 2},
        {"turn_id": 0},
        {"mood": "good"},
    ],
)
def test_what_is_odd_or_out_of_bounds_comes_with_what_to_do(changes: dict[str, Any]) -> None:
    issues = validate([{**USER, **changes}], "conversation_v1").issues
    assert issues
    assert all(issue.hint for issue in issues)


def test_an_id_that_was_used_names_the_turn_that_has_it() -> None:
    turns = [USER, {**REPLY, "turn_id": 2}, {**USER, "turn_id": 1}]
    [issue] = validate(turns).issues
    assert (issue.path, issue.message) == ("[2].turn_id", "turn_id 1 was used before, by [0]")


@pytest.mark.parametrize("content", [b"", b" \n\t ", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r\n"])
@pytest.mark.parametrize("name", ["", "talk.json", "talk.yaml", "talk.jsonl"])
def test_a_file_with_nothing_in_it_is_empty_whatever_its_name(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    if name:
        path.write_bytes(content)
    [issue] = validate(path if name else content, "conversation_v1").issues
    assert (issue.name, issue.path, issue.hint) == ("Empty data", "", "write a list of turns")


def test_a_required_field_that_is_listed_twice_is_missing_once() -> None:
    result = checked(USER, required_fields=["turn_id", "speaker", "timestamp", "timestamp"])
    assert errors_of(result) == [(ErrorType.REQUIRED_FIELD_MISSING, 1, "timestamp")]


@pytest.mark.parametrize("field", ["turn_id", "speaker", "message", "tool_used", "metadata"])
def test_a_number_that_only_yaml_has_is_one_error_where_none_is_expected(field: str) -> None:
    turn = {"turn_id": "1", "speaker": "user", "message": "hi", "tool_input": "{}", "tool_output": "1"} | {field: ".nan"}
    text = "- {" + ", ".join(f"{name}: {value}" for name, value in turn.items()) + "}\n"
    assert [issue.name for issue in validate(text.encode(), "conversation_v1").record_errors] == [f"Invalid {field} type"]


@pytest.mark.parametrize(("turns", "outcome"), [(1, "accepted_with_record_errors"), (0, "rejected")])
def test_a_file_is_rejected_when_no_turn_is_good(turns: int, outcome: str) -> None:
    bad = [{**USER, "turn_id": number, "speaker": "x"} for number in range(1 + turns, 4)]
    report = validate([USER][:turns] + bad)
    assert (report.outcome, report.counts.rejected_records) == (outcome, 3 - turns)
