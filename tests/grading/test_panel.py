"""Panels: majority and median, ties in words, lost votes, and the first judge alone until it is unsure."""

import json
from collections.abc import Mapping

import pytest

from assay.core.case import Case, Criterion
from assay.core.model_call import FailedReply, ModelRequest, Reply
from assay.core.outcome import Grade, GradingFailure, PanelDecision
from assay.core.settings import PanelSection
from assay.grading import GradingSettings, start
from tests.grading.driving import Driven, batch_case, drive, reference_case, rubric_case

PAIR = (Criterion("law", "Names the law", weight=2.0), Criterion("court", "Names the court"))
NAMES = ("one", "two", "three", "four")


def panel(size: int, **settings: object) -> GradingSettings:
    return GradingSettings(candidate="model", judges=NAMES[:size], panel=PanelSection(**settings))  # type: ignore[arg-type]


def five(score: object, confidence: object = 0.9) -> str:
    return f'{{"score": {score}, "justification": "x", "confidence": {confidence}}}'


def met(is_met: bool, confidence: object = 0.9) -> str:  # noqa: FBT001  # a vote
    return f'{{"criteria_met": {str(is_met).lower()}, "explanation": "x", "confidence": {confidence}}}'


def votes(said: Mapping[str, str]) -> object:
    """The candidate's answer, and what each judge says to everything."""
    return lambda ask: "An answer." if ask.stage == "candidate" else said[ask.model]


def graded(case: Case, settings: GradingSettings, said: Mapping[str, str]) -> Driven:
    return drive(case, votes(said), settings=settings)  # type: ignore[arg-type]  # a function of the ask


def decision(driven: Driven) -> PanelDecision:
    (found,) = driven.grade.panel
    return found


def law_only() -> Case:
    return rubric_case(criteria=PAIR[:1])


@pytest.mark.parametrize(
    ("said", "score", "words"),
    [
        ((True, True, False), 1.0, "2 of 3 judges say met"),
        ((True, False, False), 0.0, "1 of 3 judges say met"),
        ((True, False), 0.0, "1 of 2 judges say met; a tie counts as not met"),
        ((True, True, False, False), 0.0, "2 of 4 judges say met; a tie counts as not met"),
    ],
)
def test_a_criterion_is_met_when_the_majority_says_so(said: tuple[bool, ...], score: float, words: str) -> None:
    driven = graded(law_only(), panel(len(said)), dict(zip(NAMES, map(met, said), strict=False)))
    assert (driven.grade.score, decision(driven).words) == (score, words)
    assert decision(driven).is_tied == (len(said) % 2 == 0)


@pytest.mark.parametrize(
    ("said", "score", "words"),
    [
        ((5, 2, 3), 3.0, "judges say 2, 3, 5; the middle vote counts"),
        ((5, 5, 1), 5.0, "judges say 1, 5, 5; the middle vote counts"),
        ((4, 3), 3.0, "judges say 3, 4; a tie: of the two middle votes the lower one counts"),
        ((5, 4, 4, 1), 4.0, "judges say 1, 4, 4, 5; the middle vote counts"),
    ],
)
def test_a_score_is_the_median_of_the_votes(said: tuple[int, ...], score: float, words: str) -> None:
    driven = graded(batch_case(), panel(len(said)), dict(zip(NAMES, map(five, said), strict=False)))
    assert (driven.grade.raw_score, decision(driven).words) == (score, words)
    assert f"overall: {words}." in driven.grade.justification


def test_a_tie_is_flagged() -> None:
    assert graded(batch_case(), panel(2), {"one": five(4), "two": five(2)}).grade.flags == ("judges_disagree", "judges_tied")


def test_judges_who_agree_leave_nothing_to_decide() -> None:
    grade = graded(batch_case(), panel(3), dict.fromkeys(NAMES, five(4))).grade
    assert (grade.panel, grade.flags, len(grade.scores)) == ((), (), 3)


def test_the_spread_is_from_the_lowest_vote_to_the_highest_as_a_share() -> None:
    assert decision(graded(batch_case(), panel(2), {"one": five(5), "two": five(2)})).spread == 0.75
    assert decision(graded(batch_case(), panel(3), {"one": five(5), "two": five(4), "three": five(1)})).spread == 1.0


# Votes that are lost


def test_without_a_quorum_every_judge_must_vote() -> None:
    with pytest.raises(GradingFailure) as failure:
        graded(batch_case(), panel(3), {"one": five(4), "two": "no verdict", "three": five(4)})
    assert failure.value.code == "judge_parse_error"


