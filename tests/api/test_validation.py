"""The door: what `assay.validate`, `assay.stream` and `assay.api` take, give and refuse."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import Case, Issue, SourceUnreadable, UsageProblem, ValidationConfig, stream, validate
from assay.api import find_sources, fix, load_config

RECORD: dict[str, Any] = {"record_id": "r", "input": {"prompt": "p"}}
BATCH: dict[str, Any] = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [RECORD]}
ROW: dict[str, Any] = {
    "schema_version": "legal_eval_v1",
    "id": "a",
    "dataset": "d",
    "task_type": "reference_qa",
    "prompt": "p",
    "reference_answers": ["x"],
}
GOLDEN: dict[str, Any] = {
    "version": "1.0.0",
    "cases": [{"id": f"c-{number}", "user_prompt": "p", "rubric": "Names the city."} for number in range(5)],
}
TURNS: list[dict[str, Any]] = [{"turn_id": 1, "speaker": "user", "message": "hi"}]

Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes a value as a file of that name."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
        return path

    return write


@pytest.mark.parametrize(
    ("value", "contract"),
    [
        (BATCH, "batch_v1"),
        (ROW, "legal_eval_v1"),
        ([ROW, {**ROW, "id": "b"}], "legal_eval_v1"),
        (GOLDEN, "golden_v1"),
        (TURNS, "conversation_v1"),
    ],
    ids=["document", "row", "rows", "golden", "turns"],
)
def test_a_python_object_is_validated_like_its_file(value: Any, contract: str) -> None:
    for name in ("auto", contract):
        report = validate(value, name)
        assert (report.path, report.contract, report.outcome, report.issues) == ("<object>", contract, "accepted", ())


def test_issues_of_an_object_have_paths_but_no_lines() -> None:
    report = validate({**BATCH, "records": [RECORD, {"record_id": "x", "input": {}}]})
    [issue] = report.issues
    assert (issue.path, issue.index, issue.line, issue.column, issue.excerpt) == ("records[1].input.prompt", 1, None, None, "")


def test_an_object_gives_the_cases_of_its_file(put: Put) -> None:
    from_object, from_file = validate(BATCH), validate(put("a.json", BATCH))
    assert list(from_object.cases) == list(from_file.cases)


@pytest.mark.parametrize("value", [{"a": {1, 2}}, [object()], {(1, 2): 3}, {"a": b"bytes"}], ids=["set", "object", "key", "bytes"])
def test_an_object_that_is_no_json_is_a_usage_problem(value: Any) -> None:
    with pytest.raises(UsageProblem, match="not JSON"):
        validate(value)


def test_an_object_that_contains_itself_is_a_usage_problem() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageProblem, match="not JSON"):
        validate(loop)


def test_nan_in_an_object_is_an_issue() -> None:
    report = validate([{**TURNS[0], "confidence_score": float("nan")}], "conversation_v1")
    assert not report.is_valid


def test_a_path_may_be_text_or_a_path(put: Put) -> None:
    path = put("a.json", GOLDEN)
    assert validate(path).to_dict() == validate(str(path)).to_dict()


@pytest.mark.parametrize("content", [b"", b" \n\n\t", b"\xef\xbb\xbf\n"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    (issue,) = assay.validate(tmp_path / "data.jsonl").issues
    assert (issue.code, issue.message, issue.hint) == ("unknown_contract", "the file is empty", "a dataset has at least one record")


def test_an_unknown_contract_names_the_nearest_one() -> None:
    with pytest.raises(UsageProblem, match="unknown contract 'batch_v2'") as caught:
        validate(b"{}", "batch_v2")
    assert caught.value.hint == "did you mean 'batch_v1'?"


def test_content_of_no_contract_is_rejected_with_what_was_tried() -> None:
    report = validate(b'{"hello": "world"}')
    [issue] = report.issues
    assert (report.contract, report.outcome, issue.code) == (None, "rejected", "unknown_contract")
    assert all(contract in issue.message for contract in ("batch_v1", "golden_v1", "legal_eval_v1", "conversation_v1"))
    assert list(report.cases) == []


def test_a_forced_contract_says_what_is_missing() -> None:
    report = validate(b'{"hello": "world"}', "golden_v1")
    assert {issue.path for issue in report.dataset_errors} == {"version", "cases"}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ValidationConfig(min_turns=5, max_turns=2), "turns"),
        (ValidationConfig(min_message_length=-1), "negative"),
        (ValidationConfig(max_turns="many"), "max_turns"),  # type: ignore[arg-type]
        (ValidationConfig(allowed_speakers=[]), "allowed_speakers"),
        (ValidationConfig(confidence_score_min=2.0), "confidence_score"),
        (ValidationConfig(confidence_score_max=float("nan")), "confidence_score"),
        (ValidationConfig(max_turns=10**400), "turns"),
        (ValidationConfig(nfc="maybe"), "nfc"),  # type: ignore[arg-type]
    ],
    ids=["crossed", "negative", "type", "no-speakers", "score", "nan", "huge", "word"],
)
def test_settings_that_cannot_work_are_a_usage_problem(config: ValidationConfig, message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        validate(TURNS, config=config)


def test_strict_turns_odd_habits_into_errors() -> None:
    turns = [{**TURNS[0], "mood": "calm"}]
    assert validate(turns).is_valid
    assert not validate(turns, strict=True).is_valid


def test_progress_is_told_and_ends_at_the_whole(put: Put) -> None:
    seen: list[tuple[int, int]] = []
    rows = b"\n".join(json.dumps({**ROW, "id": str(number), "context": "x" * 2000}).encode() for number in range(1000))
    validate(put("rows.jsonl", rows), progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == (len(rows), len(rows))


def test_a_report_reads_its_cases_each_time_anew() -> None:
    report = validate(b"\n".join(json.dumps({**ROW, "id": name}).encode() for name in "abc"))
    assert [case.id for case in report.cases] == ["a", "b", "c"]
    assert [case.id for case in report.cases] == ["a", "b", "c"]


def test_the_cases_of_a_batch_keep_everything_of_their_records() -> None:
    full = {
        "record_id": "full",
        "input": {"prompt": "p", "locale": "en"},
        "reference": {"answer": "a", "pages": [1]},
        "tags": ["x"],
        "expected": {"max_latency_ms": 5, "required_criteria": ["accuracy", "accuracy"]},
        "metadata": {"k": 1},
    }
    [case] = validate({**BATCH, "records": [full]}).cases
    assert (case.id, case.index, case.contract, case.dataset, case.task) == ("full", 0, "batch_v1", "d", "open")
    assert (case.prompt, case.references, case.tags, case.max_latency_ms) == ("p", ("a",), ("x",), 5)
    assert [criterion.id for criterion in case.criteria] == ["accuracy"]
    assert case.metadata == {"k": 1}
    assert case.extra == {"input": {"locale": "en"}, "reference": {"pages": [1]}, "required_criteria": ["accuracy", "accuracy"]}


def test_the_cases_of_a_batch_are_normalised() -> None:
    [case] = validate({**BATCH, "records": [{"record_id": "cafe\u0301", "input": {"prompt": "e\u0301"}}]}).cases
    assert (case.id, case.prompt) == ("caf\u00e9", "\u00e9")


def test_the_cases_of_a_legal_file_keep_their_kind() -> None:
    rubric = {
        **ROW,
        "id": "r",
        "task_type": "rubric_qa",
        "rubric": [{"id": "c", "title": "t", "weight": -2}],
        "context": "ctx",
        "extra": 1,
    }
    choice = {
        **ROW,
        "id": "m",
        "task_type": "mcq",
        "choices": [{"id": "A", "text": "x"}, {"id": "B", "text": "y"}],
        "correct_choice_ids": ["B"],
    }
    del choice["reference_answers"]
    cases = {case.id: case for case in validate([rubric, choice, {**ROW, "messages": None, "metadata": {"policy_id": "p1"}}]).cases}
    assert (cases["r"].task, cases["r"].criteria[0].weight, cases["r"].model_context, cases["r"].extra) == (
        "rubric",
        -2.0,
        "ctx",
        {"extra": 1},
    )
    assert (cases["m"].task, cases["m"].correct_choice_ids) == ("mcq", ("B",))
    assert (cases["a"].task, cases["a"].messages, cases["a"].policy_id) == ("reference", (), "p1")


def test_the_cases_of_a_golden_dataset_keep_notes_from_models() -> None:
    document = {**GOLDEN, "cases": [{**GOLDEN["cases"][0], "context": "for people"}, *GOLDEN["cases"][1:]]}
    first = next(iter(validate(document).cases))
    assert (first.notes, first.model_context, first.criteria[0].title) == ("for people", "", "Names the city.")


def test_a_rejected_golden_dataset_has_no_cases() -> None:
    assert list(validate({**GOLDEN, "version": "1"}).cases) == []


def test_a_file_over_several_lines_that_is_no_jsonl_has_no_cases() -> None:
    report = validate(b'[\n{"task_type": "mcq"},\n{"task_type": "mcq"}\n]\n', "legal_eval_v1")
    assert (report.outcome, list(report.cases)) == ("rejected", [])


def test_a_byte_order_mark_in_the_middle_of_a_file_is_reported_or_read() -> None:
    """Two files with marks, one after the other."""
    line = b"\xef\xbb\xbf" + json.dumps(ROW).encode()
    report = validate(line + b"\n" + line.replace(b'"a"', b'"b"') + b"\n", "legal_eval_v1")
    assert len(list(report.cases)) == report.counts.accepted_records


@pytest.mark.parametrize("weight", [10**400, -(10**4000)], ids=["large", "negative"])
def test_a_weight_that_no_float_holds_is_out_of_range(weight: int) -> None:
    row = {**ROW, "task_type": "rubric_qa", "rubric": [{"id": "c", "title": "t", "weight": weight}]}
    report = validate(json.dumps(row).encode(), "legal_eval_v1")
    assert [(issue.code, issue.path) for issue in report.record_errors] == [("value_out_of_range", "rubric[0].weight")]


def test_a_report_can_be_written_as_json() -> None:
    shown = validate({**BATCH, "records": [RECORD, {**RECORD, "x": 1}]}).to_dict()
    sent = ["candidate_and_judge", "judge_only", "not_sent"]
    assert list(shown) == ["path", "contract", "outcome", "summary", *sent, "dataset_errors", "record_errors", "warnings"]
    assert list(shown["record_errors"][0]) == [
        *("index", "record_id", "code", "message", "path", "severity", "line", "column", "hint"),
    ]
    assert json.loads(json.dumps(shown)) == shown


def test_the_first_dataset_error_of_a_rejected_batch_says_what_a_service_answers() -> None:
    shown = validate(b'{"records": []}').to_dict()
    assert (shown["dataset_errors"][0]["http_status"], shown["dataset_errors"][0]["error_code"]) == (400, "invalid_request")


# Streaming


def test_a_stream_gives_cases_and_issues_in_the_order_of_a_legal_file() -> None:
    rows = [ROW, {**ROW, "id": "b", "prompt": 1}, {**ROW, "id": "c"}]
    found = list(stream(b"\n".join(json.dumps(row).encode() for row in rows)))
    assert [case.id for case in found if isinstance(case, Case)] == ["a", "c"]
    assert [issue.path for issue in found if isinstance(issue, Issue)] == ["prompt"]


@pytest.mark.parametrize(
    "content",
    [
        b"\n".join(json.dumps(row).encode() for row in (ROW, ROW, {**ROW, "id": "b", "x": 1}, {"id": 5})),
        b"{broken\n" + json.dumps(ROW).encode(),
        b"[\n" + json.dumps(ROW).encode() + b"\n]",
        b"",
        b"\xff\n",
        json.dumps(BATCH).encode(),
        json.dumps({**BATCH, "records": [{}, RECORD, RECORD]}).encode(),
        json.dumps(GOLDEN).encode(),
        json.dumps(TURNS * 2).encode(),
        b"{}",
    ],
    ids=range(10),
)
def test_a_stream_finds_what_a_report_finds(content: bytes) -> None:
    contract = "legal_eval_v1" if validate(content).contract is None else "auto"
    report, found = validate(content, contract), list(stream(content, contract))
    issues = [issue for issue in found if isinstance(issue, Issue)]
    assert sorted(map(repr, issues)) == sorted(map(repr, report.issues))
    assert [case for case in found if isinstance(case, Case)] == list(report.cases)


def test_a_stream_begins_before_the_end_of_its_source(put: Put) -> None:
    rows = b"\n".join(json.dumps({**ROW, "id": str(number), "context": "x" * 5000}).encode() for number in range(2000))
    first = next(stream(put("rows.jsonl", rows)))
    assert isinstance(first, Case)
    assert first.id == "0"


def test_a_stream_takes_objects_and_settings() -> None:
    config = ValidationConfig(null_as_absent=True)
    assert [type(found) for found in stream([{**ROW, "choices": None}], config=config)] == [Case]


# Finding sources


def test_paths_globs_and_folders_are_expanded_in_order_without_repeats(put: Put, tmp_path: Path) -> None:
    files = [str(put(name, TURNS)) for name in ("a/1.json", "a/2.json", "b.json")]
    found = find_sources([files[2], str(tmp_path / "a" / "*.json"), str(tmp_path / "a"), files[0], "-"])
    assert found == (files[2], files[0], files[1], "-")


def test_a_folder_gives_the_datasets_at_any_depth(put: Put, tmp_path: Path) -> None:
    wanted = [
        put("x/deep/er/a.jsonl", ROW),
        put("b.JSON", GOLDEN),
        put("c.yml", b"- turn_id: 1\n"),
        put("d.json.gz", gzip.compress(b'{"cases":[]}')),
    ]
    put("readme.md", b"# turn_id: 1")
    put("e.json", b'{"name": "a package"}')
    skipped: list[str] = []
    assert set(find_sources([str(tmp_path)], on_skip=skipped.append)) == {str(path) for path in wanted}
    assert skipped == [str(tmp_path / "e.json")]


def test_a_recursive_glob_finds_all_files(put: Put, tmp_path: Path) -> None:
    paths = [put("a.json", TURNS), put("b/c/d.json", TURNS)]
    assert find_sources([str(tmp_path / "**" / "*.json")]) == tuple(map(str, paths))


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(put: Put) -> None:
    path = str(put("a[1].json", TURNS))
    assert find_sources([path]) == (path,)


@pytest.mark.parametrize(
    ("pattern", "error", "message"),
    [
        ("*.json", UsageProblem, "no file matches"),
        ("missing.json", SourceUnreadable, "no such file"),
        ("", UsageProblem, "no datasets in folder"),
    ],
)
def test_what_is_not_there_is_named(pattern: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=message):
        find_sources([str(tmp_path / pattern)])


def test_a_mistyped_name_gets_the_nearest_one(put: Put, tmp_path: Path) -> None:
    put("dataset.json", TURNS)
    with pytest.raises(SourceUnreadable) as caught:
        find_sources([str(tmp_path / "datset.json")])
    assert caught.value.hint == f"did you mean {str(tmp_path / 'dataset.json')!r}?"


# Settings


def test_a_config_file_may_be_flat_or_nested(put: Put) -> None:
    flat = put("flat.yaml", b"allowed_tools: [a]\nrequire_tool_input: false\nconfidence_score_max: 5\nmax_turns: 3\n")
    nested = put("nested.yaml", b"tools: {allowed_tools: [a], require_tool_input: no way}\n")
    assert load_config(flat) == ValidationConfig(
        allowed_tools=["a"], require_tool_input=False, confidence_score_max=5.0, max_turns=3
    )
    with pytest.raises(UsageProblem, match="require_tool_input"):
        load_config(nested)


def test_nested_groups_mean_the_flat_settings(put: Put) -> None:
    path = put(
        "c.yaml",
        b"tools:\n  allowed_tools: [a, b]\n  require_tool_output: false\nconfidence_score:\n  min_value: -1\n  max_value: 10\n",
    )
    expected = ValidationConfig(
        allowed_tools=["a", "b"], require_tool_output=False, confidence_score_min=-1.0, confidence_score_max=10.0
    )
    assert load_config(path) == expected


@pytest.mark.parametrize("content", [b"", b"{}", b"# nothing\n"])
def test_an_empty_config_file_is_the_defaults(content: bytes, put: Put) -> None:
    assert load_config(put("c.yaml", content)) == ValidationConfig()


def test_a_config_file_may_be_json(put: Put) -> None:
    assert load_config(put("c.json", {"max_turns": 7})).max_turns == 7


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"max_turn: 3\n", r"unknown key 'max_turn' \(did you mean 'max_turns'\?\)"),
        (b"tools: {allowed: []}\n", r"unknown key 'tools.allowed' \(did you mean 'allowed_tools'\?\)"),
        (b"tools: {qqq: 1}\nzzz: 2\n", "unknown key 'tools.qqq'; unknown key 'zzz'"),
        (b"max_turns: three\n", "max_turns"),
        (b"max_turns: 1\nmax_turns: 2\n", "line 2"),
        (b"- a\n", "mapping"),
        (b"a: [\n", "line"),
        (b"min_turns: 5\nmax_turns: 1\n", "turns"),
        (b"tools: 5\n", "unknown key 'tools'"),
    ],
)
def test_a_bad_config_file_is_a_usage_problem_that_says_where(content: bytes, message: str, put: Put) -> None:
    with pytest.raises(UsageProblem, match=message):
        load_config(put("c.yaml", content))


def test_a_config_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable):
        load_config(tmp_path / "none.yaml")


# Fixing


def test_fix_never_touches_its_source(put: Put) -> None:
    path = put("a.json", b"\xef\xbb\xbf" + json.dumps(TURNS).encode())
    before = path.read_bytes()
    with pytest.raises(UsageProblem, match="overwrite"):
        fix(path, path)
    assert path.read_bytes() == before


def test_fix_needs_a_contract(put: Put, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="no contract"):
        fix(put("a.json", {"x": 1}), tmp_path / "b.json")


def test_fix_says_where_it_cannot_write(put: Put, tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot write"):
        fix(put("a.json", TURNS), tmp_path / "no" / "folder" / "b.json")


# The package


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in assay.__all__ if getattr(assay, name, None) is None] == []


@pytest.mark.parametrize(("before", "now"), [("Ask", "ModelRequest"), ("Report", "ValidationReport")])
def test_a_public_name_from_before_still_works_and_warns(before: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"assay.{now}"):
        assert getattr(assay, before) is getattr(assay, now)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = assay.no_such_name
