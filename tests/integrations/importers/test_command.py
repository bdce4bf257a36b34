"""'assay import' on the command line: wrong usage, and runs that exist already."""

from pathlib import Path

import pytest

from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, brought
from tests.integrations.importers.test_honesty import evaluated, judged


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "nothing to import"),
        (("{}", "--id", "x"), "--id is about a run"),
        (("{}", "--run", "--to", "golden_v1"), "cannot be kept as golden_v1"),
        (("{}", "--run", "--scorer", "nobody"), "there are no scores of 'nobody'"),
        (("{}", "--run", "--candidate", "nobody"), "there are no answers of 'nobody'"),
        (("{}", "--run", "--scale", "10"), "'10' is not a scale"),
        (("{}", "--run", "--scorer", "shape/words", "--scale", "0-2"), "is not on the scale 0-2"),
        (("{}", "--from", "deepeval", "--run"), "nothing could be imported"),
        (("-",), "standard input"),
        (("missing.eval",), "cannot read 'missing.eval'"),
    ],
)
def test_wrong_usage_is_told_in_words(options: tuple[str, ...], words: str) -> None:
    result = assay("import", *(option.format(FIXTURES / "capitals.eval") for option in options))
    assert result.exit_code == 2
    assert words in result.output


def test_files_of_two_tools_are_not_mixed() -> None:
    result = assay("import", str(FIXTURES / "capitals.eval"), str(FIXTURES / "evals_samples.jsonl"))
    assert result.exit_code == 2
    assert "looks like inspect" in result.output
    assert "looks like openai-evals" in result.output


def test_a_run_of_that_id_is_not_replaced() -> None:
    brought("letters.eval", options=("--run", "--id", "letters"))
    again = assay("import", str(FIXTURES / "letters.eval"), "--run", "--id", "letters")
    assert again.exit_code == 2
    assert "exists already" in again.output


def test_no_run_is_made_where_one_of_several_exists_already() -> None:
    one = judged(success=True)
    path = evaluated(one, {**one, "provider": {"id": "other"}})
    brought(path, options=("--run", "--id", "z", "--candidate", "other"))
    Path("runs/z").rename("runs/z-other")
    refused = assay("import", str(path), "--run", "--id", "z")
    assert refused.exit_code == 2
    assert [place.name for place in Path("runs").iterdir() if place.name.startswith("z")] == ["z-other"]


@pytest.mark.parametrize("option", [("--candidate", "x"), ("--pass-threshold", "0.5"), ("--scorer", "x")])
def test_an_option_that_would_change_nothing_is_refused(option: tuple[str, str]) -> None:
    refused = assay("import", str(FIXTURES / "capitals.json"), *option)
    assert refused.exit_code == 2
    assert f"{option[0]} is about" in refused.output
