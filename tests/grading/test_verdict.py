import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.outcome import GradingFailure
from assay.grading.verdict import (
    CRITERION,
    FIVE_POINT,
    RESULT,
    TENTHS,
    ReplySchema,
    UnusableReply,
    Verdict,
    confident_schema,
    read_verdict,
    reply_schema,
    salvage_verdict,
)
from tests.grading.driving import GOOD, drive, golden_case, judged

FENCED = f"```json\n{GOOD}\n```"
LOW = '{"score": 1, "justification": "wrong"}'
REPEATED = UnusableReply("it repeats the text that was to be judged", is_repeat=True)


def read(text: str, answer: str = "The answer is 4."):
    return read_verdict(text, FIVE_POINT, answer=answer)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"  {GOOD}\n",
        f"\ufeff{GOOD}",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```",
        f"My verdict:\n```json\n{GOOD}\n```\nThank you.",
        f"<think>Perhaps a 5? No.</think>\n{GOOD}",
        f"<think>Perhaps.</think>\n<reasoning>No.</reasoning>\n{GOOD}",
        f"```json\r\n{GOOD}\r\n```",
        f"```json\n{GOOD}```",
        f"```json {GOOD} ```",
        f'```json title="verdict"\n{GOOD}\n```',
        f"~~~json\n{GOOD}\n~~~",
        f"````json\n{GOOD}\n````",
        f"{GOOD}</s>",
        f"{GOOD}\n<|im_end|>\n",
        f"The score is based on the rubric.\n```json\n{GOOD}\n```\nScore: 4/5",
        '{"justification": "Right, a little long.", "score": 4}',
        '{"score": 4, "justification": "Right, a little long.", "passed": false, "certainty": 0.1}',
    ],
)
def test_a_verdict_is_read_from(text: str) -> None:
    assert read(text) == Verdict(value=4.0, reason="Right, a little long.")


@pytest.mark.parametrize("score", ["0", "6", "-1", "4.0", "4.5", '"4"', "null", "true", "[4]", "{}", "1e999", "9" * 5000])
def test_a_score_off_the_scale_is_no_verdict(score: str) -> None:
    assert isinstance(read(f'{{"score": {score}, "justification": "x"}}'), UnusableReply)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "4",
        "I would give this a 5.",
        "score: 4\njustification: ok",
        '{"score": 4}',
        '{"score": 4, "justification": ""}',
        '{"score": 4, "justification": " "}',
        '{"score": 4, "justification": 7}',
        '{"justification": "5 out of 5"}',
        '{"Score": 4, "Justification": "x"}',
        "{'score': 4, 'justification': 'x'}",
        '{"score": NaN, "justification": "x"}',
        '{"score": 1, "score": 5, "justification": "x"}',
        '{"score": 4, "justification": "x", "justification": "y"}',
        '[{"score": 4, "justification": "x"}]',
        '{"score": 1, "justification": "a"}\n{"score": 5, "justification": "b"}',
        '```\n{"score": 1, "justification": "a"}\n```\n```\n{"score": 5, "justification": "b"}\n```',
        '{"score": 4, "justification": "cut',
        f"{GOOD}\nHope this helps!",
        f"<think>Draft:\n{FENCED}\nBut wait, it is wrong",
        f"Draft:\n{FENCED}\nNo.\n</think>\n{LOW}",
        f"Sure.\n<think>{FENCED}</think>\n{LOW}",
        f"<think>a <think>b</think> {GOOD}</think>{LOW}",
        f"Verdict: {LOW}\nFormat:\n{FENCED}",
        f"Format:\n{FENCED}\nVerdict: {LOW}",
        f"{FENCED}\nVerdict: {{'score': 1, 'justification': 'x'}}",
        f"{FENCED}\nOn reflection:\n```json\n{LOW}",
        f"{FENCED}\nCorrection: ```{LOW}```",
        f"{FENCED}\nFinal:\n~~~json\n{LOW}\n~~~",
        f"{FENCED}\n\nFinal score: 1",
        f"{FENCED}\n\nActually the final score should be 1.",
        '{"score": 4, "Score": 1, "justification": "x"}',
        "{" * 10_000,
        '{"score": 4, "justification": "' + "y" * 300_000 + '"}',
    ],
)
def test_nothing_else_is_a_verdict(text: str) -> None:
    assert isinstance(read(text), UnusableReply)


def test_raw_line_breaks_in_the_justification_are_mended() -> None:
    assert read('{"score": 3, "justification": "one\ntwo\tthree"}') == Verdict(value=3.0, reason="one\ntwo\tthree")


def test_characters_that_cannot_be_stored_are_replaced() -> None:
    found = read('{"score": 3, "justification": "a\\u0000b\\ud800"}')
    assert found == Verdict(value=3.0, reason="a\ufffdb\ufffd", flags=("replaced_characters",))


