"""The tool that wrote a file is known by the file's content."""

import gzip
from pathlib import Path

import pytest

from assay.core.errors import UsageProblem
from assay.datasets.imports.items import ImportSource
from assay.integrations.importers.format_detection import detect_format


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("log.json", '{"version": 2, "eval": {}}', "inspect"),
        ("samples.jsonl", '{"doc_id": 0, "doc": {}}\n{"doc_id": 1, "doc": {}}\n', "lm-eval"),
        ("results.json", '{\n "evalId": "eval-1"\n}', "promptfoo"),
        ("promptfooconfig.yaml", "prompts: [hi]\n", "promptfoo"),
        ("registry.yml", "my-eval:\n  id: my-eval.dev\n", "openai-evals"),
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
    assert detect_format([ImportSource(str(path))]) == form


def test_files_of_several_tools_or_of_none_are_named_with_what_they_look_like() -> None:
    Path("a.json").write_text('{"version": 2, "eval": {}}')
    Path("b.json").write_text('{"something": "else"}')
    with pytest.raises(UsageProblem, match=r"'a\.json' looks like inspect, 'b\.json' looks like none of them") as caught:
        detect_format([ImportSource("a.json"), ImportSource("b.json")])
    assert caught.value.hint.startswith("name the format: --from inspect|")


def test_no_file_has_no_format() -> None:
    with pytest.raises(UsageProblem, match="no file is named"):
        detect_format([])
