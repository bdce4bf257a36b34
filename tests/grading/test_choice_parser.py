import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.case import Choice
from assay.grading.mcq import selected_choices
from tests.grading.driving import mcq_case

CHOICES = mcq_case().choices
NOT_READABLE = [
    "",
    "I do not know.",
    "the answer is a river",
    "A) Paris\nB) London",
    "B) Paris",
    "<think>The answer is B",
    '{"answer": "Z"}',
    '{"answer": ["A", "Z"]}',
    '{"answer": "A", "answer": "B"}',
    '{"answer": []}',
    '{"answer": null}',
    '{"answer": {"id": "B"}}',
    "A is a good letter.",
    "A or B",
    "(A) or (B)",
    "A) or B)",
    "The answer is A or B.",
    "The answer is either A or B.",
    "The answer is A or possibly B.",
    "The answer is A unless B holds.",
    '{"answer": "(A) or (B)"}',
    '{"answer": "A. or B."}',
    '{"answer": ["A or B"]}',
    "Antwort: A oder B",
    "A) is wrong.",
    "A. Incorrect, since Paris is in France.",
    "A. No.",
    "A) Paris is wrong",
    "A) Paris - wrong",
    "Answer: A (incorrect)",
    "The incorrect options are A and C.",
    "Not A",
    "The answer is not B",
    "The answer is neither A nor B.",
    "La réponse n'est pas B.",
    "答案不是B",
    "I would not choose B.",
    "A\nB",
    "Answer:\nA\nC",
    "B?",
    "Is the answer B?",
    "The answer is A. Wait, no. B.",
    "If the question meant x, the answer is A; otherwise the answer is B",
    "The answer is B) Paris.",
    "1. First we note that B is bigger.",
    "Final answer: A. Final answer: B",
    "Answer: A\nAnswer: B",
    "The answer is a\nriver",
    "Answer: A contract: it is void.",
    "A London",
    "<answer>A or B</answer>",
    "<answer>A</answer><answer>B</answer>",
    "<answer>I do not know</answer>",
    "The closest option is (B), but it is not the correct answer.",
    "The closest option is (B) 12 miles. However, this is not the right answer.",
    "The closest option is (B) 12 miles, which is not the answer.",
    "The answer is (B), but it is incorrect.",
    "The answer is (B). That's wrong.",
    "The best option is (B), but none of these is correct.",
    "The answer is (A), but (B) is also correct.",
    "I would rule out (B).",
    "It cannot be B.",
    "B is wrong.",
    "not (B)",
    "The answer cannot be (B).",
    "The answer is definitely not (B).",
    "I don't think the answer is (B).",
    "I doubt that the answer is (B).",
    "It is not true that the answer is (B).",
    "One might think the answer is (B).",
    "It is tempting to say the answer is (B).",
    "If it rains, the answer is (A). Otherwise, the answer is (B).",
    "If it rains, the answer is (A). If it snows, the answer is (B).",
    "The answer is (A). The answer is (A) or (B).",
    "The answer is $B(9, 3) + 1 = 85$.",
    "Let us check each option:\nA. Paris lies in France.\nB. London lies in",
    "Let us check:\n(A) means the first one. \n(B",
    "The answer is (B). Actually, that is wrong.",
    "The answer is (B). No, wait, this is not correct.",
    "Some say the answer is (B).",
    "Many people would argue that the answer is (B).",
    "The closest option is (B), but it does not match our calculation.",
    "The closest option is (B) 12 miles. However, it doesn't match the result.",
    "Die Antwort ist B, aber das ist nicht richtig.",
    "La réponse est B, mais ce n'est pas la bonne réponse.",
    "La risposta è B, ma non è corretta.",
    "La respuesta es B, pero no es correcta.",
    "Ответ B, но это неверно.",
    "答案是B,但这是错的",
    "The answer is (B) if it rains, (A) if it snows.",
    "The answer is (B) if we count the suburbs, but (A) if we do not.",
    "At first I thought the answer was B.",
    "The answer is (B).\n\nLet us sum up. The answer is (J).",
    "Let us check:\nA. Paris lies in France.\nB. It lies in England.\nC",
    "Let us check:\n\nB. London:\nThe Thames flows through it, and",
    "Is it B?",
    "Maybe it is B.",
    "I do not think it is B.",
    "If it rains, it is B.",
    "It is B or C.",
    "It is not London (B).",
    "Paris (A) is large. So is London (B)",
    "Daher ist B falsch.",
    "Daher ist B nicht richtig.",
    "Ist B richtig?",
    "D, not a good choice",
    "Result: 4 miles",
]


