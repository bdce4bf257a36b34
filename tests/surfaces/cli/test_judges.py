"""`assay probe`: the card as text, JSON and files, and the exit code."""

import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from assay.surfaces.cli.program import program

HEAD = {"schema_version": "legal_eval_v1", "dataset": "probes", "task_type": "rubric_qa"}


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(program, ("probe", *arguments, "--quiet"), prog_name="assay")


def test_a_sound_judge_is_exit_0_with_a_line_for_each_probe() -> None:
    result = probe("--judge", "scripted/judge-sound")
    assert result.exit_code == 0
    assert result.stdout.startswith("SOUND · scripted/judge-sound\n16 records of shipped questions · 272 calls")
    assert len(re.findall("^[a-z ]+  passed +0/", result.stdout, re.MULTILINE)) == 8


def test_a_judge_with_a_fault_is_exit_1() -> None:
    result = probe("--judge", "scripted/judge-length", "--verbose")
    assert result.exit_code == 1
    assert "length               NOT PASSED  16/16  100.0 % [80.6 %, 100.0 %]  -\n" in result.stdout
    assert "Seen in ice-floats, leap-century, tax-bracket, vaccine-mechanism, contract-minor and 11 more." in result.stdout


def test_a_judge_that_never_answers_is_exit_2() -> None:
    result = probe("--judge", "scripted/fail-bad_request")
    assert result.exit_code == 2
    assert "assay: the judge gave no verdict at all" in result.stderr


def test_the_card_is_written_as_json_and_markdown(tmp_path: Path) -> None:
    printed = json.loads(probe("--judge", "scripted/judge-first", "--json", "-o", str(tmp_path / "cards")).stdout)
    stored = json.loads((tmp_path / "cards" / "judge_card.json").read_bytes())
    assert stored == printed
    assert (stored["verdict"], stored["probes"][-1]["id"], stored["probes"][-1]["rate"]) == ("fail", "position", 1.0)
    markdown = (tmp_path / "cards" / "judge_card.md").read_text(encoding="utf-8")
    assert (
        "## Order of answers: NOT PASSED\n\nA sound judge prefers the same one of two answers whichever stands first.\n" in markdown
    )


def test_a_card_that_cannot_be_written_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "cards" / "judge_card.json").mkdir(parents=True)
    result = probe("--judge", "scripted/judge-sound", "-o", str(tmp_path / "cards"))
    assert (result.exit_code, "judge_card.json" in result.stderr) == (2, True)
    assert result.stdout.startswith("SOUND · scripted/judge-sound\n")


def test_a_dataset_without_references_lists_what_is_not_tried() -> None:
    result = probe("--judge", "scripted/judge-4", "examples/golden_v1/assistant.json")
    assert re.search("^test and retest +not tried +- +- +-$", result.stdout, re.MULTILINE)
    assert "right from wrong: not tried, because no record has a reference answer" in result.stdout


def test_a_sound_verdict_says_how_much_was_not_tried(tmp_path: Path) -> None:
    rows = [
        {**HEAD, "id": f"r{number}", "prompt": "Why?", "rubric": [{"id": "c", "title": f"alpha{number:02} bravo{number:02}"}]}
        for number in range(12)
    ]
    (tmp_path / "rubrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    result = probe("--judge", "scripted/judge-sound", str(tmp_path / "rubrics.jsonl"), "-o", str(tmp_path / "card"))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "SOUND, as far as tried (5 probes not) · scripted/judge-sound",
    )
    markdown = (tmp_path / "card" / "judge_card.md").read_text(encoding="utf-8")
    assert markdown.startswith("# Judge card: SOUND, as far as tried (5 probes not)\n")
    assert "## Order of answers: not tried\n" in markdown


def test_the_same_family_is_a_warning_and_no_failure() -> None:
    result = probe("--judge", "scripted/judge-sound", "--candidate", "scripted/judge-4")
    assert result.exit_code == 0
    assert result.stdout.startswith("SOUND, with warnings · ")
    assert "share the family 'judge'" in result.stdout


def test_a_file_where_the_card_should_go_is_refused_before_any_call(tmp_path: Path) -> None:
    (tmp_path / "card").touch()
    result = probe("--judge", "scripted/judge-sound", "-o", str(tmp_path / "card"))
    assert result.exit_code == 2
    assert "is a file" in result.stderr
