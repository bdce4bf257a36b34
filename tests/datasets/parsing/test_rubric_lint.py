"""The lint of rubrics: what it warns of, what it leaves alone, and when it looks."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import ValidationConfig, validate
from assay.core.case import Criterion
from assay.datasets.parsing.rubric_lint import MAX_ISSUES, doubtful_rows, fact_of_context, lint_rubric, undecidable

REALDATA = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent")) / "eu_legal_benchmark"
LINTS = {
    *("duplicate_criterion", "contradictory_criteria", "unscorable_criterion"),
    *("unreachable_criterion", "reference_not_covered", "unsent_context"),
}


def rubric(*criteria: tuple[str, float]) -> list[Criterion]:
    return [Criterion(f"c{index}", title, "", weight) for index, (title, weight) in enumerate(criteria)]


def codes(*criteria: tuple[str, float]) -> list[str]:
    return [finding.code for finding in lint_rubric(rubric(*criteria))]


def row(row_id: str, *criteria: tuple[str, float]) -> dict[str, Any]:
    items = [{"id": f"c{index}", "title": title, "weight": weight} for index, (title, weight) in enumerate(criteria)]
    head = {"schema_version": "legal_eval_v1", "id": row_id, "dataset": "d", "task_type": "rubric_qa", "prompt": "p"}
    return {**head, "rubric": items}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("States that the clause is binding", "Does not state that the clause is binding"),
        ("Says that the buyer can cancel", "Says that the buyer cannot cancel"),
        ("The clause isn\u2019t enforceable here", "The clause is enforceable here"),
        ("Nennt die Frist von zwei Wochen", "Nennt die Frist von zwei Wochen nicht"),
        ("Nennt eine Frist von zwei Wochen", "Nennt keine Frist von zwei Wochen"),
        ("The response says that silence binds", "Does not say that silence binds"),
        ("Erwähnt, dass der Vertrag nichtig ist", "Die Antwort erwähnt nicht, dass der Vertrag nichtig ist"),
        ("Sagt, dass Schweigen bindet", "Sagt niemals, dass Schweigen bindet"),
        ("Mentionne le délai de rétractation", "Ne mentionne pas le délai de rétractation"),
        ("La réponse indique le tribunal compétent", "N'indique jamais le tribunal compétent"),
        ("Cite un arrêt de la Cour de cassation", "Ne cite aucun arrêt de la Cour de cassation"),
    ],
)
def test_opposites_are_contradictory_when_both_are_rewarded(one: str, other: str) -> None:
    assert codes((one, 5), (other, 2)) == ["contradictory_criteria"]
    assert codes((other, -5), (one, -2)) == ["contradictory_criteria"]
    assert codes((one, 5), (other, -2)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Cites Article 2(1) of the Regulation", "Cites Article 21 of the Regulation"),
        ("Names a rate of 3.5 per cent for it", "Names a rate of 35 per cent for it"),
        ("Names a period of < 5 days for it", "Names a period of > 5 days for it"),
        ("Cites Regulation No 44/2001 on courts", "Cites Regulation 44/2001 on courts"),
        ("Explains the last-shot rule", "Explains the knock-out rule"),
        ("Nennt § 433 Abs. 1 BGB", "Nennt § 433 Abs. 2 BGB"),
        ("Erwähnt die Frist für den Käufer", "Erwähnt die Frist für den Verkäufer"),
        ("Mentionne le délai du vendeur", "Mentionne le délai de l'acheteur"),
    ],
)
def test_criteria_that_differ_in_more_than_form_are_left_alone(one: str, other: str) -> None:
    assert codes((one, 5), (other, 5)) == []


@pytest.mark.parametrize(
    "text",
    [
        "TBD",
        "???",
        "n/a",
        "Criterion 12",
        "tbd: ask Ann",
        "Lorem ipsum dolor",
        "[insert article]",
        "See above.",
        "[TBD]",
        "See criterion 3",
        "as in criteria 1 and 2",
        "Siehe oben",
        "wie Kriterium 3",
        "Kriterium 4",
        "Noch offen",
        "[hier den Artikel einfügen]",
        "Nennt Artikel [bitte ergänzen]",
        "À compléter",
        "Voir ci-dessus",
        "cf. critère 2 et 3",
        "Critère 7",
        "Cite l'article [à préciser]",
    ],
)
def test_a_text_that_is_still_to_come_cannot_be_decided(text: str) -> None:
    assert undecidable(text) != ""


@pytest.mark.parametrize(
    "text",
    [
        "Accuracy",
        "Cites R v Lobell [1957]",
        "Todo contrato exige consentimiento",
        "Names none of the exceptions",
        "As a rule, says no",
        "Fills in [your name] placeholder correctly",
        "See criterion for negligence applied to facts",
        "As last resort, names the ombudsman",
        "Wie im Urteil, nennt die Frist",
        "Siehe auch die Frist des Käufers",
        "Keine Haftung des Verkäufers",
        "À défaut, cite le tribunal compétent",
        "Comme la Cour, retient la faute",
        "Nennt BGH [2019] NJW 12",
        "Yes",
    ],
)
def test_a_text_that_is_merely_short_can_be_decided(text: str) -> None:
    assert undecidable(text) == ""


def test_a_fault_may_be_punished_but_not_rewarded() -> None:
    assert codes(("Names the court", 1), ("Incorrectly names the court of appeal", -3)) == []
    assert codes(("Names the court", 1), ("Incorrectly names the court of appeal", 3)) == ["contradictory_criteria"]


@pytest.mark.parametrize(
    "title",
    [
        "Makes an incorrect statement about the limitation period",
        "Contains false information",
        "The response contains hallucinated cases",
        "The response wrongly names the court",
        "Falsely claims that silence binds",
        "Behauptet fälschlicherweise, dass Schweigen bindet",
        "Die Antwort nennt fälschlich die Frist von zwei Wochen",
        "Enthält falsche Angaben zur Verjährung",
        "Erfindet Urteile",
        "Das Modell zitiert erfundene Quellen",
        "Affirme à tort que le silence vaut acceptation",
        "La réponse cite à tort l'article 12",
        "Contient des informations erronées",
        "Omet de citer le tribunal compétent",
    ],
)
def test_what_only_a_bad_answer_does_is_a_fault(title: str) -> None:
    assert codes((title, 3)) == ["contradictory_criteria"]
    assert codes(("Names the court", 1), (title, -3)) == []


@pytest.mark.parametrize(
    "title",
    [
        "Wrongly dismissed employee gets compensation: says so",
        "Incorrectly served notice is identified as void",
        "Falsely imprisoned: identifies the tort",
        "Makes false statements a ground of liability",
        "Erkennt fälschlich erhobene Gebühren",
        "Nennt falsche Angaben als Anfechtungsgrund",
        "Erklärt, dass der Käufer irrtümlich zahlt",
        "Relève que le salarié a été licencié à tort",
        "Omet-elle les délais ? La réponse le dit",
    ],
)
def test_a_fault_of_somebody_else_is_none_of_the_answer(title: str) -> None:
    assert codes((title, 3)) == []


def test_a_point_with_its_subject_is_the_same_as_without() -> None:
    assert codes(("Mentions the withdrawal period", 2), ("The response mentions the withdrawal period.", 2)) == [
        "duplicate_criterion"
    ]
    assert codes(("The answer to the letter binds", 2), ("To the letter binds", 2)) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Nennt die Frist von zwei Wochen", "Die Antwort nennt die Frist von zwei Wochen."),
        ("La réponse mentionne le délai de rétractation", "Mentionne le « délai » de rétractation !"),
        ("Посочва срока за отказ", "посочва срока за отказ."),
    ],
)
def test_a_point_is_the_same_in_any_language_with_other_signs_and_capitals(one: str, other: str) -> None:
    assert codes((one, 2), (other, 2)) == ["duplicate_criterion"]
    assert [issue.code for issue in validate([row("a", (one, 2), (other, 2))]).warnings] == ["duplicate_criterion"]


def test_a_point_that_counts_three_times_has_two_warnings() -> None:
    assert codes(*[("Names the start of the withdrawal period", 2)] * 3) == ["duplicate_criterion"] * 2


def test_a_rubric_of_twenty_thousand_negations_is_linted() -> None:
    criteria = [(f"Does not mention the number {index} of the list", 1.0) for index in range(20_000)]
    assert codes(*criteria) == []


@given(
    st.lists(st.tuples(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False)), max_size=6),
    st.lists(st.text(), max_size=2),
)
def test_any_rubric_can_be_linted(criteria: list[tuple[str, float]], references: list[str]) -> None:
    assert {finding.severity for finding in lint_rubric(rubric(*criteria), references)} <= {"warning"}


def test_only_valid_rows_are_linted() -> None:
    bad = {**row("bad", ("TBD", 1)), "prompt": ""}
    report = validate([row("good", ("TBD", 1)), bad])
    assert [(issue.code, issue.record_id) for issue in report.warnings] == [("unscorable_criterion", "good")]
    assert report.outcome == "accepted_with_record_errors"


def test_the_lint_changes_no_verdict_and_can_be_switched_off() -> None:
    rows = [row("a", ("TBD", 1))]
    assert (validate(rows).outcome, validate(rows).is_valid) == ("accepted", True)
    assert validate(rows, config=ValidationConfig(lint=False)).issues == ()


def test_many_warnings_of_a_kind_are_counted_at_the_last_that_is_listed() -> None:
    report = validate([row(str(index), ("TBD", 1)) for index in range(MAX_ISSUES + 7)])
    assert len(report.warnings) == MAX_ISSUES
    assert report.warnings[-1].message.endswith("(and 7 more like it)")


WORDS = (
    *(
        "The response",
        "La réponse",
        "Die Antwort",
        "States that",
        "Ne mentionne pas",
        "Does not state that",
        "Nennt",
        "keine",
        "eine",
    ),
    *(
        "wrongly",
        "à tort",
        "fälschlich",
        "que",
        "dass",
        "the period",
        "die Frist",
        "le délai",
        "Article 2(1)",
        "срок",
        "TBD",
        "see",
    ),
    *(
        "criterion 3",
        "[insert",
        "name]",
        "{{x}}",
        "never",
        "Contains",
        "false information",
        "not",
        ".",
        "\u2019",
        "É",
        "pas",
        "N/A",
    ),
)
"""Of these, texts of all kinds can be made."""
TITLES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join) | st.text(min_size=1, max_size=20)


class Item(msgspec.Struct):
    """A criterion as validation reads it."""

    id: str
    title: str
    description: str | msgspec.UnsetType = msgspec.UNSET
    weight: float | msgspec.UnsetType = msgspec.UNSET


class Row(msgspec.Struct):
    """A row as validation reads it."""

    rubric: list[Item]
    reference_answers: list[str] | msgspec.UnsetType = msgspec.UNSET


@given(st.lists(st.lists(st.tuples(TITLES, st.sampled_from((-2.0, 0.0, 1.0, 3.0))), min_size=1, max_size=6), max_size=4))
def test_no_rubric_is_cleared_at_a_glance_that_the_lint_warns_of(given_rubrics: list[list[tuple[str, float]]]) -> None:
    warned = [place for place, criteria in enumerate(given_rubrics) if lint_rubric(rubric(*criteria))]
    rows = [Row([Item("c", title.replace("\0", ""), weight=weight) for title, weight in criteria]) for criteria in given_rubrics]
    assert doubtful_rows(rows) == warned


def test_doubtful_rows_are_found_among_many_and_in_blocks_that_are_not_clean() -> None:
    rows = [
        row(f"r{number}", (f"Names the court number {number}", 1), ("States the law of the place", 2)) for number in range(3000)
    ]
    rows[1200]["rubric"][1]["title"] = "TBD"
    rows[2900]["rubric"][0]["title"] = rows[2900]["rubric"][1]["title"]
    rows[2901]["prompt"] = ""
    rows[2902]["unknown"] = 1
    rows[2902]["rubric"][0]["weight"] = 0
    found = {issue.record_id: issue.code for issue in validate(rows).warnings if issue.code in LINTS}
    assert found == {"r1200": "unscorable_criterion", "r2900": "duplicate_criterion", "r2902": "unreachable_criterion"}


def test_a_title_made_of_half_brackets_is_looked_at_in_a_moment() -> None:
    assert codes(("{{" * 100_000, 1.0)) == []
    assert codes(("ne " * 60_000 + "pas", 1.0), ("n'" * 60_000, 1.0)) == []


def test_a_golden_rubric_that_is_still_to_come_is_warned_of() -> None:
    cases = [{"id": f"case-{index}", "user_prompt": "Why?", "rubric": "Must say because."} for index in range(5)]
    cases[3]["rubric"] = "TBD: to be written"
    report = validate({"version": "1.0.0", "cases": cases}, "golden_v1")
    assert [(issue.code, issue.path, issue.record_id) for issue in report.issues] == [
        ("unscorable_criterion", "cases[3].rubric", "case-3")
    ]


SHOP = "The shop is open Monday to Friday 9-18 and Saturday 9-13."


def context_warnings(context: str, rubric: str, prompt: str = "Until when are you open on Saturdays?") -> list[tuple[str, str]]:
    cases: list[dict[str, Any]] = [{"id": f"case-{n}", "user_prompt": "Why?", "rubric": "Must say because."} for n in range(5)]
    cases[3] |= {"context": context, "rubric": rubric, "user_prompt": prompt}
    return [(issue.code, issue.path) for issue in validate({"version": "1.0.0", "cases": cases}, "golden_v1").issues]


@pytest.mark.parametrize(
    ("context", "rubric"),
    [
        (SHOP, "Says that the shop closes at 13:00 on Saturdays."),
        ("Refunds take 14 days after the parcel is back.", "Says that the money is back after 14 days."),
        ("Her doctor is called Marlowe and works in Graz.", "Names Marlowe as the doctor."),
        ("A pot of honey costs 7.50 in this shop.", "States the price of 7.50."),
        ("We deliver on weekdays only, never at night.", "The answer agrees with the provided context."),
        ("We deliver on weekdays only, never at night.", "Answers according to the context."),
        ("Wir liefern nur an Werktagen und nie nachts.", "Antwortet laut Kontext."),
    ],
)
def test_a_golden_rubric_that_relies_on_an_unsent_context_is_warned_of(context: str, rubric: str) -> None:
    assert context_warnings(context, rubric) == [("unsent_context", "cases[3].context")]


@pytest.mark.parametrize(
    ("context", "rubric"),
    [
        ("Simple arithmetic test", "States that the answer is 4."),
        ("Edge case - philosophical/semantic question", "Should acknowledge that this is a philosophical/semantic question."),
        ("Missing location - should ask for clarification", "Should ask for clarification of the location."),
        ("Test 12 of the series, added 2024", "Takes at most 12 lines, as in 2024."),
        ("The answer is 473, written in words or digits", "States about 473 ml."),
        ("Common misconception test", "May include brief additional context about why Canberra was chosen."),
        ("asked by tourists", "Names Lima and nothing else."),
        (SHOP, "Is polite and takes at most 2 sentences."),
        (SHOP, "Explains opening hours in the context of local law."),
    ],
)
def test_notes_about_a_golden_case_are_not_taken_for_its_material(context: str, rubric: str) -> None:
    assert context_warnings(context, rubric) == []


def test_a_golden_prompt_that_says_what_the_rubric_asks_for_needs_no_context() -> None:
    assert context_warnings(SHOP, "Says that the shop closes at 13:00.", prompt=f"{SHOP} Until when?") == []
    assert context_warnings(SHOP, "Says that the shop closes at 13.", prompt="You close at 13 on Saturdays. When?") == []


GOLDEN = REALDATA.parent / "golden"


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="ASSAY_REALDATA names no folder")
def test_notes_of_real_golden_files_are_not_taken_for_material() -> None:
    """Each of them describes its case (`Basic current weather query for major US city`)."""
    files = [msgspec.json.decode(path.read_bytes()) for path in sorted(GOLDEN.glob("*.json"))]
    cases = [case for file in files for case in (file["cases"] if isinstance(file, dict) else file) if case.get("context")]
    noted = [case for case in cases if isinstance(case["context"], str) and "rubric" in case]
    assert len(noted) == 31
    facts = [fact_of_context(case["context"], rubric=case["rubric"], prompt=case.get("user_prompt", "")) for case in noted]
    assert set(facts) == {""}


@pytest.mark.skipif(not REALDATA.is_dir(), reason="ASSAY_REALDATA names no folder")
def test_real_rubrics_of_experts_have_no_warnings() -> None:
    report = validate(REALDATA / "merged_legal_eval_v1.HEAD.jsonl", config=ValidationConfig(lint=True))
    assert report.counts.total_records == 125
    assert [issue for issue in report.warnings if issue.code in LINTS] == []
