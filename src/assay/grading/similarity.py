"""Similarity of two texts, from 0 to 1: edit distance, F1 of words, ROUGE-L, BLEU."""

import re
import string
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from assay.core.checks import Measure
from assay.core.errors import MissingExtra

# The edit distance of two texts takes time with the product of their lengths: a quarter of a second at this limit.
MAX_CHARACTERS = 50_000
"""Characters beyond which texts are not compared."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WORDS = re.compile(r"\w+")


def similarity(measure: Measure, answer: str, reference: str) -> float:
    """Return the similarity of an answer to a reference, from 0 to 1."""
    return _MEASURES[measure](answer, reference)


def edits(answer: str, reference: str) -> int:
    """Return the number of characters to insert, delete or replace (Levenshtein)."""
    return int(_rapidfuzz().Levenshtein.distance(answer, reference))


def check_installed(measure: Measure) -> None:
    """Raise MissingExtra when the library of a measure is not installed."""
    if measure in ("edit", "rouge_l"):
        _rapidfuzz()
    elif measure == "bleu":
        _sacrebleu()


def _edit(answer: str, reference: str) -> float:
    return float(_rapidfuzz().Levenshtein.normalized_similarity(answer, reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the F1 of the words that two texts share, normalized as the official script of SQuAD does."""
    words, expected = squad_words(answer), squad_words(reference)
    # A text of articles and punctuation alone has no words: only another such text is the same.
    if not words or not expected:
        return float(words == expected)
    return _f1((Counter(words) & Counter(expected)).total(), len(words), len(expected))


def squad_words(text: str) -> list[str]:
    """Split a text into words: lower case, without ASCII punctuation and English articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _rouge_l(answer: str, reference: str) -> float:
    """Return the F1 of the longest common subsequence of words, without stemming."""
    # The package rouge-score splits at every letter that is not ASCII; on ASCII texts both give the same number.
    words, expected = _WORDS.findall(answer.lower().replace("_", " ")), _WORDS.findall(reference.lower().replace("_", " "))
    return _f1(int(_rapidfuzz().LCSseq.similarity(words, expected)), len(words), len(expected))


def _bleu(answer: str, reference: str) -> float:
    score: float = _sacrebleu()(answer, [reference]).score
    # Exact texts have a score of 100 and a bit.
    return min(score / 100, 1.0)


def _f1(shared: int, length: int, expected: int) -> float:
    return 2 * shared / (length + expected) if shared else 0.0


_MEASURES: dict[Measure, Callable[[str, str], float]] = {
    "edit": _edit,
    "token_f1": token_f1,
    "rouge_l": _rouge_l,
    "bleu": _bleu,
}


def _rapidfuzz() -> Any:
    try:
        return import_module("rapidfuzz.distance")
    except ModuleNotFoundError as problem:
        raise MissingExtra("the measures edit and rouge_l need rapidfuzz", hint="pip install 'assay[similarity]'") from problem


@cache
def _sacrebleu() -> Any:
    try:
        # Effective order: a short answer has no four words in a row, and would have a score of 0 whatever it says.
        return import_module("sacrebleu").BLEU(effective_order=True).sentence_score
    except ModuleNotFoundError as problem:
        raise MissingExtra("the measure bleu needs sacrebleu", hint="pip install 'assay[similarity]'") from problem