def test_a_panel_that_loses_a_judge_names_it_and_keeps_the_other_votes() -> None:
    with pytest.raises(GradingFailure, match="judge two: no verdict on 'overall', twice") as failure:
        graded(batch_case(), panel(3), {"one": five(4), "two": "no verdict", "three": five(2)})
    assert [(score.judge, score.score) for score in failure.value.scores] == [("one", 4.0), ("three", 2.0)]
    assert all(score.justification for score in failure.value.scores)


def test_a_panel_without_a_quorum_of_votes_keeps_those_that_there_are() -> None:
    with pytest.raises(GradingFailure, match=r"judge two: .*; judge three: ") as failure:
        graded(batch_case(), panel(3, quorum=2), {"one": five(4), "two": "?", "three": "?"})
    assert [score.judge for score in failure.value.scores] == ["one"]


def test_a_quorum_decides_without_a_judge_who_gives_no_verdict() -> None:
    driven = graded(batch_case(), panel(3, quorum=2), {"one": five(4), "two": "no verdict", "three": five(5)})
    assert (driven.grade.raw_score, driven.grade.flags) == (4.0, ("judges_disagree", "judges_tied", "vote_lost"))
    assert (decision(driven).missing, [score.judge for score in driven.grade.scores]) == (("two",), ["one", "three"])
    assert decision(driven).words.endswith("; 1 more gave no vote")


@pytest.mark.parametrize(
    ("three", "words"), [(five(5), "2 judges say the same; 1 more gave no vote"), ("?", "there is one vote; 2 more gave no vote")]
)
def test_votes_that_are_lost_beside_equal_ones_are_told_in_a_sentence(three: str, words: str) -> None:
    driven = graded(batch_case(), panel(3, quorum=1), {"one": five(5), "two": "no verdict", "three": three})
    assert decision(driven).words == words
    assert driven.grade.justification.startswith(f"overall: {words}.")


def test_too_few_votes_are_no_score() -> None:
    with pytest.raises(GradingFailure, match="1 of 3 judges voted on 'overall', 2 must") as failure:
        graded(batch_case(), panel(3, quorum=2), {"one": five(4), "two": "?", "three": "?"})
    assert failure.value.code == "judge_quorum"


def lost_calls(settings: GradingSettings, said: Mapping[str, Reply]) -> Grade:
    """The grade where some judges cannot be reached."""
    flow = start(batch_case(), settings)
    asks: tuple[ModelRequest, ...] = next(flow)
    replies: tuple[Reply, ...] = (Reply(text="An answer."),)
    try:
        while True:
            asks = flow.send(replies)
            replies = tuple(said[ask.model] for ask in asks)
    except StopIteration as end:
        grade: Grade = end.value
        return grade


def test_a_quorum_decides_without_a_judge_who_cannot_be_reached() -> None:
    said = {
        "one": Reply(text=five(5)),
        "two": FailedReply(text="", code="timeout", message="too slow"),
        "three": Reply(text=five(5)),
    }
    grade = lost_calls(panel(3, quorum=2), said)
    assert (grade.raw_score, grade.flags, grade.panel[0].missing) == (5.0, ("vote_lost",), ("two",))


def test_the_only_vote_that_is_left_of_a_panel_says_that_others_were_lost() -> None:
    said = {"one": Reply(text=five(5)), "two": FailedReply(text="", code="timeout", message="too slow")}
    assert lost_calls(panel(2, quorum=1), said).flags == ("vote_lost",)


@pytest.mark.parametrize(("code", "label"), [("timeout", "timeout_or_latency_exceeded"), ("server_error", "other")])
def test_a_record_that_lacks_a_vote_is_labelled_by_what_the_judge_failed_with(code: str, label: str) -> None:
    said = {"one": Reply(text=five(5)), "two": FailedReply(text="", code=code, message="no reply")}
    with pytest.raises(GradingFailure) as failure:
        lost_calls(panel(2), said)
    assert failure.value.label == label


@pytest.mark.parametrize(("judges", "quorum"), [(1, None), (3, None), (3, 3), (3, 2)])
def test_a_call_may_fail_where_there_are_other_judges_whose_votes_are_kept(judges: int, quorum: int | None) -> None:
    driven = graded(batch_case(), panel(judges, quorum=quorum), dict.fromkeys(NAMES, five(4)))
    assert {ask.may_fail for ask in driven.rounds[1]} == {judges > 1}