@pytest.mark.parametrize(
    "answer",
    [
        '{"answer": "B", "reasoning": "It is the capital."}',
        '{"answer": "b"}',
        '{"answer": ["B"]}',
        '{"answer": "B) London"}',
        '{"answer": "London"}',
        '{"answer": "Option B"}',
        "{'answer': 'B'}",
        '```json\n{"answer": "B", "reasoning": "two\nlines"}\n```',
        'Here you go: {"reasoning": "He said \\"answer\\": \\"A\\".", "answer": "B"}',
        '{"answer": "B", "reasoning": "cut off in the mid',
        '<think>The answer is A, or {"answer": "C"}</think>\n{"answer": "B"}',
        'The answer is (A).\n{"answer": "B"}',
        '{"answer": "B", "reasoning": "Of {A, B}, some say the answer is (A)"}',
        '{"answer": "B", "reasoning": "At first, the answer is (A)"}',
        '{"answer": "B", "reasoning": "Cut off after } the answer is (A)',
        '{"answer": "B"}\n\nLondon is the capital.',
        "For some reason we think the answer is (B).",
        "B",
        "(b)",
        "**B**",
        "B.",
        "London",
        "B) London",
        "The answer is B because it is the capital.",
        "Reasoning first.\nFinal answer: **B**",
        "The correct option is (B).",
        r"So \boxed{B}.",
        "B) London\n\nIt is the capital.",
        "B\n\nBecause it is the capital.",
        "**B**\n\nIt is the capital.",
        "**B.** London",
        "B, because it is the capital.",
        "B - London",
        "B (London)",
        "Answer: b) London",
        "London.",
        "**London**",
        "The correct answer is London.",
        "Option B is correct.",
        "B is the right answer.",
        "A is incorrect. B is correct. C is incorrect.",
        "I choose B.",
        "I'd go with option B",
        "The answer is B; A and C are incorrect.",
        "The answer is B, C is wrong.",
        "The answer is B, not A or C.",
        "The answer is B. Paris is nice, but A is wrong.",
        "The answer could be A. The answer is B.",
        "The options are A, B, C and D. The answer is B.",
        "A) Paris\nB) London\nC) Rome\nD) Bern\n\nThe answer is B.",
        "The answer is A. Final answer: B",
        r"The answer is A, at first. $\boxed{\text{B}}$",
        "## Answer\n\n> **B) London**",
        "B</s>",
        "\uff22",
        '{"answer": "\\u0042"}',
        '{"answer": "B (London)"}',
        '{"answer": "B - London"}',
        '{"answer": "B\\nbecause it is the capital"}',
        '{"answer":"A"}</think>{"answer":"B"}',
        "Antwort: B",
        "Die richtige Antwort lautet B) London",
        "Antwort B ist korrekt.",
        "La réponse est B",
        "Réponse : B",
        "La respuesta correcta es la B.",
        "La risposta è B",
        "答案是B",
        "我选B因为",
        "Правильный ответ: B",
        "The closest option is (B), although it isn't an exact match.",
        "(A) is incorrect. The answer is (B).",
        "The answer is (B). London is not in France.",
        "The answer is (A) or (B), but since it rains, the answer is (B).",
        r"Therefore \[ \text{The answer is } (B) \]",
        "Answer: B.",
        "(A) is tempting, but (B) is correct.",
        "It is B.",
        "It must be (B).",
        "A is wrong because it is in France. C is wrong too. Therefore B.",
        "So B.",
        "At first I thought the answer was A, but it is B.",
        "This corresponds to option B.",
        "It lies in England, which is option (B).",
        "It is London (B).",
        "The largest city is London (option B).",
        "→ B",
        "Conclusion: B",
        "Ans: B",
        "Ans. (B)",
        "B, not C.",
        "The answer seems to be B.",
        "Given the options, B fits best.",
        '{"selected_option": "B"}',
        "Daher ist Antwort B korrekt.",
        "Somit ist B richtig.",
        "Die richtige Option ist B.",
        "L'option correcte est B.",
        "La bonne réponse est l'option B.",
        "L'opzione corretta è la B.",
        "A alternativa correta é a letra B.",
        "Prawidłowa odpowiedź to B.",
        "Odpowiedź: B",
        "Správná odpověď je B.",
        "Rätt svar är B.",
        "Det riktige svaret er B.",
        "Oikea vastaus on B.",
        "Răspunsul corect este B.",
        "Отговор: B",
        "Σωστή απάντηση: B",
        "Doğru cevap: B",
        "正解はBです。",
        "正确的选项为B",
        "정답은 B입니다.",
        "उत्तर: B",
        "الإجابة الصحيحة هي B",
        "Đáp án: B",
        "Jawaban yang benar adalah B.",
    ],
)
def test_a_choice_is_read_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ("B",)


