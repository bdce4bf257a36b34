"""Tables written as files of their contract."""

import json
from pathlib import Path

from assay import api
from tests.commands import assay

FAQ = "No.,Question,Expected Answer,Topic\n1,What is 2+2?,4,math\n2,Capital of France?,Paris,geo\n,,,\n3,,x,none\n"


def test_a_table_becomes_a_dataset_and_its_bad_rows_are_remarks(tmp_path: Path) -> None:
    source, target = tmp_path / "faq.csv", tmp_path / "faq.jsonl"
    source.write_text(FAQ, encoding="utf-8")
    result = assay("convert", "table", source, "-o", target)
    assert result.exit_code == 1
    assert "row 5, column 'Question', cell B5" in result.stdout
    assert [json.loads(line)["prompt"] for line in target.read_text().splitlines()] == ["What is 2+2?", "Capital of France?"]
    assert api.validate(target).is_valid


def test_questions_alone_become_a_document_of_batch_v1(tmp_path: Path) -> None:
    source, target = tmp_path / "faq.csv", tmp_path / "faq.json"
    source.write_text("Question,Topic\nWhy?,x\nWho?,y\n", encoding="utf-8")
    assert assay("convert", "table", source, "-o", target).exit_code == 0
    assert [record["input"] for record in json.loads(target.read_text())["records"]] == [{"prompt": "Why?"}, {"prompt": "Who?"}]
    assert api.validate(target).contract == "batch_v1"


def test_another_contract_is_reached_by_its_name(tmp_path: Path) -> None:
    source, target = tmp_path / "faq.csv", tmp_path / "faq.json"
    source.write_text(FAQ, encoding="utf-8")
    assert assay("convert", "table", source, "-o", target, "--to", "batch_v1").exit_code == 1
    assert [record["reference"] for record in json.loads(target.read_text())["records"]] == [{"answer": "4"}, {"answer": "Paris"}]


def test_a_table_without_a_record_writes_no_file(tmp_path: Path) -> None:
    source, target = tmp_path / "faq.csv", tmp_path / "faq.jsonl"
    source.write_text("Question,Answer\n,x\n", encoding="utf-8")
    result = assay("convert", "table", source, "-o", target)
    assert (result.exit_code, target.exists()) == (1, False)
    assert "no record can be made" in result.stderr
