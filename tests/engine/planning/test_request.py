import re
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from assay.core.checks import Check
from assay.core.settings import RunFile
from assay.engine.planning.request import is_run_file, issue_of, load_run_file, run_file_schema
from docs.generated import generated

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "src" / "assay" / "schemas" / "run_file.schema.json"
PAGE = ROOT / "docs" / "reference" / "run-file.md"

WHOLE = """
datasets:
  - {name: law, path: law.jsonl, contract: legal_eval_v1, split_field: split, split_value: test, limit: 50}
  - {path: off.jsonl, enabled: false}
  - plain.json
candidates:
  - {name: big, provider: house, model: org/big, temperature: 0.5, top_p: 0.9, frequency_penalty: 1, presence_penalty: -1,
     max_tokens: 512, seed: 7, reasoning_effort: low, thinking_budget: 1024, extra_body: {top_k: 5}}
  - openai/gpt-4.1
judges: [{model: "anthropic:claude", temperature: null}]
providers:
  - {name: house, kind: openai, base_url: "http://localhost:8000/v1", api_key_env: HOUSE_KEY, timeout: 30, rpm: 600, tpm: 90000,
     headers: {X-Team: law}}
run: {id: nightly, root: out, system_prompt: Be brief., response_source: prefilled, responses: answers.jsonl, pass_threshold: 0.6,
      case_pass_score: 3, concurrency: 8, generation: {workers: 4, rpm: 60}, judging: {concurrency: 2}, keep_raw: true}
retry: {attempts: 4, base_delay: 1, max_delay: 20}
cache: {enabled: true, folder: cache}
thresholds: {pass_rate: 0.8, min_score: 0.7, max_error_rate: 0.05}
max_cost: 2.5
redact: [{name: employee, pattern: "EMP-[0-9]+"}]
on_invalid: skip
limit: 100
sample: 20
seed: 3
slices: [tags, language]
cluster_key: document
"""


