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


EMPTY = [
    ("goldens.jsonl", '{"input": "", "expected_output": "x"}\n' * 2, "input is empty (2 times)"),
    ("samples.jsonl", '{"input": [], "ideal": "x"}\n', "the prompt has no text (1 time)"),
    ("logs.json", '{"version": 2, "eval": {"task": "t", "model": "m"}, "samples": []}', "there is no item in it"),
    ("registry.yaml", "e.dev:\n  args: {samples_jsonl: e/samples.jsonl}\n", "names the samples e/samples.jsonl"),
]


@pytest.mark.parametrize(("name", "content", "words"), EMPTY, ids=[name for name, _, _ in EMPTY])
@pytest.mark.parametrize("options", [("-o", "out.jsonl"), ("-o", "-"), ("--run",), ("-o", "out.jsonl", "--run"), (), ("--json",)])
def test_an_import_without_a_record_writes_nothing_and_says_what_is_there_instead(
    name: str, content: str, words: str, options: tuple[str, ...]
) -> None:
    Path(name).write_text(content)
    result = assay("import", name, *options)
    assert result.exit_code == 1
    assert f"no record could be imported from '{name}', and nothing was written" in result.stderr
    assert words in result.stderr
    assert sorted(path.name for path in Path().iterdir()) == [name]


def test_an_import_without_a_record_leaves_an_older_file_as_it_was() -> None:
    Path("out.jsonl").write_text("older")
    Path("goldens.jsonl").write_text('{"input": "", "expected_output": "x"}\n')
    assert assay("import", "goldens.jsonl", "-o", "out.jsonl").exit_code == 1
    assert Path("out.jsonl").read_text() == "older"


def test_questions_without_a_conversation_are_no_dataset_of_conversations() -> None:
    result = assay("import", str(FIXTURES / "evals_samples.jsonl"), "--to", "conversation_v1", "-o", "out.jsonl")
    assert (result.exit_code, Path("out.jsonl").exists()) == (1, False)
    assert "no conversation, only questions; leave --to out" in result.stderr


def test_a_format_that_does_not_fit_is_an_import_without_a_record() -> None:
    result = assay("import", str(FIXTURES / "capitals.eval"), "--from", "deepeval", "--run")
    assert result.exit_code == 1
    assert "no record could be imported" in result.stderr
