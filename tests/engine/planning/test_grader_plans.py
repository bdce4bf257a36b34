import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from assay.core.graders import MAX_PROMPT, CategoryScale
from assay.engine.planning.grader_plans import read_problems, read_prompt
from assay.engine.planning.request import RunRequest, run_file_schema
from tests.engine.graded_files import GRADERS, run_file
from tests.engine.run_settings import planned, problems_of

HOUSE = GRADERS[2]


def asked(folder: Path, *graders: dict[str, Any], **settings: Any) -> RunRequest:
    return RunRequest(run_file=str(run_file(folder, **({"graders": list(graders)} if graders else {}), **settings)))


def problem(folder: Path, *graders: dict[str, Any], **settings: Any) -> str:
    found = problems_of(asked(folder, *graders, **settings))
    assert len(found) == 1, found
    return found[0]


def test_graders_are_planned_with_their_judges_and_plugins(tmp_path: Path) -> None:
    (plan,) = planned(asked(tmp_path)).plans
    assert [(one.name, one.kind, one.is_primary) for one in plan.graders] == [
        ("form", "checks", True),
        ("polite", "plugin", False),
        ("house", "judge", False),
    ]
    assert [judge.name for judge in plan.judges] == ["J"]
    assert [plugin.name for plugin in plan.plugins] == ["own.py:polite"]
    assert (plan.grader(), plan.has_panel, [model.name for model in plan.called_graders()]) == (
        None,
        False,
        ["grader/own.py:polite"],
    )


def test_a_grader_is_called_by_its_plugin_its_judge_or_its_checks(tmp_path: Path) -> None:
    unnamed = [{key: value for key, value in grader.items() if key != "name"} for grader in GRADERS]
    (plan,) = planned(asked(tmp_path, *unnamed)).plans
    assert [one.name for one in plan.graders] == ["checks", "polite", "J"]


def test_the_first_grader_is_primary_where_none_is_marked(tmp_path: Path) -> None:
    runs = planned(asked(tmp_path, GRADERS[1], HOUSE))
    assert [one.is_primary for one in runs.plans[0].graders] == [True, False]
    assert runs.notes[-1] == "the grader 'polite' is primary, because none is marked with primary: true"


def test_categories_are_a_scale(tmp_path: Path) -> None:
    (plan,) = planned(asked(tmp_path, {**HOUSE, "scale": {"categories": {"good": 1, "poor": 0.3}}})).plans
    assert plan.graders[0].scale == CategoryScale(categories={"good": 1.0, "poor": 0.3})


@pytest.mark.parametrize(
    ("grader", "words"),
    [
        ({"name": "x"}, "graders[0]: a grader has checks, a plugin or a judge"),
        (
            {"plugin": "own.py:polite", "checks": [{"type": "is-json"}]},
            "graders[0].plugin: a grader has checks or plugin, not both",
        ),
        ({"plugin": "own.py:polite", "prompt": "own.txt"}, "graders[0].prompt: a prompt is that of a judge"),
        ({"judge": "scripted/echo", "scale": "1-5"}, "graders[0].scale: 'scale' is for a judge with a prompt of its own"),
        ({**HOUSE, "pass": "any"}, "graders[0].pass: 'pass' says which checks an answer must pass"),
        ({**HOUSE, "scale": "1-5", "at_least": 9}, "graders[0].at_least: 9 is not on the scale 1-5"),
        ({**HOUSE, "at_least": 1}, "on the scale pass_fail an answer passes with 'pass'"),
        ({**HOUSE, "scale": {"categories": {"good": 1}}}, "a scale has two categories or more"),
        ({**HOUSE, "scale": {"categories": {"good": 1, "Good": 0}}}, "two categories have the same name but for upper case"),
        ({**HOUSE, "scale": {"categories": {"good": 1, "cannot_assess": 0}}}, "every scale has 'cannot_assess'"),
        ({**HOUSE, "scale": {"categories": {"good": 1, "bad": 2}}}, "must be a number from 0 to 1, not 2"),
        ({**HOUSE, "scale": "1-10"}, "scale is '1-10'; allowed: 0-1, 1-5, pass_fail"),
        ({**HOUSE, "prompt": "none.txt"}, "none.txt' cannot be read: No such file or directory"),
        ({**HOUSE, "judge": "nosuch/model"}, "unknown provider 'nosuch'"),
        ({"plugin": "own.py:rude"}, "there is no 'rude' in 'own.py'"),
        ({"checks": [{"type": "equal"}]}, "graders[0].checks[0].type is 'equal'"),
        ({"checks": [{"type": "length"}]}, "graders[0].checks[0]: a check of the length needs min, max or both"),
    ],
)
def test_a_wrong_grader_is_refused(tmp_path: Path, grader: dict[str, Any], words: str) -> None:
    assert words in problem(tmp_path, grader)


