"""Imported runs are runs like any other, but nobody can be asked again."""

import json

import pytest

from assay import api
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES, run_of

pytestmark = pytest.mark.usefixtures("workplace")


def test_a_run_says_where_it_comes_from() -> None:
    imported = run_of("capitals.eval").plan.imported
    assert imported.tool == "inspect_ai"
    assert imported.scorer == "includes"
    assert imported.other_scorers == ("lenient", "shape/is_short")
    assert imported.files[0].sha256 == api.import_files([str(FIXTURES / "capitals.eval")]).files()[0].sha256
    assert imported.left_out["scores of shape/words, whose scale is not known"] == 8


def test_an_imported_run_can_be_verified_recomputed_shown_compared_gated_and_reported() -> None:
    run_of("letters.eval", options=("--id", "letters"))
    run_of("letters.eval", options=("--id", "again"))
    commands = [
        ("verify", "letters"),
        ("replay", "letters"),
        ("show", "letters", "ch"),
        ("compare", "letters", "again"),
        ("gate", "letters", "--max-error-rate", "0"),
        ("report", "letters", "-o", "letters.html"),
        ("rescore", "letters", "--profile", "lexam_mcq", "--run-id", "official"),
    ]
    assert [assay(*command).exit_code for command in commands] == [0] * len(commands)
    assert api.open_run("official").result.metrics["profile"]["headline"] == 0.5


def test_a_run_over_the_imported_dataset_can_be_compared_with_the_imported_run() -> None:
    run_of("letters.eval", options=("--id", "theirs", "-o", "letters.jsonl"))
    ours = assay("run", "letters.jsonl", "--model", "scripted/say-B", "--run-id", "ours", "--quiet")
    compared = assay("compare", "theirs", "ours", "--json")
    assert (ours.exit_code, compared.exit_code) == (0, 0), ours.output
    assert json.loads(compared.stdout)["n"] == 2
    assert "graded by inspect_ai (choice) before, by assay after" in json.loads(compared.stdout)["notes"]


def test_nobody_can_be_asked_again_in_a_run_of_another_tool() -> None:
    run_of("capitals.eval", options=("--id", "capitals"))
    refused = assay("retry", "capitals")
    assert refused.exit_code == 2
    assert "made by inspect_ai" in refused.output
