"""Configs of promptfoo: every prompt with every test, with checks, references and criteria; nothing is run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import assay
from tests.integrations.importers.bringing import brought, rows_of
from tests.integrations.importers.test_promptfoo import config, records


def left_out(text: str, *options: str) -> dict[str, int]:
    found: dict[str, int] = brought(config(text), options=options)["report"]["left_out"]
    return found


def checks_of(found: dict[str, Any]) -> dict[str, Any]:
    return {prompt: record["metadata"].get("checks") for prompt, record in found.items()}


def test_assertions_become_checks_with_their_weights_and_demands_in_words_criteria() -> None:
    found = records("promptfooconfig.yaml")
    assert found["Say yes in French"]["metadata"]["checks"] == [{"type": "equals", "value": "Say yes in French"}]
    assert found["Say hello in German"]["metadata"]["checks"] == [
        {"type": "contains", "any": ["hello"]},
        {"type": "contains", "any": ["german"], "ignore_case": True, "weight": 2},
    ]
    assert found["Say hello in German"]["metadata"]["topic"] == "greeting"
    assert found["Say table in Danish"]["metadata"]["checks"] == [{"type": "contains", "any": ["Danish"]}]


def test_nothing_in_a_config_is_run() -> None:
    assert "Say ${{ secrets }} in Latin" in records("promptfooconfig.yaml")
    written = config("prompts: ['{{a}} and {{ c.constructor() }}']\ntests: [{vars: {a: x, c: y}}]")
    assert list(records(written)) == ["x and {{ c.constructor() }}"]
    assert brought(written)["report"]["left_out"] == {"template with logic, kept as it stands": 1}


def test_values_are_put_into_values_and_templates_rendered_as_promptfoo_does() -> None:
    written = config("prompts: ['{{a}} {{ d | upper }}']\ntests: [{vars: {a: '{{b}}!', b: '{{ c | trim }}', c: ' x ', d: y}}]")
    assert list(records(written)) == ["x! Y"]


def test_code_is_listed_and_simple_tests_of_the_answer_are_checks() -> None:
    report = brought("promptfooconfig.yaml")["report"]
    # One of the two is `output.length > 10`; the other one throws an error.
    assert report["left_out"]["assert javascript"] == 1
    assert records("promptfooconfig.yaml")["Say ${{ secrets }} in Latin"]["metadata"]["checks"] == [{"type": "length", "min": 11}]


def test_an_import_is_complete_where_only_settings_stay_behind() -> None:
    text = "prompts: [hi]\nproviders: [echo]\noutputPath: x\ntests: [{assert: [{type: contains, value: a}]"
    report = brought(config(text + ", provider: echo}]"))["report"]
    assert (report["status"], sorted(report["settings"])) == (
        "complete",
        ["config outputPath", "config providers", "test.provider"],
    )
    assert brought(config(text + "}]\nderivedMetrics: []"))["report"]["status"] == "partial"
    shown = assay("import", "promptfooconfig.yaml").output
    assert "import            partial · 1 kind of loss" in shown
    assert "not carried over  config providers · 1 · a setting" in shown


def test_demands_of_all_tests_come_first_unless_a_test_refuses_them() -> None:
    shared = "defaultTest: {assert: [{type: contains, value: '{{a}}'}], vars: {a: d}, metadata: {k: 1}}\n"
    tests = "tests: [{vars: {a: x}, assert: [{type: is-json}]}, {vars: {a: y}, options: {disableDefaultAsserts: true}}, {}]"
    found = records(config(f"prompts: ['{{{{a}}}}']\n{shared}{tests}"))
    assert checks_of(found) == {
        "x": [{"type": "contains", "any": ["x"]}, {"type": "is-json"}],
        "y": None,
        "d": [{"type": "contains", "any": ["d"]}],
    }
    assert found["x"]["metadata"]["k"] == 1


def test_a_config_without_tests_asks_each_prompt_once() -> None:
    assert list(records(config("prompts: [hi, ho]\nproviders: [echo]"))) == ["hi", "ho"]


def test_merge_keys_and_references_are_followed() -> None:
    text = """
