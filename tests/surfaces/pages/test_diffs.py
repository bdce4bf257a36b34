import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.surfaces.pages.diffs import MAX_WORDS, DiffPiece, TextDiff, diff_texts

TEXTS = st.text(alphabet="ab \n.é", max_size=60)


def sides(diff: TextDiff) -> tuple[str, str]:
    return tuple("".join(piece.text for piece in diff.side(kind)) for kind in ("removed", "added"))  # type: ignore[return-value]  # two of them


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_back_from_their_difference(before: str, after: str) -> None:
    diff = diff_texts(before, after)
    assert sides(diff) == (before, after)
    assert diff.is_same == (before == after)


def test_a_changed_word_is_the_only_difference() -> None:
    diff = diff_texts("The court held for the plaintiff.", "The court held for the defendant.")
    assert diff.pieces == (
        DiffPiece("same", "The court held for the "),
        DiffPiece("removed", "plaintiff"),
        DiffPiece("added", "defendant"),
        DiffPiece("same", "."),
    )


def test_words_that_begin_alike_differ_as_a_whole() -> None:
    assert DiffPiece("removed", "untrue") in diff_texts("that is untrue here", "that is undone here").pieces


def test_equal_texts_are_one_piece() -> None:
    assert diff_texts("same", "same").pieces == (DiffPiece("same", "same"),)


def test_an_answer_that_was_empty_is_all_new() -> None:
    assert diff_texts("", "now there is one").pieces == (DiffPiece("added", "now there is one"),)


def test_too_many_words_are_compared_by_their_lines() -> None:
    lines = [f"line {number}" for number in range(MAX_WORDS // 2)]
    diff = diff_texts("\n".join(["old", *lines, "old"]), "\n".join(["new", *lines, "new"]))
    assert (diff.precision, len(diff.pieces)) == ("lines", 5)


def test_what_has_too_many_words_and_lines_is_told_as_a_whole() -> None:
    before, after = ("\n".join(f"{word} {number}" for number in range(3 * MAX_WORDS)) for word in ("old", "new"))
    assert diff_texts(before, after).precision == "whole"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x" * 1_000_000, "y" + "x" * 1_000_000),
        ("a b " * 250_000, "b a " * 250_000),
        ("a\nb\n" * 250_000, "b\na\n" * 250_000),
        ("." * 1_000_000, ".," * 500_000),
        (" " * 1_000_000, "\n" * 1_000_000),
    ],
    ids=["one word", "two words", "two lines", "signs", "spaces"],
)
def test_a_megabyte_of_anything_comes_to_an_end(before: str, after: str) -> None:
    """Quadratic work on a megabyte would take hours."""
    assert sides(diff_texts(before, after)) == (before, after)
