"""The run file of an import runs its dataset with one command."""

import json
from pathlib import Path

from assay import api
from tests.commands import assay
from tests.integrations.importers.test_promptfoo import config

ASKED = "prompts: ['Say {{a}}']\nproviders: [echo]\n"


def written(text: str) -> str:
    config(text)
    result = assay("import", "promptfooconfig.yaml", "-o", "data/out.json", "--run-file", "data/out.yaml")
    assert result.exit_code == 0, result.output
    return Path("data/out.yaml").read_text()


def test_one_command_runs_what_was_imported() -> None:
    Path("data").mkdir()
    text = written(
        ASKED
        + "tests: [{vars: {a: x}, assert: [{type: equals, value: Say x}]}, {vars: {a: y}, assert: [{type: contains, value: z}]}]"
    )
    assert "datasets: [out.json]\ncandidates: [scripted/echo]\n" in text
    assert assay("run", "data/out.yaml", "--run-id", "echoes").exit_code == 0
    metrics = api.open_run("echoes").result.metrics
    assert (metrics["pass_count"], metrics["fail_count"]) == (1, 1)


def test_checks_that_all_records_share_are_those_of_the_run() -> None:
    Path("data").mkdir()
    text = written(
        ASKED + "defaultTest: {assert: [{type: contains, value: Say}, {type: icontains, value: é}]}\ntests: [{vars: {a: [x, y]}}]"
    )
    assert "checks:\n- type: contains\n  any: [Say]\n- type: contains\n  any: [é]\n  ignore_case: true\n" in text
    assert assay("run", "data/out.yaml", "--run-id", "shared").exit_code == 0
    checks = json.loads((api.open_run("shared").folders.sealed / "metrics_summary.json").read_text())["checks"]
    assert {name: found["pass_rate"] for name, found in checks.items()} == {"contains": 1.0, "contains-2": 0.0}


def test_a_judge_is_asked_for_where_records_need_one() -> None:
    Path("data").mkdir()
    tests = "tests: [{vars: {a: x}, assert: [{type: pi, value: Is kind}]}, {vars: {a: y}, assert: [{type: is-json}]}]"
    text = written(ASKED + tests)
    assert "# 1 of 2 records need a judge.\n# judges: [PROVIDER/MODEL]\n" in text
    assert "checks:" not in text
    judged = written(ASKED + "defaultTest: {options: {provider: 'openai:gpt-6-sol'}}\n" + tests)
    assert "judges: [openai/gpt-6-sol]" in judged


def test_records_without_any_demand_are_named() -> None:
    Path("data").mkdir()
    assert "# 1 of 2 records do not say what a good answer is.\n" in written(
        ASKED + "tests: [{vars: {a: x}}, {vars: {a: y}, assert: [{type: is-json}]}]"
    )


def test_a_run_file_needs_a_dataset() -> None:
    config(ASKED)
    for options, words in (
        (("--run-file", "x.yaml"), "add -o DATASET"),
        (("-o", "a.json", "--run-file", "-"), "the name of a file"),
    ):
        refused = assay("import", "promptfooconfig.yaml", *options)
        assert (refused.exit_code, words in refused.stderr) == (2, True)