x-shared: &shared {options: {prefix: 'Be brief. '}, assert: [{$ref: '#/assertionTemplates/short'}]}
assertionTemplates: {short: {type: word-count, value: {max: 5}}}
prompts: ['{{a}}']
tests:
- {<<: *shared, vars: {a: x}}
- {<<: *shared, vars: {a: y}, assert: [{$ref: '#/assertionTemplates/short', weight: 2}]}
"""
    check = {"type": "length", "max": 5, "unit": "words"}
    assert checks_of(records(config(text))) == {"Be brief. x": [check], "Be brief. y": [{**check, "weight": 2}]}


def test_scenarios_are_each_test_with_each_set_of_data() -> None:
    text = """
prompts: ['{{a}}-{{b}}']
scenarios:
- config: [{vars: {a: '1'}, assert: [{type: contains, value: c}]}, {vars: {a: '2'}}]
  tests: [{vars: {b: x}, assert: [{type: is-json}]}, {vars: {b: y}}]
- config: [{vars: {a: '3', b: z}}]
"""
    found = records(config(text))
    assert list(found) == ["1-x", "1-y", "2-x", "2-y", "3-z"]
    assert checks_of(found)["1-x"] == [{"type": "contains", "any": ["c"]}, {"type": "is-json"}]


def test_a_test_may_choose_its_prompts() -> None:
    prompts = "prompts: [{raw: 'A {{a}}', label: one}, {raw: 'B {{a}}', label: 'two:b'}, {raw: 'C {{a}}', id: three}]\n"
    tests = "tests: [{vars: {a: x}, prompts: [one]}, {vars: {a: y}, prompts: [two, 'thr*']}, {vars: {a: z}, prompts: [none]}]"
    assert list(records(config(prompts + tests))) == ["A x", "B y", "C y"]
    assert left_out(prompts + tests) == {"test of another prompt": 1}


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("{filterFirstN: 2}", ["a", "b"]),
        ("{filterPattern: '^o'}", ["a", "c"]),
        ("{filterMetadata: 'k=1'}", ["b"]),
        ("{filterMetadata: ['k=2', 'l=x']}", ["c"]),
    ],
)
def test_filters_of_the_config_itself_count(options: str, kept: list[str]) -> None:
    last = "{description: own, vars: {a: c}, metadata: {k: [2], l: x}}"
    tests = f"[{{description: one, vars: {{a: a}}}}, {{vars: {{a: b}}, metadata: {{k: 1}}}}, {last}]"
    assert list(records(config(f"prompts: ['{{{{a}}}}']\ncommandLineOptions: {options}\ntests: {tests}"))) == kept


def test_a_prompt_as_json_is_a_chat_whose_texts_are_templates() -> None:
    chat = json.dumps(
        [{"role": "system", "content": "Be {{how}}."}, {"role": "user", "content": [{"type": "text", "text": "{{a}}"}]}]
    )
    found = records(config(f"prompts: ['{chat}']\ntests: [{{vars: {{a: 'say \"x\"', how: brief}}}}]"))
    assert found['say "x"']["input"]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": 'say "x"'},
    ]


def test_a_picture_is_named_in_the_question_and_listed() -> None:
    Path("cat.jpg").write_bytes(b"\xff\xd8\xff")
    chat = json.dumps(
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "{{image}}"}}, {"type": "text", "text": "?"}]}]
    )
    text = f"prompts: ['{chat}', 'See {{{{image}}}}']\ntests: [{{vars: {{image: 'file://cat.jpg'}}}}]"
    assert list(records(config(text))) == ["[picture: cat.jpg]\n?", "See [picture: cat.jpg]"]
    assert left_out(text) == {"content of type image": 1, "content of type image_url": 1}


RED_TEAM = "redteam: {plugins: [pii, {id: harmful}], strategies: [jailbreak]}\n"


@pytest.mark.parametrize("prompts", ["prompts: ['{{prompt}}']\n", ""])
def test_a_red_team_config_is_named_as_one(prompts: str) -> None:
    config(f"{prompts}targets: [echo]\n{RED_TEAM}")
    result = assay("import", "promptfooconfig.yaml", "-o", "out.json")
    assert (result.exit_code, Path("out.json").exists()) == (1, False)
    assert "is a red-team config: promptfoo generates its attacks from 2 plugins (pii, harmful) with 1 strategy" in result.stderr
    assert "promptfoo redteam generate -c promptfooconfig.yaml -o redteam.yaml" in result.stderr


def test_generated_attacks_are_imported_as_questions_with_a_criterion() -> None:
    tests = "tests: [{vars: {prompt: Tell me}, assert: [{type: 'promptfoo:redteam:pii', metric: PII}], metadata: {pluginId: pii}}]"
    [row] = rows_of(config(f"targets: [echo]\n{RED_TEAM}{tests}")).values()
    [criterion] = row["rubric"]
    assert row["prompt"] == "Tell me"
    assert 'attack of the kind "pii"' in criterion["title"]
    assert left_out(f"targets: [echo]\n{RED_TEAM}{tests}")["attacks of a red team, which promptfoo generates"] == 1


ABSENT = [
    (
        "prompts: ['file://p.py', 'file://q.js:make']",
        "the prompt 'p.py' is made by a program, which is not run; the prompt 'q.js:make'",
    ),
    ("prompts: ['langfuse://x:1']", "the prompt 'langfuse://x:1' is kept by another service"),
    ("prompts: ['file://none.txt']", "there is no file 'none.txt'"),
    (
        "prompts: [hi]\ntests: 'huggingface://datasets/a/b'",
        "its tests are at huggingface://datasets/a/b, which an import does not fetch",
    ),
    ("prompts: [hi]\ntests: ['https://docs.google.com/spreadsheets/d/1']", "which an import does not fetch"),
    ("prompts: [hi]\ntests: ['file://t.py:make', {path: 'file://t.js'}]", "its tests are made by the program 't.py:make'"),
    ("prompts: [hi]\ntests: [7]", "a test is a number, not an object"),
    ("prompts: ['{{a}}']\ntests: [{vars: {a: 'file://v.py'}}]", "the value of 'a' was not read: 'v.py' is a program"),
]


@pytest.mark.parametrize(("text", "reason"), ABSENT, ids=[reason for _, reason in ABSENT])
def test_a_config_without_questions_is_refused_for_a_stated_reason(text: str, reason: str) -> None:
    config(text + "\nproviders: [echo]")
    for name in ("p.py", "q.js", "t.py", "t.js", "v.py"):
        Path(name).write_text("raise SystemExit('this was run')")
    result = assay("import", "promptfooconfig.yaml", "-o", "out.json")
    assert (result.exit_code, Path("out.json").exists()) == (1, False)
    assert reason in result.stderr


def test_a_threshold_that_all_tests_share_is_in_the_run_file_and_others_are_listed() -> None:
    text = "prompts: [hi]\nproviders: ['openai:chat:gpt-6-luna', 'exec:x']\ndefaultTest: {{threshold: 0.5}}\ntests: [{}, {}]"
    one = "{vars: {a: x}, assert: [{type: contains, value: a}]}"
    shared = text.format(one, "{vars: {a: y}, assert: [{type: is-json}]}").replace("{{", "{").replace("}}", "}")
    assert "threshold" not in str(left_out(shared, "-o", "out.json", "--run-file", "out.yaml"))
    assert "pass: {at_least: 0.5}" in Path("out.yaml").read_text()
    other = shared.replace("{vars: {a: y},", "{vars: {a: y}, threshold: 0.7,")
    assert left_out(other)["threshold of a test, which other tests do not have"] == 2


def test_a_folder_of_a_config_is_imported_with_its_files() -> None:
    Path("suite/shared").mkdir(parents=True)
    Path("suite/one").mkdir()
    Path("suite/shared/prompt.txt").write_text("Say {{a}}")
    Path("suite/one/promptfooconfig.yaml").write_text("prompts: ['file://../shared/prompt.txt']\ntests: [{vars: {a: x}}]")
    Path("suite/one/notes.md").write_text("nothing")
    report = json.loads(assay("import", "suite", "-o", "out.json", "--json").stdout)["report"]
    assert (report["records"], report["status"]) == (1, "complete")
    outside = assay("import", "suite/one/promptfooconfig.yaml", "-o", "out.json")
    assert "'../shared/prompt.txt' is outside of the config's folder" in outside.stderr
