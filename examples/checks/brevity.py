"""A grader of one's own with two scores: the fewer words, the better, and no word that stands for none."""

from assay import Case


def brevity(record: Case, answer: str) -> dict[str, object]:
    """Score an answer by its words: as many as the reference has, and a few more."""
    words = answer.split()
    most = 4 + max((len(reference.split()) for reference in record.references), default=1)
    short = min(1.0, most / len(words)) if words else 0.0
    plain = 0.0 if "actually" in answer.casefold() else 1.0
    return {"score": short * plain, "scores": {"short": short, "plain": plain}}