@pytest.mark.parametrize(
    "before",
    [
        "The answer is A. No,",
        "The answer is A? No,",
        "A\n\n",
        "Answer: A\n",
        "Final answer: A\n",
        r"\boxed{A}" + "\n",
        "(A) is correct. Wait,",
        "The answer is (A).\n\nThe answer is (C).\n\n",
        "The answer is (A). However, this is not the correct answer.",
        "A) Paris: no.\nB) London: yes.\nC) Rome: no.\n\nSo",
        "The correct answers are I and III, so",
        'My draft was {"answer": "A"}. I revised it.\n',
        '```json\n{"answer": "A"}\n```\n',
        'The data is {"choice": 1, "answer": "42"}.',
        '{"answer": "A", "data": {"set": "}"}, "reasoning": "the answer is C"} and then {"answer": "C"}. After all,',
        "Some say the answer is (A), but",
        "The answer is (A). " * 2500,
    ],
)
@pytest.mark.parametrize(
    "last", ["the answer is (B).", "the correct answer is **B**", "die Antwort ist B.", "la réponse est B.", "答案是B"]
)
def test_a_last_sentence_that_says_the_answer_counts_whatever_was_said_before(before: str, last: str) -> None:
    assert selected_choices(f"{before} {last}", CHOICES) == ("B",)


@pytest.mark.parametrize(
    "answer",
    [
        '{"answer": ["C", "A"]}',
        '{"answer": "A, C"}',
        '{"answer": "A) and C)"}',
        '{"answer": "A) Paris, C) Rome"}',
        '{"answer": "A: Paris and C: Rome"}',
        "A and C",
        "Answer: A, C",
        "A C",
        "A/C",
        "The answers are A and C.",
        "The answers are A, C, but not D.",
        "Both A and C are correct.",
        "I choose A and C.",
        r"\boxed{A, C}",
        "A und C",
        "A et C",
        "Die Antworten A und C sind richtig.",
        "答案是A、C",
    ],
)
def test_several_choices_are_read_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ("A", "C")


@pytest.mark.parametrize("chosen", ["A", "B", "E", "I", "4"])
@pytest.mark.parametrize(
    "form",
    [
        "Answer: {}\n\nExplanation: it is the capital.",
        "Answer: {}\nThis is the capital.",
        "Answer: {}\nreasoning: it is the capital.",
        "**Answer:** {}\r\nThis is the capital.",
        "The correct answer is {}\n\nParis is in France.",
        "Final answer: {}\nThanks",
        "Answer: {} Explanation: it is the capital.",
        "Answer: {} **Reason:** it is the capital.",
        "{0} x{0}",
        "<think>Which?</think><answer>{}</answer>",
        "The answer is 4, at first. <answer>\n{}\n</answer>",
    ],
)
def test_no_letter_is_read_worse_than_another(form: str, chosen: str) -> None:
    choices = tuple(Choice(name, f"x{name}") for name in ("A", "B", "E", "I", "4"))
    assert selected_choices(form.format(chosen), choices) == (chosen,)


