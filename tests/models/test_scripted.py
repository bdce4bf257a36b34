"""Scripted models, by name and from code."""

import asyncio

import msgspec
import pytest

from assay.core.errors import UsageProblem
from assay.core.model_call import ModelFailure, ModelRequest, Reply
from assay.models import check_models
from assay.testing import ScriptedModel, named_script
from tests.models.asking import ask_of, class_of, plan_of, provider_of, reply_to

QUESTION = "Which one?\n\nA. Paris\nB. Rome\nC. Bern\n\nAnswer with JSON."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("echo", QUESTION),
        ("empty", ""),
        ("say-It is 4.", "It is 4."),
        ("slow-1", QUESTION),
        ("flaky-0", QUESTION),
        ("mcq-first", '{"answer":"A","reasoning":"It is the option that the script names."}'),
        ("mcq-last", '{"answer":"C","reasoning":"It is the option that the script names."}'),
        ("mcq-any", '{"answer":"A","reasoning":"It is the option that the script names."}'),
        ("judge-any", '{"score":5,"justification":"The script gives this answer the score 5."}'),
        ("judge-5", '{"score":5,"justification":"The script gives every answer the score 5."}'),
    ],
)
def test_a_named_script_says_the_same_every_time(name: str, text: str) -> None:
    plan = plan_of(provider_of("scripted"), name)
    assert [reply_to(plan, ask_of(QUESTION)).text for _ in range(2)] == [text, text]


@pytest.mark.parametrize("option", ["A) Paris", "(A) Paris", "A: Paris", "[A] Paris", "- A. Paris", "**A.** Paris"])
def test_options_are_recognised_in_every_common_form(option: str) -> None:
    text = reply_to(plan_of(provider_of("scripted"), "mcq-first"), ask_of(f"Which one?\n{option}\n")).text
    assert text.startswith('{"answer":"A"')


def test_any_option_is_another_one_for_another_sample() -> None:
    plan = plan_of(provider_of("scripted"), "mcq-any")
    asks = [msgspec.structs.replace(ask_of(QUESTION), sample=sample) for sample in range(8)]
    assert len({reply_to(plan, ask).text for ask in asks}) > 1


def test_a_failing_script_fails_with_its_code() -> None:
    assert class_of(plan_of(provider_of("scripted"), "fail-rate_limited")) == "rate_limited"
    assert class_of(plan_of(provider_of("scripted"), "fail-refused")) == "permanent"


@pytest.mark.parametrize(("attempts", "expected"), [(2, "service_unavailable"), (3, "ok")])
def test_a_flaky_script_recovers_after_its_failures(attempts: int, expected: str) -> None:
    assert class_of(plan_of(provider_of("scripted"), "flaky-2"), attempts=attempts) == expected


def test_an_unknown_script_is_a_problem_before_the_run() -> None:
    plan = plan_of(provider_of("scripted"), "judge-9")
    assert check_models(plan, environ={})[0].startswith("there is no scripted model 'judge-9'; there are echo")
    with pytest.raises(UsageProblem, match="judge-9"):
        reply_to(plan)


def test_words_are_counted_as_tokens() -> None:
    usage = reply_to(plan_of(provider_of("scripted"), "say-one two three"), ask_of("a b")).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (2, 3, 5)


def test_a_list_is_said_in_its_order_and_then_fails() -> None:
    model = ScriptedModel(["first", Reply(text="second", model="x"), ModelFailure("timeout", "late")])
    assert asyncio.run(model.reply(ask_of())).text == "first"
    assert asyncio.run(model.reply(ask_of())).model == "x"
    with pytest.raises(ModelFailure, match="late"):
        asyncio.run(model.reply(ask_of()))
    with pytest.raises(ModelFailure, match="no answer left"):
        asyncio.run(model.reply(ask_of()))


def test_an_empty_text_in_a_list_is_an_answer() -> None:
    assert asyncio.run(ScriptedModel([""]).reply(ask_of())).text == ""


def test_a_function_sees_the_ask_and_the_model_remembers_it() -> None:
    def shout(ask: ModelRequest) -> str:
        return ask.messages[-1].content.upper()

    model = ScriptedModel(shout)
    assert asyncio.run(model.reply(ask_of("hello"))).text == "HELLO"
    assert list(model.asks) == [ask_of("hello")]


def test_a_named_script_may_be_used_from_code() -> None:
    assert asyncio.run(ScriptedModel(named_script("echo")).reply(ask_of("hello"))).text == "hello"
