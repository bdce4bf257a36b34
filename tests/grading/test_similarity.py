import random
from importlib import import_module

import pytest

from assay.grading.similarity import check_installed, edits, similarity, squad_words, token_f1

SENTENCES = (
    "The quick brown fox jumps over the lazy dog",
    "A quick brown dog jumps over a lazy fox",
    "Colorless green ideas sleep furiously",
    "the contract was rescinded on 3 May, because the seller had been silent",
    "the seller rescinded the contract",
)


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1.0),
        ("Paris, France", "Paris", 2 / 3),
        ("Lyon", "Paris", 0.0),
        ("", "Paris", 0.0),
        ("the", "a.", 1.0),
        ("yes yes yes", "yes", 0.5),
    ],
)
def test_token_f1_is_that_of_squad(answer: str, reference: str, expected: float) -> None:
    assert token_f1(answer, reference) == pytest.approx(expected)


def test_words_are_normalized_as_squads_script_does() -> None:
    assert squad_words("The cat's  pyjamas -- an example.") == ["cats", "pyjamas", "example"]


def test_rouge_l_is_that_of_the_package_rouge_score() -> None:
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    words, draw = " ".join(SENTENCES).split(), random.Random(1)
    texts = [*SENTENCES, *(" ".join(draw.choices(words, k=draw.randint(1, 30))) for _ in range(60)), "", "!?"]
    for answer in texts:
        for reference in texts[:12]:
            assert similarity("rouge_l", answer, reference) == pytest.approx(scorer.score(reference, answer)["rougeL"].fmeasure)


def test_rouge_l_counts_words_with_letters_beyond_ascii_as_words() -> None:
    assert similarity("rouge_l", "für Käufer", "für Verkäufer") == 0.5


def test_bleu_is_that_of_sacrebleu_from_0_to_1() -> None:
    whole = import_module("sacrebleu").sentence_bleu(SENTENCES[1], [SENTENCES[0]]).score / 100
    assert similarity("bleu", SENTENCES[1], SENTENCES[0]) == pytest.approx(whole)
    assert similarity("bleu", "Paris", "Paris") == 1.0
    assert similarity("bleu", "Lyon", "Paris") < 0.2


def test_edit_distance_is_normalized_by_the_longer_text() -> None:
    assert edits("kitten", "sitting") == 3
    assert similarity("edit", "kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert similarity("edit", "", "") == 1.0


def test_what_is_installed_needs_no_extra() -> None:
    for measure in ("edit", "token_f1", "rouge_l", "bleu"):
        check_installed(measure)  # type: ignore[arg-type]  # the words of the type
