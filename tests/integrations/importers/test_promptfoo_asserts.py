"""Every type of assertion that promptfoo has: a check, a criterion, a reference, or a loss that is named."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.core.checks import Check
from assay.datasets.imports.items import ImportSource, ImportState
from assay.integrations.importers.promptfoo_asserts import AnswerRequirements, demands, is_converted
from assay.integrations.importers.promptfoo_files import ConfigFiles
from tests.integrations.importers.promptfoo_types import TYPES

VARS = {"name": "Bo", "context": "Paris is a city."}


def demanded(*asserted: Any, **variables: Any) -> tuple[AnswerRequirements, dict[str, int]]:
    """What assertions become, and what was left out; every check is one that a run accepts."""
    Path("promptfooconfig.yaml").touch()
    reading = ImportState()
    files = ConfigFiles(ImportSource("promptfooconfig.yaml"), reading)
    found = demands(list(asserted), {**VARS, **variables}, reading, files=files)
    msgspec.convert(found.checks, tuple[Check, ...])
    return found, dict(reading.left_out)


CHECKS = [
    ({"type": "equals", "value": "Hi {{name}}"}, {"type": "equals", "value": "Hi Bo"}),
    ({"type": "equals", "value": 4.0}, {"type": "equals", "value": "4"}),
    ({"type": "equals", "value": {"a": [1]}}, {"type": "equals", "value": {"a": [1]}}),
    ({"type": "equals", "value": {"a": {"b": {"c": 1}}}}, {"type": "json-schema", "schema": '{"const":{"a":{"b":{"c":1}}}}'}),
    ({"type": "not-equals", "value": "x"}, {"type": "equals", "value": "x", "expected": False}),
    ({"type": "contains", "value": "a, b"}, {"type": "contains", "any": ["a, b"]}),
    ({"type": "not-contains", "value": "a"}, {"type": "contains", "none": ["a"]}),
    ({"type": "icontains", "value": 7}, {"type": "contains", "any": ["7"], "ignore_case": True}),
    ({"type": "contains-any", "value": ["a", "b"]}, {"type": "contains", "any": ["a", "b"]}),
    ({"type": "contains-any", "value": 'a, "b, c"'}, {"type": "contains", "any": ["a", "b, c"]}),
    ({"type": "not-icontains-any", "value": ["a"]}, {"type": "contains", "none": ["a"], "ignore_case": True}),
    ({"type": "contains-all", "value": ["a", "b"]}, {"type": "contains", "all": ["a", "b"]}),
    ({"type": "not-contains-all", "value": "a,b"}, {"type": "contains", "all": ["a", "b"], "expected": False}),
    ({"type": "starts-with", "value": "A"}, {"type": "starts-with", "value": "A"}),
    ({"type": "regex", "value": r"\d{3}|\u00e9"}, {"type": "regex", "value": r"\d{3}|\x{00e9}"}),
    ({"type": "not-regex", "value": "a"}, {"type": "regex", "value": "a", "expected": False}),
    ({"type": "is-json"}, {"type": "is-json"}),
    ({"type": "is-json", "value": {"type": "object"}}, {"type": "json-schema", "schema": '{"type":"object"}'}),
    ({"type": "is-json", "value": "type: object"}, {"type": "json-schema", "schema": '{"type":"object"}'}),
    ({"type": "contains-json"}, {"type": "is-json", "extract": True}),
    ({"type": "contains-json", "value": {}}, {"type": "json-schema", "schema": "{}", "extract": True}),
    ({"type": "is-refusal"}, {"type": "refusal"}),
    ({"type": "not-is-refusal"}, {"type": "refusal", "expected": False}),
    ({"type": "latency", "threshold": 500}, {"type": "latency", "max_ms": 500}),
    ({"type": "cost", "threshold": 0.01}, {"type": "cost", "max_usd": 0.01}),
    ({"type": "word-count", "value": {"min": 2, "max": 5}}, {"type": "length", "min": 2, "max": 5, "unit": "words"}),
    ({"type": "word-count", "value": 3}, {"type": "length", "min": 3, "max": 3, "unit": "words"}),
    ({"type": "levenshtein", "value": "a"}, {"type": "similarity", "measure": "edit", "max_edits": 5, "value": "a"}),
    ({"type": "rouge-n", "value": "a"}, {"type": "similarity", "measure": "rouge_l", "at_least": 0.75, "value": "a"}),
    ({"type": "bleu", "value": "a", "threshold": 0.3}, {"type": "similarity", "measure": "bleu", "at_least": 0.3, "value": "a"}),
    ({"type": "trajectory:tool-used", "value": "look"}, {"type": "tool-called", "tool": "look"}),
    ({"type": "trajectory:tool-args-match", "value": {"name": "look", "args": {}}}, {"type": "tool-called", "tool": "look"}),
    ({"type": "javascript", "value": "output.length < 5"}, {"type": "length", "max": 4}),
    ({"type": "not-javascript", "value": "output.includes('a')"}, {"type": "contains", "any": ["a"], "expected": False}),
    ({"type": "python", "value": "'{{name}}' in output"}, {"type": "contains", "any": ["Bo"]}),
    ({"type": "equals", "value": "x", "transform": "output.a[0]"}, {"type": "json-path", "path": "$.a[0]", "value": "x"}),
    ({"type": "is-json", "weight": 0, "metric": "{{name}}"}, {"name": "Bo", "type": "is-json", "weight": 0}),
]


@pytest.mark.parametrize(("assertion", "check"), CHECKS, ids=[str(assertion) for assertion, _ in CHECKS])
def test_an_assertion_that_a_program_can_decide_is_a_check(assertion: dict[str, Any], check: dict[str, Any]) -> None:
    found, _ = demanded(assertion)
    assert (found.checks, found.rubric, found.references) == ([check], [], [])


CRITERIA = [
    ({"type": "llm-rubric", "value": "Is kind to {{name}}"}, "Is kind to Bo"),
    ({"type": "not-llm-rubric", "value": "Is rude"}, "The opposite of this is true: Is rude"),
    ({"type": "g-eval", "value": ["Is short", "Is clear"]}, "Is short; Is clear"),
    ({"type": "model-graded-closedqa", "value": "Names a city"}, "Names a city"),
    ({"type": "answer-relevance"}, "Answers the question that was asked"),
    ({"type": "context-faithfulness"}, "Every statement is supported by the context. Context: Paris is a city."),
    ({"type": "is-sql"}, "Is valid SQL"),
    ({"type": "not-contains-html"}, "Does not contain HTML"),
    ({"type": "moderation", "value": ["hate"]}, "Contains no harmful content of these kinds: hate"),
    ({"type": "classifier", "value": "positive"}, 'Would be classified as "positive"'),
    ({"type": "not-similar", "value": "Paris"}, 'Does not mean the same as "Paris"'),
    ({"type": "trajectory:goal-success", "value": "Books a seat"}, 'Achieves this goal: "Books a seat"'),
]


@pytest.mark.parametrize(("assertion", "title"), CRITERIA, ids=[str(assertion) for assertion, _ in CRITERIA])
def test_an_assertion_that_needs_a_judge_is_a_criterion(assertion: dict[str, Any], title: str) -> None:
    found, _ = demanded(assertion)
    assert (found.rubric, found.checks) == ([{"id": "assert-1", "title": title}], [])


def test_one_answer_to_compare_with_is_a_reference_and_several_are_criteria() -> None:
    similar, factual = {"type": "similar", "value": ["a", "b"]}, {"type": "factuality", "value": "c"}
    assert demanded(similar)[0].references == ["a", "b"]
    both = demanded(similar, factual)[0]
    assert (both.references, [one["title"] for one in both.rubric]) == (
        [],
        ['Means the same as "a", "b"', 'Agrees in its facts with "c"'],
    )


LOST = [
    ({"type": "javascript", "value": "fetch('http://x')"}, "assert javascript"),
    ({"type": "python", "value": "file://p.py"}, "assert python from a file"),
    ({"type": "contains", "value": "file://p.js:f"}, "assert contains from a file"),
    ({"type": "webhook", "value": "http://x"}, "assert webhook"),
    ({"type": "not-perplexity"}, "assert not-perplexity"),
    ({"type": "regex", "value": "(?=a)"}, "assert regex that RE2 cannot read"),
    ({"type": "is-json", "value": {"$ref": "http://x"}}, "assert is-json with a schema that cannot be read"),
    ({"type": "contains"}, "assert contains without a value"),
    ({"type": "contains-any", "value": ","}, "assert contains-any with a value that cannot be used"),
    ({"type": "regex", "value": "a" * 20_000}, "check regex, which is too large for metadata"),
    ({"type": "is-json", "value": {"required": "a"}}, "assert is-json with a value that cannot be used"),
    ({"type": "latency"}, "assert latency without a threshold"),
    ({"type": "icontains", "value": "a", "transform": "output.a"}, "assert icontains of a transformed answer"),
    ({"type": "trajectory:tool-used", "value": {"pattern": "a*"}}, "assert trajectory:tool-used of a pattern"),
    ({"type": "llm-rubric", "value": "a", "weight": 0}, "criterion of weight 0, which only reports"),
    ("file", "assert that is no object"),
]


@pytest.mark.parametrize(("assertion", "loss"), LOST, ids=[loss for _, loss in LOST])
def test_any_other_assertion_is_a_loss_with_its_name(assertion: Any, loss: str) -> None:
    found, left_out = demanded(assertion)
    assert (found, left_out) == (AnswerRequirements(), {loss: 1})


def test_what_stands_in_for_another_measure_is_listed() -> None:
    _, left_out = demanded({"type": "meteor", "value": "a"}, {"type": "similar", "value": "b", "threshold": 0.9})
    assert left_out == {"meteor, compared by the F1 of words instead": 1, "assert.threshold of a judge": 1}


def test_a_judge_of_its_own_is_a_setting_and_a_prompt_of_its_own_a_loss() -> None:
    _, left_out = demanded({"type": "pi", "value": "a", "provider": "x", "rubricPrompt": "y"})
    assert left_out == {"assert.provider": 1, "assert.rubricPrompt": 1}


def test_values_are_read_from_files_of_data() -> None:
    Path("schema.yaml").write_text("type: array\n")
    Path("answer.txt").write_text("Paris")
    found, left_out = demanded(
        {"type": "is-json", "value": "file://schema.yaml"}, {"type": "contains", "value": "file://answer.txt"}
    )
    assert found.checks == [{"type": "json-schema", "schema": '{"type":"array"}'}, {"type": "contains", "any": ["Paris"]}]
    assert not left_out


def test_a_group_without_a_threshold_is_its_members_and_one_with_a_threshold_one_demand() -> None:
    members = [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}]
    assert len(demanded({"type": "assert-set", "assert": members})[0].checks) == 2
    assert demanded({"type": "assert-set", "assert": members, "threshold": 0.5})[0].checks == [
        {"type": "contains", "any": ["a", "b"]}
    ]
    mixed = [*members, {"type": "pi", "value": "Is kind"}]
    [criterion] = demanded({"type": "assert-set", "assert": mixed, "threshold": 0.6})[0].rubric
    title = 'Meets at least 2 of these 3: (1) contains (any ["a"]); (2) contains (any ["b"]); (3) Is kind'
    assert criterion["title"] == title
    _, left_out = demanded({"type": "assert-set", "assert": [{"type": "webhook"}], "threshold": 0.5})
    assert left_out == {"assert-set with a threshold": 1}
    assert demanded({"type": "assert-set", "assert": [], "threshold": 0.5})[1] == {"assert-set without members": 1}


def test_checks_of_one_metric_have_names_of_their_own_and_the_same_check_counts_once() -> None:
    one = {"type": "contains", "value": "a", "metric": "tone"}
    found, _ = demanded(one, {**one, "value": "b"}, {"type": "is-json"}, {"type": "is-json"})
    assert [check.get("name") for check in found.checks] == ["tone", "tone-2", None]


def test_a_weight_below_0_is_listed_and_the_check_counts_once() -> None:
    found, left_out = demanded({"type": "is-json", "weight": -1})
    assert (found.checks, left_out) == ([{"type": "is-json"}], {"weight below 0": 1})


def test_checks_that_no_metadata_can_hold_are_listed() -> None:
    found, left_out = demanded({"type": "equals", "value": "x" * 9_000}, {"type": "is-json"})
    assert (found.checks, left_out) == ([{"type": "is-json"}], {"check equals, which is too large for metadata": 1})


def test_fifty_and_more_types_of_promptfoo_are_converted_and_all_others_listed() -> None:
    converted = [form for form in TYPES if is_converted(form)]
    assert len(converted) >= 50
    for form in sorted(set(TYPES) - set(converted)):
        assert demanded({"type": form, "value": "x", "threshold": 1})[1] == {f"assert {form}": 1}