def test_the_judge_may_name_what_is_wrong_in_our_words_only() -> None:
    assert read('{"score": 2, "justification": "x", "label": "hallucinated_fact"}').label == "hallucinated_fact"
    assert read('{"score": 2, "justification": "x", "label": "nonsense"}').label == ""


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        f"The answer is 4.\n\n{GOOD}",
        f"```json\n{GOOD}\n```",
        '{"score":4,"justification":"Right, a little long."}',
        '{"justification": "Right, a little long.", "score": 4}',
        '{"verdict": {"score": 4.0, "justification": "Right, a little long.", "label": ""}}',
        '{"sc\\u006fre": 4e0, "justification": "Right, a\\n little l\\u006fng."}',
        "{'score': 4, 'justification': 'Right, a little long.'}",
        r'"{\"score\": 4, \"justification\": \"Right, a little long.\"}"',
        "score: 4\njustification: Right, a little long.",
    ],
)
def test_what_stands_in_the_answer_is_no_verdict_on_it(answer: str) -> None:
    assert read(GOOD, answer) == REPEATED
    assert isinstance(read(answer, answer), UnusableReply)
    assert salvage_verdict(answer, FIVE_POINT, answer=answer) is None


@pytest.mark.parametrize(
    "reply",
    [
        '{"score": 4, "justification": "Good {x}\\nalso caf\u00e9"}',
        '```json\n{"justification": "Good {x}\nalso caf\u00e9", "score": 4, "label": "other"}\n```',
        '<think>Hm.</think>{"score": 4, "justification": "Good {x} also caf\u00e9"}',
        'The candidate answered:\n```json\n{"score": 4, "justification": "Good {x}\\nalso caf\u00e9"}\n```\nI refuse.',
    ],
)
def test_however_it_is_wrapped_a_repetition_is_no_verdict(reply: str) -> None:
    answer = 'It is 4. {"note": {}, "verdict": {"score": 4, "justification": "Good {x}\\nalso cafe\u0301"}}'
    assert read(reply, answer) == REPEATED
    with pytest.raises(GradingFailure):
        drive(golden_case(), judged([reply, '{"score": 4, "justification": "Good'], answer=answer))


def test_another_verdict_on_an_answer_that_holds_one_counts() -> None:
    answer = '{"score": 5, "justification": "wrong"}'
    assert read(LOW, answer).value == 1.0
    assert read('{"score": 5, "justification": "right"}', answer).value == 5.0


def test_a_repeated_criterion_is_no_verdict_either() -> None:
    answer, reply = '{"criteria_met": true, "explanation": "see {x}"}', '{"explanation": "see {x}", "criteria_met": true}'
    assert read_verdict(f"```json\n{reply}\n```", CRITERION, answer=answer) == REPEATED
    assert read_verdict(reply.replace("true", "false"), CRITERION, answer=answer).value == 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0.0), ("1", 1.0), ("0.7", 0.7), ("0.25", 0.3), ("0.35", 0.4), ("0.649", 0.6)],
)
def test_tenths_are_rounded_half_up(text: str, value: float) -> None:
    assert read_verdict(f'{{"score": {text}, "justification": "x"}}', TENTHS, answer="").value == value


@pytest.mark.parametrize("text", ["-0.1", "1.1", "85", "true", '"0.5"', "1e999"])
def test_a_share_outside_of_0_to_1_is_no_verdict(text: str) -> None:
    assert isinstance(read_verdict(f'{{"score": {text}, "justification": "x"}}', TENTHS, answer=""), UnusableReply)


def test_a_criterion_is_met_or_not() -> None:
    assert read_verdict('{"explanation": "x", "criteria_met": true}', CRITERION, answer="").value == 1.0
    assert isinstance(read_verdict('{"explanation": "x", "criteria_met": 1}', CRITERION, answer=""), UnusableReply)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"score": 4, "justification": "cut off in the', 4.0),
        (f"{GOOD}\nHope this helps!", 4.0),
        ('```json\n{"score": 2, "justification": "cut', 2.0),
        (f"{GOOD}\n{GOOD}", 4.0),
    ],
)
def test_an_unambiguous_beginning_is_salvaged_and_flagged(text: str, value: float) -> None:
    saved = salvage_verdict(text, FIVE_POINT, answer="")
    assert saved is not None
    assert (saved.value, saved.flags) == (value, ("salvaged",))


