"""Configs of promptfoo: prompts, tests and assertions into questions, references and criteria; nothing is evaluated."""

import json
from pathlib import Path

from tests.integrations.importers.bringing import brought
from tests.integrations.importers.test_promptfoo import config, records


def test_equality_becomes_a_reference_and_other_checks_criteria_with_their_weights() -> None:
    found = records("promptfooconfig.yaml")
    assert found["Say yes in French"]["reference"] == {"answer": "Say yes in French"}
    assert found["Say hello in German"]["reference"]["rubric"] == [
        {"id": "assert-1", "title": 'Contains "hello"'},
        {"id": "assert-2", "title": 'Contains "german" (case-insensitive)', "weight": 2},
    ]
    assert found["Say hello in German"]["metadata"]["topic"] == "greeting"


def test_nothing_in_a_config_is_evaluated() -> None:
    found = records("promptfooconfig.yaml")
    assert "Say ${{ secrets }} in Latin" in found
    written = config("prompts: ['{{a}} and {{b}} {{ c | upper }}']\ntests: [{vars: {a: '{{b}}', b: x, c: y}}]")
    assert list(records(written)) == ["{{b}} and x {{ c | upper }}"]


def test_checks_that_run_code_are_listed_and_not_carried_over() -> None:
    report = brought("promptfooconfig.yaml")["report"]
    assert report["left_out"]["assert javascript"] == 2
    assert report["left_out"]["config providers"] == 1
    assert report["left_out"]["file:// (add --with-files)"] == 1


def test_groups_negations_and_demands_of_all_tests_come_along() -> None:
    asserts = "[{type: assert-set, assert: [{type: not-contains, value: no}]}, {type: is-refusal}, {type: is-json}, 7]"
    written = config(f"prompts: ['{{{{a}}}}']\ndefaultTest: {{assert: [{{type: similar, value: '{{{{a}}}}!'}}]}}\n"
                     f"tests: [{{vars: {{a: x}}, assert: {asserts}}}]")  # fmt: skip
    report = brought(written, options=("-o", "rows.jsonl"))["report"]
    row = json.loads(Path("rows.jsonl").read_text())
    assert [criterion["title"] for criterion in row["rubric"]] == ['Does not contain "no"', "Refuses to answer"]
    assert row["reference_answers"] == ["x!"]
    assert {name for name in report["left_out"] if name.startswith("assert")} == {
        "assert-set as a group",
        "assert is-json",
        "assert that is not an object",
    }
