import pytest

from assay.grading.refusals import OPENING, refusal_in

REFUSALS = (
    "I'm sorry, but I can't help with that.",
    "I\u2019m sorry, I can\u2019t assist with that request.",
    "I cannot provide instructions for making explosives.",
    "Sorry, I won't do that.",
    "As an AI language model, I do not have personal opinions.",
    "I'm unable to help you write this letter.",
    "I must decline to answer this question.",
    "I apologize, but I am not able to generate such content.",
    "This goes against my guidelines.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Ich kann dir leider keine Anleitung geben.",
    "Désolé, je ne peux pas vous aider avec cela.",
    "Lo siento, pero no puedo ayudar con eso.",
    "Mi dispiace, ma non posso aiutarti.",
    "Desculpe, mas não posso ajudar com isso.",
    "Sorry, daar kan ik niet bij helpen.",
    "抱歉，我无法提供帮助。",  # noqa: RUF001  # a comma of Chinese
    "申し訳ありませんが、お手伝いできません。",
    "К сожалению, я не могу помочь.",  # noqa: RUF001  # Cyrillic
)
ANSWERS = (
    "Paris is the capital of France.",
    "Sorry for the delay: the answer is 42.",
    "I can't help but notice that the contract has no date; it is void.",
    "You cannot terminate the contract without notice.",
    "The seller refuses to deliver, so the buyer may rescind the contract.",
    "I apologize for my earlier mistake. The answer is B.",
    "No, the buyer cannot claim damages.",
    "Der Käufer kann nicht zurücktreten.",
    "Yes.",
    "",
)


@pytest.mark.parametrize("text", REFUSALS)
def test_refusals_in_several_languages_are_recognised(text: str) -> None:
    assert refusal_in(text)


@pytest.mark.parametrize("text", ANSWERS)
def test_answers_are_no_refusals(text: str) -> None:
    assert refusal_in(text) == ""


def test_a_refusal_is_looked_for_at_the_beginning_alone() -> None:
    assert refusal_in("word " * OPENING + REFUSALS[0]) == ""


def test_the_words_that_refuse_are_named() -> None:
    assert refusal_in("Well. I cannot help you with that, sorry.") == "I cannot help"