def written(folder: Path, text: str, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def complaints(folder: Path, text: str) -> list[str]:
    loaded = load_run_file(written(folder, text))
    issues = [issue_of(loaded, finding) for finding in loaded.findings]
    return [f"{issue.line}:{issue.column}: {issue.message}" + (f" ({issue.hint})" if issue.hint else "") for issue in issues]


def sections(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    definitions: dict[str, dict[str, Any]] = schema["$defs"]
    return {name: definition["properties"] for name, definition in definitions.items()}


def test_every_word_of_a_run_file_is_understood(tmp_path: Path) -> None:
    loaded = load_run_file(written(tmp_path, WHOLE))
    run = msgspec.convert(loaded.members, RunFile)
    assert list(loaded.findings) == []
    assert (run.providers[0].key_variable, run.providers[0].requests_per_minute, run.providers[0].tokens_per_minute) == (
        "HOUSE_KEY",
        600,
        90000,
    )
    assert (run.run.runs_dir, run.run.generation.concurrency, run.retry.max_attempts, run.gates.pass_rate) == ("out", 4, 4, 0.8)


def test_a_run_file_may_be_json(tmp_path: Path) -> None:
    loaded = load_run_file(written(tmp_path, '{"datasets": ["a.jsonl"], "candidates": ["openai/x"]}', "run.json"))
    assert (loaded.members, list(loaded.findings)) == ({"datasets": ["a.jsonl"], "candidates": ["openai/x"]}, [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("datsets: [a.jsonl]", "1:1: unknown key 'datsets' (did you mean 'datasets'?)"),
        ("limit: 3\nrun:\n  concurency: 4", "3:3: unknown key 'concurency' (did you mean 'concurrency'?)"),
        ("run: {concurrency: 10001}", "1:20: run.concurrency must be an integer from 1 to 10,000, not 10001"),
        ("candidates: [{model: a/b, temperature: 2.5}]", "1:40: candidates[0].temperature must be a number from 0 to 2, not 2.5"),
        ("gates: {pass_rate: -0.1}", "1:20: gates.pass_rate must be a number from 0 to 1, not -0.1"),
        ("limit: ten", "1:8: limit must be an integer from 1 on, not a string"),
        ("limit: true", "1:8: limit must be an integer from 1 on, not a boolean"),
        ("limit: 0", "1:8: limit must be an integer from 1 on, not 0"),
        ("datasets: a.jsonl", "1:11: datasets must be an array, not a string (put it into a list, also where it is the only one)"),
        ("datasets: [{name: x}]", "1:12: datasets[0].path is required"),
        ("on_invalid: ignore", "1:13: on_invalid is 'ignore'; allowed: reject, skip"),
        ("run: {root: a, runs_dir: b}", "1:7: 'root' is the older name of 'runs_dir'; keep one"),
        ("budget: {max_cost: 1}", "1:1: 'budget' cannot be set here (write max_cost at the top of the file)"),
        (
            "limit: 1\nlimit: 2",
            "2:1: the name 'limit' appears twice in one mapping (keep one of the two; readers disagree on which one counts)",
        ),
        ("- a", "1:1: the document must be an object, not an array"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    assert complaints(tmp_path, text) == [complaint]


def test_all_problems_of_a_run_file_are_told_at_once(tmp_path: Path) -> None:
    text = "limmit: 3\ncandidates: [7, {modl: x}]\ngates: {min_score: -9}\nseed: x\n"
    assert [complaint.partition(" ")[0] for complaint in complaints(tmp_path, text)] == [
        "1:1:",
        "2:14:",
        "2:18:",
        "2:17:",
        "3:20:",
        "4:7:",
    ]


def test_broken_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    assert complaints(tmp_path, "datasets: [a\nrun: {")[0].startswith("2:4: ")


@pytest.mark.parametrize(
    "text",
    [
        "providers: [{name: x, api_key: sk-secret123456}]",
        "providers: [{name: x, key_variable: sk-secret123456}]",
        "providers: [{name: x, headers: {Authorization: Bearer sk-secret123456}}]",
        "providers: [{name: x, headers: {X-Anything: sk-secret123456}}]",
        "providers: [{name: x, base_url: 'https://me:sk-secret123456@host/v1'}]",
        "candidates: [{model: a/b, api_key: sk-secret123456}]",
        "candidates: [{model: a/b, extra_body: {api_key: sk-secret123456}}]",
    ],
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    found = complaints(tmp_path, text)
    assert len(found) == 1
    assert "secret123456" not in found[0]


def test_a_header_may_name_the_variable_that_holds_a_key(tmp_path: Path) -> None:
    assert complaints(tmp_path, "providers: [{name: x, headers: {Authorization: $TEAM_KEY}}]") == []


def test_null_leaves_the_temperature_to_the_provider(tmp_path: Path) -> None:
    loaded = load_run_file(written(tmp_path, "judges: [{model: a/b, temperature: null}]"))
    assert (loaded.members["judges"][0]["temperature"], list(loaded.findings)) == (None, [])


@pytest.mark.parametrize(
    ("name", "text", "verdict"),
    [
        ("run.yaml", "datasets: [a.jsonl]\n", True),
        ("run.json", '{\n "candidates": ["a/b"]}', True),
        ("run.json", '{"candidates": ["a/b"], "datasets": ["d"]}', True),
        ("golden.json", '{"version": "1.0.0", "cases": []}', False),
        ("turns.yaml", "- turn_id: 1\n  speaker: user\n", False),
        ("rows.jsonl", '{"task_type": "mcq", "id": "a"}\n', False),
    ],
)
def test_run_files_are_told_from_datasets(tmp_path: Path, name: str, text: str, *, verdict: bool) -> None:
    assert is_run_file(written(tmp_path, text, name)) is verdict


@pytest.mark.parametrize(("path", "text"), generated().items(), ids=lambda value: getattr(value, "name", ""))
def test_the_schema_and_the_tables_of_its_page_are_those_of_the_code(path: Path, text: str) -> None:
    is_same = path.read_text(encoding="utf-8") == text
    assert is_same, f"{path.name} is not what the code says: run `make schema` and commit what it writes"


def test_the_schema_accepts_what_the_reader_accepts(tmp_path: Path) -> None:
    document = load_run_file(written(tmp_path, WHOLE)).document
    import_module("jsonschema").Draft202012Validator.check_schema(run_file_schema())
    assert refusals(document.value) == []


@pytest.mark.parametrize("text", ["datsets: []", "limit: 0", "run: {concurrency: 0}", "candidates: [{temperature: 1}]"])
def test_the_schema_refuses_what_the_reader_refuses(tmp_path: Path, text: str) -> None:
    loaded = load_run_file(written(tmp_path, text))
    assert loaded.findings
    assert refusals(loaded.document.value) != []


def refusals(document: Any) -> list[Any]:
    """What the schema has against a run file."""
    return list(import_module("jsonschema").Draft202012Validator(run_file_schema()).iter_errors(document))


def test_every_key_of_the_schema_has_a_description() -> None:
    keys = [(name, key, member) for name, properties in sections(run_file_schema()).items() for key, member in properties.items()]
    assert [(name, key) for name, key, member in keys if not member.get("description")] == []


def test_the_reference_page_has_a_table_of_every_section() -> None:
    tables = re.findall(r"<!-- keys of (\w+) -->", PAGE.read_text(encoding="utf-8"))
    # The types of checks are rows of a table on their own page.
    types = {kind.__name__ for kind in get_args(Check)}
    assert sorted(tables) == sorted({*run_file_schema()["$defs"]} - types)


def test_custom_redaction_rules_are_read(tmp_path: Path) -> None:
    loaded = load_run_file(written(tmp_path, "redact: [{name: employee, pattern: 'EMP-\\d+'}]"))
    assert not list(loaded.findings)
    assert msgspec.convert(loaded.members, RunFile).redact[0].pattern == r"EMP-\d+"


def test_every_bad_redaction_rule_is_reported_where_it_is_with_the_other_problems(tmp_path: Path) -> None:
    text = """limitt: 3
redact:
  - {name: employee, pattern: 'EMP-\\d+'}
  - {name: open, pattern: '(x'}
  - {name: employee, pattern: 'y'}
  - {name: email, pattern: 'z'}
  - {name: all, pattern: '.*'}
  - {name: Upper Case, pattern: 'x'}
  - {name: half}
"""
    found = complaints(tmp_path, text)
    assert [complaint.split(": ")[0] for complaint in sorted(found, key=lambda complaint: int(complaint.split(":")[0]))] == [
        "1:1",
        "4:27",
        "5:12",
        "6:12",
        "7:26",
        "8:12",
        "9:5",
    ]
    assert any("missing ): (x" in complaint for complaint in found)
    assert any("two rules have the name 'employee'" in complaint for complaint in found)
    assert any("'email' is the name of a built-in rule" in complaint for complaint in found)
    assert any("matches the empty text" in complaint for complaint in found)
