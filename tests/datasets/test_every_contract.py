"""Whatever depends on a contract is there for each: a new one is complete when all of this passes."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner, Result

import assay
from assay import api
from assay.core.contract import CONTRACTS, ContractId
from assay.core.runs import State
from assay.surfaces.cli.program import program
from assay.surfaces.pages.validation_page import CHOICES
from assay.surfaces.server.queries import ContractChoice
from assay.surfaces.server.uploads import media_types
from assay.testing import example_dataset
from tests.fuzz.targets import TARGETS
from tests.integrations.importers.bringing import FIXTURES

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(__file__).parent

pytestmark = pytest.mark.parametrize("contract", get_args(ContractId))


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(program, [str(argument) for argument in arguments], prog_name="assay")


def written(contract: ContractId, folder: Path) -> Path:
    path = folder / f"example.{CONTRACTS[contract].formats[0]}"
    path.write_bytes(example_dataset(contract))
    return path


def value_of(contract: ContractId) -> Any:
    """The example as a Python object."""
    content = example_dataset(contract)
    return [json.loads(line) for line in content.splitlines()] if CONTRACTS[contract].is_lines else json.loads(content)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_it_is_described(contract: ContractId) -> None:
    assert CONTRACTS[contract].id == contract


def test_its_example_is_accepted_as_bytes_as_a_file_and_as_an_object(contract: ContractId, tmp_path: Path) -> None:
    sources = (example_dataset(contract), written(contract, tmp_path), value_of(contract))
    reports = [assay.validate(source, contract) for source in sources]
    assert [(report.outcome, report.issues) for report in reports] == [("accepted", ())] * 3
    assert len({report.counts.total_records for report in reports}) == 1


def test_its_example_is_recognised(contract: ContractId, tmp_path: Path) -> None:
    sources = (example_dataset(contract), written(contract, tmp_path), value_of(contract))
    assert [assay.validate(source).contract for source in sources] == [contract] * 3


def test_content_of_no_contract_hears_what_was_looked_for(contract: ContractId) -> None:
    (issue,) = assay.validate({"nothing": 1}).issues
    assert f"({contract})" in issue.message


def test_a_stream_has_the_same_cases(contract: ContractId) -> None:
    assert list(assay.stream(example_dataset(contract), contract)) == list(
        assay.validate(example_dataset(contract), contract).cases
    )


def test_a_clean_dataset_has_nothing_to_fix(contract: ContractId, tmp_path: Path) -> None:
    source = written(contract, tmp_path)
    found = api.fix(source, tmp_path / f"fixed{source.suffix}", contract)
    assert (found.changes, found.report.outcome) == ((), "accepted")
    assert (tmp_path / f"fixed{source.suffix}").read_bytes() == source.read_bytes()


def test_files_of_other_tools_become_such_a_dataset(contract: ContractId, tmp_path: Path) -> None:
    target = tmp_path / f"imported.{'jsonl' if 'jsonl' in CONTRACTS[contract].formats else 'json'}"
    result = invoke("import", FIXTURES / "capitals.eval", "--to", contract, "-o", target)
    assert result.exit_code == 0, result.output
    assert assay.validate(target).contract == contract


def test_a_first_project_begins_with_it(contract: ContractId, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("init", "first", "--contract", contract, "--yes").exit_code == 0
    assert invoke("validate", "first", "--contract", contract).exit_code == 0


def test_the_server_takes_it(contract: ContractId) -> None:
    assert contract in get_args(ContractChoice)
    assert "application/json" in media_types(contract)


def test_the_page_offers_it(contract: ContractId) -> None:
    assert contract in dict(CHOICES)


def test_it_has_examples(contract: ContractId) -> None:
    paths = [path for path in (ROOT / "examples" / contract).iterdir() if path.is_file() and path.name != "config.yaml"]
    verdicts = {(path.stem.startswith("broken"), assay.validate(path, contract).is_valid) for path in paths}
    assert verdicts == {(False, True), (True, False)}


def test_it_has_fixtures_and_is_fuzzed(contract: ContractId) -> None:
    assert {path.name for path in (FOLDER / contract).iterdir()} >= {"valid", "invalid"}
    assert contract in TARGETS


def test_it_is_documented(contract: ContractId) -> None:
    reference = page("docs/reference/contracts.md")
    assert [
        re.search(pattern, text, re.MULTILINE) is not None
        for pattern, text in (
            (rf"^\| \[`{contract}`\]\(../contracts/{contract}.md\) \|", reference),
            ("^## Fields and rules$", page(f"docs/contracts/{contract}.md")),
            (rf"^\| \[`{contract}`\]\(docs/contracts/{contract}.md\) \|", page("README.md")),
        )
    ] == [True, True, True]


DOCUMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "legal_eval_v1": (
        "Canonical Dataset Schema",
        ("Top-level fields", "Task types", "Validation policy", "ID stability rule", "Grading contract", "`src/config.py`"),
    ),
    "batch_v1": (
        "Dataset Contract (v1)",
        (
            *("Accepted dataset JSON schema", "Field requirements", "Size limits and encoding assumptions", "Validation rules"),
            *("Exact malformed-record error response format", "Run states", "Retry policy", "Partial-failure behavior"),
            *("Required artifact set", "Required fields across artifacts", "Retention and immutability"),
        ),
    ),
    "golden_v1": (
        "Data Model: Judge-Centered Evaluation Framework",
        (
            *("TestCase", "GoldenDataset", "EvalResult", "EvalRunParameters", "EvalRunMetrics", "EvalRun", "Relationships"),
            *("Validation Rules", "MLflow Mapping", "Pydantic Models", "`EvalRun.run_id`"),
        ),
    ),
    "conversation_v1": (
        "Data Schema Documentation",
        (
            *("Agent Data Validator", "AgentDataValidator", "ValidationConfig", "Turn Object Schema", "Validation Rules"),
            *("Common Validation Errors", "Configuration Impact on Schema", "Schema Evolution"),
        ),
    ),
}
"""The title of each document, and its sections and terms, as its authors write them."""


def test_the_author_of_its_document_finds_it_by_its_title_and_terms(contract: ContractId) -> None:
    title, terms = DOCUMENTS[contract]
    text = page(f"docs/contracts/{contract}.md")
    places = {"README": page("README.md"), "index": page("docs/index.md"), "heading": text.partition("\n")[0]}
    assert [name for name, found in places.items() if title not in found] == []
    assert [term for term in terms if term not in text] == []
    assert [state for state in get_args(State) if f"`{state}`" not in text] == []


def test_its_page_leads_to_the_first_run_in_at_most_three_commands(contract: ContractId) -> None:
    _, _, rest = page(f"docs/contracts/{contract}.md").partition("## From the document to the first run\n\n```console test\n")
    commands = re.findall(r"^\$ assay (\w+)|^\$ ", rest.partition("```")[0], re.MULTILINE)
    assert commands == ["init", "validate", "run"]


def test_a_gate_lies_on_the_scale_that_a_run_reports(contract: ContractId, tmp_path: Path) -> None:
    dataset = written(contract, tmp_path)
    settings = {"model": "scripted/echo", "judge": "scripted/judge-5", "runs_dir": str(tmp_path / "runs")}
    (run,) = assay.run(dataset, **settings)
    scale = run.metrics["scale"]
    with pytest.raises(assay.AssayError, match=f"99 is not on the scale {scale.replace('/', '-')} of the datasets"):
        assay.run(dataset, **settings, min_score=99)
