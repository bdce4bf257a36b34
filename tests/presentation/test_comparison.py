"""Two runs side by side: the conclusion, the differences, flips, and what was left out."""

import pytest

import assay
from assay import api
from assay.presentation.comparison import (
    comparison_charts,
    comparison_sections,
    conclusion,
    conclusion_mark,
    difference_table,
    flip_mark,
    flip_scores,
    flip_table,
    key_metrics,
    listed_records,
)
from tests.engine.run_settings import mcq_row, write_rows


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> api.RunComparison:
    """A candidate that answers everything right, and one that answers one of four questions right."""
    folder = tmp_path_factory.mktemp("comparison")
    right = [mcq_row(f"q-{number}") for number in range(3)]
    dataset = write_rows(folder / "law.jsonl", *right, mcq_row("other", correct_choice_ids=["B"]))
    for run_id, answer in (("before", "A"), ("after", "B")):
        assay.run(str(dataset), run_id=run_id, runs_dir=str(folder / "runs"), model=f"scripted/say-{answer}")
    return api.compare("before", "after", runs_dir=folder / "runs")


def test_the_report_reads_from_the_runs_to_the_conclusion(found: api.RunComparison) -> None:
    sections = comparison_sections(found)
    assert [section.title for section in sections] == ["The two runs", "Difference", "Flips", "Result"]
    assert [fact.label for fact in sections[0].facts] == ["before", "after", "dataset", "compared"]
    assert [cell.text for cell in sections[2].tables[0].rows[0][:3]] == ["worse", "q-0", "before"]


def test_a_difference_stands_beside_both_rates_and_adds_up(found: api.RunComparison) -> None:
    rate = [cell.text for cell in difference_table(found).rows[0]]
    assert rate[:3] == ["pass rate", "75.0 %", "25.0 %"]
    assert rate[3].startswith("-50.0 pp [")


def test_the_conclusion_has_one_word_and_its_tone(found: api.RunComparison) -> None:
    word, reason = conclusion(found)
    mark = conclusion_mark(found)
    assert (mark.mark.text, mark.mark.kind, mark.reason) == (word, "warn", reason)
    assert (word, reason.startswith("no significant difference in pass rate (1 better and 3 worse of 4 records")) == (
        "UNDECIDED",
        True,
    )


def test_flips_show_both_answers_and_scores(found: api.RunComparison) -> None:
    flip = next(flip for flip in found.flips if flip.direction == "better")
    assert (flip_mark(flip).kind, flip_scores(flip)) == ("good", "0 → 1")
    table = flip_table(found, text_limit=240)
    assert table.title == "Flips: 4"
    assert [(row[0].text, row[2].text, row[3].text) for row in table.rows if row[1].text == "other"] == [
        ("better", "0 · A", "1 · B")
    ]


def test_numbers_of_the_comparison_are_counted_over_its_records(found: api.RunComparison) -> None:
    shown = {key.label: key.figure.text for key in key_metrics(found)}
    assert (shown["Compared"], shown["Worse"], shown["Better"], shown["Same result"]) == ("4", "3", "1", "0")
    assert listed_records(found) == "4 records"
    assert [chart.title for chart in comparison_charts(found)] == ["Records by result"]