@pytest.mark.parametrize(
    "answer", ["Answer: a\n\nit is the capital.", "Answer: a\nIt is the capital.", "Final answer: a\r\nThanks"]
)
def test_a_line_that_was_not_wrapped_ends_a_small_letter(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ("A",)


@pytest.mark.parametrize("answer", ['{"answer": "A, B"}', '{"answer": ["A, B"]}', "A, B"])
def test_an_id_as_it_is_spelled_is_that_id(answer: str) -> None:
    assert selected_choices(answer, (Choice("A, B", "both"), Choice("A", "one"), Choice("B", "two"))) == ("A, B",)


@pytest.mark.parametrize("answer", NOT_READABLE)
def test_no_choice_is_guessed_from(answer: str) -> None:
    assert selected_choices(answer, CHOICES) == ()


@pytest.mark.parametrize("answer", ['{"answer": "AA"}', "AA", "The answer is AA.", "aa", "AA) x27"])
def test_ids_of_two_letters_are_ids_of_their_own(answer: str) -> None:
    choices = tuple(Choice(name, f"x{number}") for number, name in enumerate([*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA"], 1))
    assert selected_choices(answer, choices) == ("AA",)


def test_case_counts_where_ids_differ_by_case_alone() -> None:
    choices = (Choice("a", "one"), Choice("A", "two"), Choice("b", "three"))
    assert selected_choices('{"answer": "A"}', choices) == ("A",)
    assert selected_choices('{"answer": "B"}', choices) == ("b",)
    assert selected_choices("Answer is a strange thing.", choices) == ()


@pytest.mark.parametrize("answer", ['{"answer": "D. v"}', "D. v", "D) v"])
def test_a_labelled_text_that_looks_like_an_id_is_the_label(answer: str) -> None:
    choices = (Choice("D", "v"), Choice("V", "i, iv"), Choice("E", "iii"))
    assert selected_choices(answer, choices) == ("D",)


def test_numbers_are_ids_too() -> None:
    choices = (Choice("1", "one"), Choice("2", "two"))
    assert selected_choices('{"answer": 2}', choices) == ("2",)


@pytest.mark.parametrize(
    "answer",
    [
        "The answer is $2,000",
        "The answer is 2.5 million",
        "Answer: 2/3",
        "12",
        "2%",
        "1. First we note it.",
        "Article 1 is correct",
    ],
)
def test_numbers_that_are_ids_are_not_found_in_other_numbers_or_lists(answer: str) -> None:
    choices = (Choice("1", "one"), Choice("2", "two"), Choice("3", "three"))
    assert selected_choices(answer, choices) == ()


@pytest.mark.parametrize(
    "part",
    ["A or ", "the answer is ", "Answer: A, ", "(", '"answer": "', "<think>", "A, ", "A is correct ", "A\n", "\\boxed{", "\n"],
)
def test_a_million_characters_of_a_tangle_choose_nothing(part: str) -> None:
    assert selected_choices("Hm: " + part * (1_000_000 // len(part)), CHOICES) == ()


def test_an_object_too_deep_to_decode_is_read_as_far_as_its_answer() -> None:
    assert selected_choices('{"answer": "B", "x": ' + "[" * 100_000, CHOICES) == ("B",)


@given(st.text(max_size=300))
def test_any_text_has_a_reading_or_none(answer: str) -> None:
    assert set(selected_choices(answer, CHOICES)) <= {"A", "B", "C", "D"}


@given(st.sampled_from("ABCD"), st.text(max_size=40))
def test_a_json_answer_is_read_whatever_its_reasoning(choice: str, reasoning: str) -> None:
    reasoning = reasoning.replace('"', "").replace("'", "").replace("\\", "").replace("<", "")
    assert selected_choices(f'{{"reasoning": "{reasoning}", "answer": "{choice}"}}', CHOICES) == (choice,)


def test_a_choice_is_read_at_the_end_of_a_long_text() -> None:
    assert selected_choices("Let me think about the capitals first. " * 50 + "The answer is B.", CHOICES) == ("B",)
