"""Criteria into warnings: those that repeat or contradict each other, cannot be decided, or change nothing.

Every rule looks for something that can be shown in the text; what only a reader could doubt is left alone.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from assay.core.case import Criterion
from assay.core.issue import Finding, Path
from assay.datasets.checks import Findings, short

_PLAIN = str.maketrans(".,:;()[]", " " * 8, " \t\n\r!?\"'`_\u2018\u2019\u201c\u201d\u2026\u00a0\u00ab\u00bb")
"""What two texts may differ in and still say the same. What may stand between digits leaves a gap: `2(1)` is not `21`."""

HEADING = 32
"""A title of fewer letters is a heading, such as `Legal basis`: only with its description does it say what is wanted."""
_SHORT = 80
"""A longer text is more than a placeholder or a pointer."""
_STUBS = ("todo", "tbd", "tba", "fixme", "lorem ipsum")
_STUB = re.compile(r"[\[(<{*]*(?:todo|tbd|tba|fixme)\s*(?:$|[:.,(\])>}*-])|lorem ipsum")
"""`todo` is a word in some languages, so that a sign or the end must follow it."""
_EMPTY_TEXT = re.compile(
    r"[\W_]*(?:(?:n/?a|none|null|nan|undefined|untitled|placeholder|insert .* here"
    r"|(?:new |example |another )?(?:criterion|criteria|item|point|rubric)(?: ?\d+)?)[\W_]*)?"
)
"""What people write where a text is still to come."""
_GAP = re.compile(r"\{\{.*?\}\}|[\[<](?:insert|to be|your)\b", re.IGNORECASE | re.DOTALL)
"""A place of a template that nobody filled."""
_ABOUT_GAPS = re.compile(r"placeholder|bracket|blank|\bfill", re.IGNORECASE)
"""A text that speaks of such places means them."""
_POINTER = re.compile(
    r"(?:same as|see|as in|as|like) (?:\w+ ){0,2}"
    r"(?:(?:above|below)(?:[,;:(].*)?|(?:previous|preceding|next|last)(?: (?:one|criteri(?:on|a)|item|point|row|entry))?"
    r"|criteri(?:on|a)(?: (?:no\.? ?|nr\.? ?|#)?[\w.]{1,4}(?:(?: ?[,&-] ?| and | or | to )[\w.]{1,4})*)?(?:[,;:(].*)?)[\W_]*"
    r"|(?:ditto|idem)\W*"
)
_SUBJECT = re.compile(r"(?:the )?(?:model|response|answer|assistant|output) (?!to\b|of\b|is\b)")
_WRONGLY = r"(?:incorrectly|wrongly|erroneously|mistakenly|falsely)"
_FAULT = re.compile(
    # `Wrongly dismissed employees` are no fault of the answer: without a subject the next word must be what an answer does.
    rf"(?:{_SUBJECT.pattern}{_WRONGLY}\b|{_WRONGLY} \w+[^\Ws]s\b"
    rf"|(?:{_SUBJECT.pattern})?(?:(?:fails to|misstates|misquotes|misrepresents|hallucinates|fabricates)\b"
    r"|(?:makes|contains|gives|provides|includes) (?:an? |any )?(?:factually )?(?:incorrect|wrong|false|erroneous|inaccurate) "
    r"(?:statement|claim|assertion|citation|conclusion|information)s?(?=\W*$| (?:about|that|of|on|regarding|concerning)\b)"
    r"|(?:contains|includes) (?:an? |any )?(?:hallucinated|fabricated) (?:fact|case|citation|source|reference|quote)s?\b))"
)

_NO_ONE = re.compile(r"\bk(?=ein(?:e[mnrs]?)?\b)")
"""`keine Frist` is the opposite of `eine Frist`."""
_NEGATION = re.compile(r"\b(?:not|no(?!\W{0,2}\d)|never|nicht|nie|pas|jamais)\b|n['\u2019]t\b")
"""`No 44/2001` is none."""
_NEGATION_MARKS = (" not ", " no ", "n't ", "n\u2019t ", " cannot ", " never ", " nicht", " nie ", " kein", " pas ", " jamais ")
"""One of them is in nearly every text with a negation; looking for them takes a tenth of the time."""
_AUXILIARY = re.compile(r"\b(?:do|does|did)(?=\W*\bnot\b|n['\u2019]t\b)")
_SHORTEST_CLAIM = 12
"""Characters of a claim whose opposite is looked for."""

_TERM = re.compile(r"\d{2,}|[^\W\d_]{5,}")
_STEM = 6
_FEWEST_TERMS = 3
_LEAST_SHARE = 1 / 16
"""Real answers share 7 % and more of their telling words with their own rubric."""


def lint_rubric(criteria: Sequence[Criterion], references: Sequence[str] = ()) -> Findings:
    """Every warning about one rubric, with paths from its row."""
    found = Findings()
    titles = [criterion.title.casefold() for criterion in criteria]
    plain = [_said(title).translate(_PLAIN).strip() for title in titles]
    _warn_of_each(found, criteria, titles)
    _warn_of_repetitions(found, criteria, plain)
    negated = {index for index, title in enumerate(titles) if any(mark in title for mark in _NEGATION_MARKS)}
    if negated:
        _warn_of_opposites(
            found, criteria, [_claim(titles[index]) if index in negated else _Claim(text) for index, text in enumerate(plain)]
        )
    if references:
        _warn_of_missed_references(found, criteria, references)
    return found


def _said(title: str) -> str:
    """`The response mentions it` says what `Mentions it` says; most titles begin otherwise, which is quick to see."""
    return _SUBJECT.sub("", title, count=1) if _SUBJECT.match(title) else title


def undecidable(text: str) -> str:
    """Why no judge could decide by this text; empty when nothing speaks against it."""
    if _GAP.search(text) and not _ABOUT_GAPS.search(text):
        return "has a gap that nobody filled"
    line = " ".join(text.casefold().split())
    if _STUB.match(line) or (len(line) < _SHORT and _EMPTY_TEXT.fullmatch(line)):
        return "says nothing that could be decided"
    if len(line) < _SHORT and _POINTER.fullmatch(line):
        return "points to another criterion, which a judge who is asked about this one does not see"
    return ""


def _warn_of_each(found: Findings, criteria: Sequence[Criterion], titles: Sequence[str]) -> None:
    # Where nothing has a positive weight, the row has no score, and validation says so.
    has_score = any(criterion.weight > 0 for criterion in criteria)
    for index, (criterion, title) in enumerate(zip(criteria, titles, strict=True)):
        weight = criterion.weight
        if weight == 0 and has_score:
            found.warn(
                "unreachable_criterion",
                ("rubric", index, "weight"),
                "the weight is 0, so the criterion is judged and never changes the score",
                hint="give it a weight, or remove it",
            )
        elif weight > 0 and _FAULT.match(title):
            found.warn(
                "contradictory_criteria",
                ("rubric", index, "title"),
                f"{short(criterion.title)} is a fault, and the weight {weight:g} rewards it",
                hint="give it a negative weight, or say what a good answer does",
            )
        # Most titles are long and have no brackets, which is quick to see.
        if len(title) < _SHORT or "{{" in title or "[" in title or "<" in title or title.lstrip("[(<{*").startswith(_STUBS):
            _warn_of_undecidable(found, criterion, ("rubric", index, "title"))


def _warn_of_undecidable(found: Findings, criterion: Criterion, path: Path) -> None:
    """A description that says what is wanted makes up for an empty title."""
    reason = undecidable(criterion.title)
    if reason and (not criterion.description or undecidable(criterion.description)):
        message = f"criterion {short(criterion.title)} {reason}"
        found.warn("unscorable_criterion", path, message, hint="write what an answer must say to meet it")


def _warn_of_repetitions(found: Findings, criteria: Sequence[Criterion], plain: Sequence[str]) -> None:
    """Each criterion against the first one that says the same."""
    first: dict[str, int] = {}
    for index, (criterion, title) in enumerate(zip(criteria, plain, strict=True)):
        is_heading = len(title) < HEADING and criterion.description
        same = first.setdefault(
            f"{title}\n{criterion.description.casefold().translate(_PLAIN).strip()}" if is_heading else title, index
        )
        if same != index and criterion.weight and criteria[same].weight:
            found.append(_repetition(index, same, is_same_sign=(criterion.weight > 0) == (criteria[same].weight > 0)))


def _repetition(index: int, same: int, *, is_same_sign: bool) -> Finding:
    path = ("rubric", index, "title")
    if is_same_sign:
        message = f"the criterion says the same as rubric[{same}], so the point counts twice"
        return Finding("duplicate_criterion", path, message, "keep one of them, with the weight that the point has", "warning")
    message = f"the criterion says the same as rubric[{same}], and one of them rewards what the other punishes"
    return Finding("contradictory_criteria", path, message, "keep the one that is meant", "warning")


def _warn_of_opposites(found: Findings, criteria: Sequence[Criterion], claims: Sequence["_Claim"]) -> None:
    """Two criteria that differ in a negation alone, and are both rewarded or both punished."""
    first: dict[tuple[str, bool, bool], int] = {}
    for index, (criterion, claim) in enumerate(zip(criteria, claims, strict=True)):
        if not criterion.weight or len(claim.text) < _SHORTEST_CLAIM:
            continue
        # `states` and `does not state` differ in an ending too.
        text, is_rewarded = claim.text.replace("s", ""), criterion.weight > 0
        opposite = first.get((text, not claim.is_negated, is_rewarded))
        if opposite is not None:
            found.append(_opposition(index, opposite, is_rewarded=is_rewarded))
        first.setdefault((text, claim.is_negated, is_rewarded), index)


class _Claim(NamedTuple):
    """What a criterion says, apart from whether it says yes or no."""

    text: str
    is_negated: bool = False


def _claim(title: str) -> _Claim:
    text, negations = _NEGATION.subn("", _AUXILIARY.sub("", _said(title).replace("cannot", "can not")))
    text, nones = _NO_ONE.subn("", text)
    return _Claim(text.translate(_PLAIN).strip(), (negations + nones) % 2 == 1)


def _opposition(index: int, opposite: int, *, is_rewarded: bool) -> Finding:
    message = (
        f"the criterion says the opposite of rubric[{opposite}], and the rubric {'rewards' if is_rewarded else 'punishes'} both"
    )
    hint = "no answer can meet both: keep the one that is meant"
    return Finding("contradictory_criteria", ("rubric", index, "title"), message, hint, "warning")


def _warn_of_missed_references(found: Findings, criteria: Sequence[Criterion], references: Sequence[str]) -> None:
    """A reference that shares next to no word or number with the criteria is a required point that nobody scores."""
    asked = _terms("\n".join(f"{criterion.title}\n{criterion.description}" for criterion in criteria))
    for index, reference in enumerate(references):
        terms = _terms(reference)
        shared = len(terms & asked)
        if len(terms) >= _FEWEST_TERMS and shared < _LEAST_SHARE * len(terms):
            found.warn(
                "reference_not_covered",
                ("reference_answers", index),
                f"the criteria mention {shared or 'none'} of the {len(terms):,} telling words and numbers of this reference answer",
                hint="add a criterion for what it says, or remove it if it belongs to another row",
            )


def _terms(text: str) -> set[str]:
    """Numbers, and the beginnings of long words."""
    return {term[:_STEM] for term in _TERM.findall(text.casefold())}