def test_two_primary_graders_are_refused(tmp_path: Path) -> None:
    assert "two graders are primary" in problem(tmp_path, GRADERS[0], {**HOUSE, "primary": True})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"judges": ["scripted/judge-5"]}, "the run has graders, which take the place of judges; make it a grader with judge"),
        ({"checks": [{"type": "is-json"}]}, "the run has graders, which take the place of checks"),
        ({"grader": "own.py:polite"}, "the run has graders, which take the place of grader"),
        ({"profile": "weighted_mean"}, "a profile scores by its own rules, without graders"),
    ],
)
def test_settings_that_graders_replace_are_refused(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    assert any(words in found for found in problems_of(asked(tmp_path, **settings)))


def test_names_of_graders_and_checks_are_unique(tmp_path: Path) -> None:
    again = {"name": "form", "checks": [{"name": "exact", "type": "is-json"}]}
    found = problems_of(asked(tmp_path, GRADERS[0], again))
    assert [line.rpartition(": ")[2] for line in found] == [
        "two graders have the name 'form'; give each a name of its own",
        "checks of two graders have the name 'exact'; give each a name of its own",
    ]


def test_every_wrong_placeholder_is_reported_with_its_line(tmp_path: Path) -> None:
    request = asked(tmp_path, HOUSE)
    (tmp_path / "own.txt").write_text("Is it right?\n{{answr}} {{metadat.x}}\n", encoding="utf-8")
    found = [line.partition("own.txt:")[2] for line in problems_of(request)]
    assert found == [
        "2:1: unknown placeholder '{{answr}}'; did you mean 'answer'?",
        "2:11: unknown placeholder '{{metadat.x}}'; did you mean 'metadata.NAME'?",
        "1:1: the prompt has no {{answer}}: the judge would not see what it grades",
    ]


def test_a_placeholder_that_no_record_fills_is_refused(tmp_path: Path) -> None:
    request = asked(tmp_path, HOUSE)
    (tmp_path / "own.txt").write_text("{{answer}} {{metadata.court}}\n", encoding="utf-8")
    assert problems_of(request) == ("the prompt has {{metadata.court}}, and no selected record has a text for it",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe{{answer}}", "is not UTF-8 (byte 0)"),
        (b"{{answer}}\0", "holds NUL characters"),
        (b"{{answer}}" + b"x" * MAX_PROMPT, "100,010 characters, more than 100,000"),
        (b"x" * (4 * MAX_PROMPT + 1), "400,001 bytes"),
    ],
)
def test_a_file_that_is_no_prompt_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "p.txt").write_bytes(content)
    (found,) = read_problems(tmp_path / "p.txt")
    assert words in found


def test_a_byte_order_mark_is_not_part_of_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"\xef\xbb\xbf{{answer}}")
    assert read_prompt(tmp_path / "p.txt").text == "{{answer}}"


def test_a_gate_on_the_score_is_on_the_scale_of_the_primary_grader(tmp_path: Path) -> None:
    scaled = {**HOUSE, "scale": "1-5"}
    assert planned(asked(tmp_path, scaled, gates={"min_score": 3.5})).plans
    assert "4 is not on the scale 0-1" in problem(tmp_path, GRADERS[0], gates={"min_score": 4})


def test_the_schema_accepts_graders(tmp_path: Path) -> None:
    document = json.loads(run_file(tmp_path).read_text(encoding="utf-8"))
    assert list(import_module("jsonschema").Draft202012Validator(run_file_schema()).iter_errors(document)) == []