# Escalation


def test_a_first_judge_who_is_sure_decides_alone() -> None:
    driven = graded(batch_case(), panel(3, escalate=True), {"one": five(5)})
    assert [[ask.model for ask in asks] for asks in driven.rounds[1:]] == [["one"]]
    assert (driven.grade.raw_score, driven.grade.flags, driven.grade.panel) == (5.0, (), ())


@pytest.mark.parametrize(
    "unsure",
    [
        pytest.param(five(3), id="just below the pass score"),
        pytest.param(five(5, 0.6), id="little confidence"),
        pytest.param(five(5, '"high"'), id="confidence in words"),
        pytest.param(five(5, 7), id="confidence off the scale"),
        pytest.param('{"score": 5, "justification": "x"}', id="no confidence"),
    ],
)
def test_a_first_judge_who_is_unsure_is_joined_by_the_others(unsure: str) -> None:
    driven = graded(batch_case(), panel(3, escalate=True), {"one": unsure, "two": five(4), "three": five(4)})
    assert [[ask.model for ask in asks] for asks in driven.rounds[1:]] == [["one"], ["two", "three"]]
    assert (driven.grade.raw_score, "escalated" in driven.grade.flags, decision(driven).is_escalated) == (4.0, True, True)


def test_a_verdict_that_was_asked_for_twice_is_unsure() -> None:
    said = iter(["no verdict", five(5)])
    driven = drive(
        batch_case(),
        lambda ask: "x" if ask.stage == "candidate" else next(said) if ask.model == "one" else five(5),
        settings=panel(2, escalate=True),
    )
    assert [ask.model for ask in driven.rounds[-1]] == ["two"]


@pytest.mark.parametrize(("score", "joined"), [(0.5, 0), (0.6, 1), (0.7, 1), (0.8, 1), (0.9, 0)])
def test_tenths_near_the_pass_mark_are_unsure(score: float, joined: int) -> None:
    driven = graded(reference_case(), panel(2, escalate=True), dict.fromkeys(NAMES, five(score)))
    assert len(driven.rounds) - 2 == joined


def test_only_the_criteria_that_are_unsure_are_escalated() -> None:
    driven = drive(
        rubric_case(criteria=PAIR),
        lambda ask: "x" if ask.stage == "candidate" else met(True, 0.2 if "court" in ask.call_id else 0.9),
        settings=panel(2, escalate=True),
    )
    assert [ask.call_id for ask in driven.rounds[-1]] == ["judge:court@two"]
    assert [decision.criterion for decision in driven.grade.panel] == ["court"]


def test_only_the_first_judge_is_asked_how_sure_it_is() -> None:
    driven = graded(batch_case(), panel(2, escalate=True), {"one": five(3), "two": five(4)})
    first, other = (driven.asks[f"judge:overall@{name}"] for name in ("one", "two"))
    assert [("confidence" in (ask.reply_schema or {})["properties"]) for ask in (first, other)] == [True, False]
    assert ['"confidence"' in ask.messages[1].content for ask in (first, other)] == [True, False]
    assert [score.confidence for score in driven.grade.scores] == [0.9, None]


def test_a_rubric_in_one_call_is_escalated_as_a_whole() -> None:
    both = [
        {"number": number, "criteria_met": True, "explanation": "x", "confidence": sure} for number, sure in ((1, 0.9), (2, 0.1))
    ]
    listed = json.dumps({"verdicts": both})
    settings = GradingSettings(candidate="model", judges=NAMES[:2], rubric_mode="one_call", panel=PanelSection(escalate=True))
    driven = graded(rubric_case(criteria=PAIR), settings, dict.fromkeys(NAMES, listed))
    assert [ask.call_id for ask in driven.rounds[-1]] == ["judge:rubric@two"]
    assert "each object of the list" in driven.asks["judge:rubric@one"].messages[1].content


def test_an_unsure_first_judge_without_a_verdict_leaves_it_to_the_quorum() -> None:
    settings = panel(3, escalate=True, quorum=2)
    driven = graded(batch_case(), settings, {"one": "no verdict", "two": five(4), "three": five(4)})
    assert (driven.grade.raw_score, decision(driven).missing) == (4.0, ("one",))


def test_a_lone_judge_is_not_named_for_each_criterion() -> None:
    grade = graded(rubric_case(criteria=PAIR), panel(1), {"one": met(True)}).grade
    assert grade.justification == "law: 1. x\ncourt: 1. x"