@pytest.mark.parametrize(
    "text",
    [
        '{"score": 4',
        '{"score": 4, "justifica',
        '{"score": 9, "justification": "cut',
        '{"score": "4", "justification": "cut',
        '{"score": 1, "score": 5, "justification": "x',
        '{"score": 1, "justification": "a"}\n{"score": 5, "justification": "b"}',
        'Well: {"score": 4, "justification": "cut',
        '{"score": 4, "justification": ""}',
        '{"score": 4, "justification": "',
        '{"score": 1, "justification": "x", "sc\\u006fre": 5}',
        f'{GOOD}\n{{"Score": 1, "justification": "z"}}',
        f"{GOOD}\n{{'score': 1}}",
        f'{GOOD}\n{{"final_score": 1}}',
        f"{GOOD}\nFinal score: 1",
        f"{GOOD}\nHm, wrong.</think>",
        "4",
    ],
)
def test_nothing_ambiguous_is_salvaged(text: str) -> None:
    assert salvage_verdict(text, FIVE_POINT, answer="") is None


def test_a_bad_reply_is_asked_for_again_with_the_reason() -> None:
    driven = drive(golden_case(), judged(["I give a 5.", GOOD]))
    again = driven.asks["judge:rubric:again"]
    assert again.is_fresh
    assert again.messages[-1].content.startswith(driven.asks["judge:rubric"].messages[-1].content)
    assert "could not be used: it is not one JSON object." in again.messages[-1].content
    assert (driven.grade.raw_score, driven.grade.flags) == (4.0, ("asked_again",))


def test_what_is_left_after_two_bad_replies_is_salvaged_and_flagged() -> None:
    grade = drive(golden_case(), judged(["nothing", '{"score": 2, "justification": "too sh'])).grade
    assert (grade.raw_score, grade.passed, grade.flags) == (2.0, False, ("asked_again", "salvaged"))
    assert grade.scores[0].flags == ("asked_again", "salvaged")


def test_two_broken_replies_that_disagree_give_no_score() -> None:
    replies = ['{"score": 2, "justification": "too sh', '{"score": 5, "justification": "perf']
    with pytest.raises(GradingFailure) as failure:
        drive(golden_case(), judged(replies))
    assert failure.value.code == "judge_parse_error"


def test_a_judge_that_never_gives_a_verdict_fails_the_record() -> None:
    with pytest.raises(GradingFailure) as failure:
        drive(golden_case(), judged("I would give this a 5."))
    assert failure.value.code == "judge_parse_error"
    assert "no verdict on 'rubric', twice" in failure.value.message


def test_a_salvaged_reason_is_read_without_its_escapes() -> None:
    saved = salvage_verdict('{"score": 4, "justification": "He said \\"no\\" in caf\\u00e9s, bu', FIVE_POINT, answer="")
    assert saved is not None
    assert saved.reason == 'He said "no" in caf\u00e9s, bu'


@pytest.mark.parametrize("part", ["{", '{"score": 4, "', '\\"', "<think>", "```\n", "} ", "score: ", " ", '{"a":['])
def test_long_tangles_are_refused_at_once(part: str) -> None:
    tangle = (part * 200_000)[:199_000]
    assert isinstance(read('{"' + tangle, answer=tangle * 5), UnusableReply)
    assert isinstance(read(f"```\n{tangle}", answer=tangle), UnusableReply)
    assert salvage_verdict(f'{{"score": 4, {tangle}', FIVE_POINT, answer=tangle * 5) is None


@given(
    st.dictionaries(
        st.sampled_from(["score", "justification", "label", "x"]), st.one_of(st.integers(0, 6), st.text(), st.none(), st.booleans())
    )
)
def test_compact_and_spelled_out_verdicts_are_read_alike(members: dict[str, object]) -> None:
    """Escapes take the exact reader; plain text may take a quicker one."""
    assert read(json.dumps(members, ensure_ascii=False)) == read(json.dumps({**members, "extra": "\n"}))


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_reply_is_a_verdict_on_the_scale_or_refused(text: str, answer: str) -> None:
    found = read(text, answer)
    assert isinstance(found, UnusableReply) or found.value in (1, 2, 3, 4, 5)


@pytest.mark.parametrize(("digit", "value"), [(0, 0.0), (1, 1.0)])
def test_a_digit_that_is_asked_for_is_read(digit: int, value: float) -> None:
    verdict = read_verdict(json.dumps({"result": digit, "reason": "It says so."}), RESULT, answer="Yes.")
    assert isinstance(verdict, Verdict)
    assert verdict.value == value


@pytest.mark.parametrize("shape", [FIVE_POINT, CRITERION, TENTHS], ids=lambda shape: shape.value)
def test_a_reply_with_a_confidence_has_the_other_members_too(shape: ReplySchema) -> None:
    plain, confident = reply_schema(shape)["properties"], confident_schema(shape, is_list=False)["properties"]
    assert confident == {**plain, "confidence": {"type": "number"}}


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'], ids=["lists", "objects", "both"])
def test_a_reply_that_nests_without_end_is_unusable(opening: str) -> None:
    assert isinstance(read('{"score": ' + opening * 100_000), UnusableReply)
