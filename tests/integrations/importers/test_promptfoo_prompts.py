"""Prompts of promptfoo in all their forms, and their templates with the values of a test."""

import json
from pathlib import Path

import pytest

from assay.datasets.converters.rows import RowRefused
from assay.datasets.imports.items import ImportSource, ImportState
from assay.integrations.importers.promptfoo_files import ConfigFiles
from assay.integrations.importers.promptfoo_prompts import (
    PromptReader,
    PromptTemplate,
    UnreadValue,
    filled_prompt,
    resolved_variables,
)


def read(given: object) -> tuple[list[str], PromptReader]:
    Path("promptfooconfig.yaml").touch()
    reading = ImportState()
    reader = PromptReader(ConfigFiles(ImportSource("promptfooconfig.yaml"), reading), reading)
    return [prompt.text for prompt in reader.read(given)], reader


FILES = {
    "two.txt": ("one\n---\n  two \n", ["one", "two"]),
    "whole.md": ("# a\n---\nb\n", ["# a\n---\nb\n"]),
    "chat.json": ('[{"role": "user", "content": "hi"}]', ['[{"role": "user", "content": "hi"}]']),
    "template.json": ('[{% for x in y %}{"role": "user"},{% endfor %}]', ['[{% for x in y %}{"role": "user"},{% endfor %}]']),
    "chat.yaml": ("- role: user\n  content: |\n    hi\n", ['[{"role": "user", "content": "hi\\n"}]']),
    "text.yaml": ("just a text\n", ["just a text"]),
    "lines.jsonl": ('[{"role": "user"}]\n\n"b"\n', ['[{"role": "user"}]', '"b"']),
    "column.csv": ("prompt\nSay {{a}}\nShout {{a}}\n", ["Say {{a}}", "Shout {{a}}"]),
    "columns.csv": ('prompt,label\n"Say, {{a}}",one\n', ["Say, {{a}}"]),
    "plain.j2": ("Say {{a}}\n", ["Say {{a}}\n"]),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("prefix", ["file://", "./", ""])
def test_prompts_are_read_from_files_of_every_form(name: str, prefix: str) -> None:
    Path(name).write_text(FILES[name][0])
    assert read([prefix + name])[0] == FILES[name][1]


def test_patterns_and_older_forms_are_read() -> None:
    Path("p").mkdir()
    for name in ("b.txt", "a.txt"):
        Path("p", name).write_text(name)
    assert read("file://p/*.txt")[0] == read(["p/*"])[0] == ["a.txt", "b.txt"]
    assert read({"p/b.txt": "label"})[0] == ["b.txt"]


def test_a_prompt_may_be_an_object_with_a_name() -> None:
    Path("p.txt").write_text("from a file")
    texts, _ = read([{"raw": "a", "label": "x"}, {"id": "file://p.txt"}, {"id": "x", "content": "c"}, {"raw": [{"role": "user"}]}])
    assert texts == ["a", "from a file", "c", '[{"role": "user"}]']


def test_files_inside_of_a_prompt_are_read() -> None:
    Path("system.txt").write_text("Be brief.")
    Path("p.yaml").write_text("- {role: system, content: 'file://system.txt'}\n- {role: user, content: 'file://{{name}}'}\n")
    [text], _ = read(["file://p.yaml"])
    assert json.loads(text) == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "file://{{name}}"}]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("file://p.py:make", "the prompt 'p.py:make' is made by a program, which is not run"),
        ("exec: ./run.sh --now", "the prompt 'exec: ./run.sh --now' is made by a program, which is not run"),
        ("langfuse://a:b", "the prompt 'langfuse://a:b' is kept by another service"),
        ("none.txt", "there is no file 'none.txt'"),
        ({"label": "x"}, "a prompt is an object, not text"),
        (7, "a prompt is a number, not text"),
    ],
)
def test_any_other_prompt_is_left_out_with_its_reason(given: object, problem: str) -> None:
    texts, reader = read([given])
    assert (texts, reader.problems) == ([], [problem])


def test_text_that_only_speaks_of_files_is_text() -> None:
    texts = ["Explain main.py to me", "Write a file a.txt\nwith b", "Is 3/4 more than 1/2?", "x.py\nprint(1)"]
    assert read(texts)[0] == texts


@pytest.mark.parametrize(
    ("wanted", "is_allowed"), [(None, True), ([], False), (["one"], True), (["tw"], False), (["two"], True), (["tw*"], True)]
)
def test_a_test_names_prompts_by_label_group_or_pattern(wanted: object, *, is_allowed: bool) -> None:
    assert PromptTemplate("x", ("one", "two:b")).is_allowed(wanted) is is_allowed


def test_a_value_that_was_not_read_costs_the_prompts_that_ask_for_it_alone() -> None:
    variables = {"a": UnreadValue("no such file"), "b": "x"}
    with pytest.raises(RowRefused, match="the value of 'a' was not read: no such file"):
        filled_prompt("{{ a | upper }}", variables, ImportState())
    assert filled_prompt("{{ b }} a", variables, ImportState()) == "x a"


def test_a_prompt_in_json_that_is_no_chat_stays_text() -> None:
    assert filled_prompt('[{"type": "text", "text": "{{a}}"}]', {"a": 'say "x"'}, ImportState()) == (
        '[\n  {\n    "type": "text",\n    "text": "say \\"x\\""\n  }\n]'
    )
    assert filled_prompt('["{{a}}"', {"a": "x"}, ImportState()) == '["x"'


def test_a_prompt_about_earlier_answers_is_asked_without_them_and_listed() -> None:
    reading = ImportState()
    earlier = '{% for c in _conversation %}{"role": "user", "content": "{{ c.input }}"},{% endfor %}'
    template = f'[{earlier}{{"role": "user", "content": "{{{{a}}}}"}}]'
    assert filled_prompt(template, {"a": "x"}, reading) == [{"role": "user", "content": "x"}]
    assert reading.left_out == {"answers to earlier tests in a prompt (_conversation)": 1}


def test_values_are_put_into_values_a_few_rounds_long() -> None:
    assert resolved_variables({"a": "{{b}} {{b}}", "b": "{{ c }}\n", "c": 3, "d": "{{d}}", "e": "{{none}}"}) == {
        "a": "3 3",
        "b": "3",
        "c": 3,
        "d": "{{d}}",
        "e": "{{none}}",
    }
    assert resolved_variables({"a": "{{b}}", "b": "{{a}}"})["a"] in ("{{a}}", "{{b}}")
