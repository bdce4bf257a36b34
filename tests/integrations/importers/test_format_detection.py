"""The tool that wrote a file is known by the file's content; nothing is claimed without evidence, and two fits are a question."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest

from assay.core.errors import SourceUnreadable, UsageProblem
from assay.datasets.imports.items import ImportSource
from assay.integrations.importers.format_detection import detect_format
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("log.json", '{"version": 2, "eval": {}}', "inspect"),
        ("samples.jsonl", '{"doc_id": 0, "doc": {}}\n{"doc_id": 1, "doc": {}}\n', "lm-eval"),
        ("results.json", '{\n "evalId": "eval-1"\n}', "promptfoo"),
        ("promptfooconfig.yaml", "prompts: [hi]\n", "promptfoo"),
        ("any.yaml", "# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json\nprompts: [hi]\n", "promptfoo"),
        ("any.yaml", "prompts: [hi]\nproviders: [echo]\n", "promptfoo"),
        ("output.json", '{"version": 1, "results": [], "stats": {}, "table": {}}', "promptfoo"),
        ("output.json", '{"id": "e", "results": {"version": 3, "results": []}}', "promptfoo"),
        ("registry.yml", "my-eval.dev.v0:\n  class: evals.elsuite.basic.match:Match\n", "openai-evals"),
        ("registry.yml", "my-eval.dev.v0:\n  args: {samples_jsonl: my/samples.jsonl}\n", "openai-evals"),
        ("samples.csv", "input;target;id\n2+2?;4;1\n", "inspect-samples"),
        ("samples.json", '[\n{"input": "2+2?"}, {"input": "3+3?", "target": "6"}]', "inspect-samples"),
        ("samples.jsonl", '{"input": [], "ideal": "4"}\n', "openai-evals"),
        ("output.jsonl", '{"custom_id": "a", "response": {}}\n', "openai-batch"),
        ("goldens.json", '[{"input": "2+2?", "expected_output": "4"}]', "deepeval"),
        ("goldens.csv", "input,expected_output\n2+2?,4\n", "deepeval"),
    ],
)
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_a_file_is_known_by_its_members_packed_or_not(name: str, content: str, form: str, *, is_packed: bool) -> None:
    data = content.encode()
    path = Path(f"{name}.gz" if is_packed else name)
    path.write_bytes(gzip.compress(data) if is_packed else data)
    assert detect_format([ImportSource(str(path))]).format == form


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("faq.csv", "No.,Question,Expected Answer\n1,Open?,Yes\n", "has columns Expected Answer, No., Question"),
        ("plain.csv", "input,output\na,b\n", "has columns input, output"),
        ("notes.yaml", "name: s\ncases: []\n", "has members cases, name"),
        ("list.yaml", "- a\n- b\n", "has no members or columns that can be read"),
        ("prompts.yaml", "prompts: [hi]\n", "has members prompts"),
        ("tests.yaml", "- {vars: {a: x}, assert: []}\n", "has tests of promptfoo without prompts"),
        ("tests.csv", "word,__expected\na,b\n", "has tests of promptfoo without prompts"),
        ("config.js", "module.exports = {prompts: [], tests: []}\n", "is a program, which assay does not run"),
        ("few.jsonl", '{"sample": [{"role": "user", "content": "hi"}]}\n', "has few-shot examples of OpenAI evals"),
        ("export.jsonl", '{"input": "q", "expectedOutput": "a", "sourceTraceId": null}\n', "has members expectedOutput, input"),
        ("turns.json", '{"turns": []}', "has members turns"),
        ("broken.json", '{"input": "q", ', "has no members or columns that can be read"),
        ("empty.jsonl", "", "has no members or columns that can be read"),
    ],
)
def test_nothing_is_claimed_on_thin_evidence_and_the_message_names_what_is_there(name: str, content: str, shown: str) -> None:
    Path(name).write_text(content)
    with pytest.raises(UsageProblem) as caught:
        detect_format([ImportSource(name)])
    assert f"unrecognized format: '{name}' {shown}" in caught.value.message
    assert caught.value.hint


def test_a_table_of_questions_leads_to_the_commands_that_read_it() -> None:
    Path("faq.csv").write_text("Question,Answer\na,b\n")
    refused = assay("import", "faq.csv", "-o", "out.jsonl")
    assert (
        "hint: a table of questions is run by assay run faq.csv, or converted by assay convert table faq.csv -o OUT"
        in refused.stderr
    )
    assert assay("convert", "table", "faq.csv", "-o", "out.jsonl").exit_code == 0


def test_lines_are_recognized_by_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("samples.jsonl").write_text('{"input": "a", "ideal": "b"}\n' * 50_000)
    source = ImportSource("samples.jsonl")
    monkeypatch.setattr(source.opened, "buffer", lambda: pytest.fail("the whole file was read"))
    assert detect_format([source]).format == "openai-evals"


def test_a_workbook_is_not_taken_for_a_log_though_both_are_archives() -> None:
    with zipfile.ZipFile("tests.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(UsageProblem, match=r"'tests\.xlsx' has entries \[Content_Types\]\.xml"):
        detect_format([ImportSource("tests.xlsx")])


def test_the_evidence_is_reported_for_each_file() -> None:
    found = detect_format([ImportSource(str(FIXTURES / name)) for name in ("samples_tiny_chosen.jsonl", "lm_eval_results.json")])
    assert [*found.evidence.values()] == ["members doc_id, doc", "members results, configs"]
    report = json.loads(assay("import", str(FIXTURES / "deepeval_goldens.csv"), "--json").stdout)["report"]
    evidence = "columns input, expected_output, actual_output, retrieval_context"
    assert report["recognized_by"] == {str(FIXTURES / "deepeval_goldens.csv"): evidence}
    assert f"recognized by     {evidence}" in assay("import", str(FIXTURES / "deepeval_goldens.csv")).output


def test_a_file_that_two_formats_fit_is_refused_until_one_is_chosen() -> None:
    Path("both.jsonl").write_text('{"input": "2+2?", "target": "4", "ideal": "4"}\n')
    with pytest.raises(UsageProblem) as caught:
        detect_format([ImportSource("both.jsonl")])
    assert "fits 2 formats: inspect-samples (members input, target) and openai-evals (members input, ideal)" in caught.value.message
    assert caught.value.hint == "choose one: --from inspect-samples|openai-evals"
    assert assay("import", "both.jsonl", "--from", "openai-evals", "-o", "rows.jsonl").exit_code == 0


def test_files_of_different_formats_are_named_with_their_evidence() -> None:
    Path("a.json").write_text('{"version": 2, "eval": {}}')
    Path("b.jsonl").write_text('{"custom_id": "a", "body": {}}')
    with pytest.raises(UsageProblem) as caught:
        detect_format([ImportSource("a.json"), ImportSource("b.jsonl")])
    assert "'a.json' looks like inspect (members eval, version)" in caught.value.message
    assert "'b.jsonl' looks like openai-batch (members custom_id, body)" in caught.value.message


def test_a_file_that_is_not_recognized_stops_the_import_of_the_others() -> None:
    Path("a.json").write_text('{"version": 2, "eval": {}}')
    Path("b.json").write_text('{"something": "else"}')
    with pytest.raises(UsageProblem, match=r"unrecognized format: 'b\.json' has members something"):
        detect_format([ImportSource("a.json"), ImportSource("b.json")])


def test_no_file_has_no_format() -> None:
    with pytest.raises(UsageProblem, match="no file is named"):
        detect_format([])


def test_a_pointer_of_git_lfs_is_named_as_such() -> None:
    oid = "0" * 64
    Path("samples.jsonl").write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n")
    with pytest.raises(SourceUnreadable, match=r"'samples\.jsonl' is a Git LFS pointer: its content \(12,345 bytes\)") as caught:
        ImportSource("samples.jsonl")
    assert caught.value.hint == "git lfs pull --include samples.jsonl"
    assert "is a Git LFS pointer" in assay("validate", "samples.jsonl").output


def test_a_folder_stands_for_the_files_that_one_format_fits() -> None:
    Path("logs/later").mkdir(parents=True)
    for name in ("capitals.eval", "later/letters.eval"):
        Path("logs", name).write_bytes((FIXTURES / Path(name).name).read_bytes())
    Path("logs/notes.yaml").write_text("a: b")
    Path("logs/.hidden.json").write_text("{}")
    result = assay("import", "logs", "-o", "rows.jsonl", "--json")
    report = json.loads(result.stdout)["report"]
    assert [source["source"] for source in report["sources"]] == ["logs/capitals.eval", "logs/later/letters.eval"]
    assert report["left_out"]["file of the folder in no known format"] == 1


def test_a_folder_with_files_of_two_formats_is_a_question() -> None:
    Path("files").mkdir()
    for name in ("capitals.eval", "evals_samples.jsonl"):
        Path("files", name).write_bytes((FIXTURES / name).read_bytes())
    refused = assay("import", "files", "-o", "rows.jsonl")
    assert refused.exit_code == 2
    assert "1 of inspect ('files/capitals.eval' ...), 1 of openai-evals" in refused.output
    chosen = assay("import", "files", "--from", "openai-evals", "-o", "rows.jsonl")
    assert chosen.exit_code == 0


def test_a_folder_without_anything_to_import_is_named() -> None:
    Path("files").mkdir()
    Path("files/notes.json").write_text("{}")
    for options, words in (((), "has no file that can be imported"), (("--from", "inspect"), "has no file of inspect")):
        refused = assay("import", "files", *options)
        assert (refused.exit_code, words in refused.output) == (2, True)
