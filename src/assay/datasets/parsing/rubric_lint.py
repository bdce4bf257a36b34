"""Lint of rubrics: criteria that repeat or contradict each other, cannot be decided, or change nothing."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from assay.core.canonical import JsonObject
from assay.core.case import Criterion
from assay.core.issue import Finding, Issue, Path
from assay.core.strict_json import Location, ParsedDocument, parse_json
from assay.datasets.parsing.checks import FindingList, short
from assay.datasets.parsing.issue_locator import RecordContext, locate_issues
from assay.datasets.parsing.source import TextLine

# The lint runs on every row, at half the cost of validation. Nearly all of its code decides what need not be looked at closely.
_PLAIN = str.maketrans(".,:;()[]", " " * 8, " \t\n\r!?\"'`_\u2018\u2019\u201c\u201d\u2026\u00a0\u00ab\u00bb")
"""Characters in which two equal texts may differ. What may stand between digits leaves a gap: `2(1)` is not `21`."""

HEADING = 32
"""A title of fewer letters is a heading, such as `Legal basis`: only with its description is it a criterion."""
_SHORT = 80
"""A longer text is more than a placeholder or a pointer."""
_LONG = 400
"""Letters of a text that are read; enough for a stub or a pointer, however much of them is white space."""
_FIRST_WORD = re.compile(r"[\W_]*(n/a|[^\W\d_]+)")
_STUB = re.compile(r"[\[(<{*]*(?:todo|tbd|tba|fixme)\s*(?:$|[:.,(\])>}*-])|lorem ipsum")
"""`todo` is a word in some languages, so that a sign or the end must follow it."""
_EMPTY_TEXT = re.compile(
    r"[\W_]*(?:(?:n/?a|none|null|nan|undefined|untitled|placeholder|insert .* here"
    r"|(?:new |example |another )?(?:criterion|criteria|item|point|rubric)(?: ?\d+)?"
    r"|platzhalter|keine angabe|noch (?:offen|festzulegen|zu ergänzen)|(?:neues |weiteres )?(?:kriterium|punkt)(?: ?\d+)?"
    r"|à (?:compléter|définir|préciser|remplir|venir)|(?:nouveau |autre )?critère(?: ?\d+)?)[\W_]*)?"
)
"""Placeholders for texts that are still to be written."""
_GAP = re.compile(
    r"\{\{[^{}]*\}\}|[\[<](?:insert|to be|your|hier [^\]>]{0,40}einfügen|bitte (?:ergänzen|einfügen|ausfüllen)|einfügen|noch zu"
    r"|insérer|à (?:compléter|définir|préciser)|votre)\b",
    re.IGNORECASE,
)
"""An unfilled slot of a template."""
GAP_SIGNS = ("{", "[", "<")
"""Every text with a gap contains one of them, and searching for them is fast."""
_ABOUT_GAPS = re.compile(r"placeholder|bracket|blank|\bfill|platzhalter|klammer|lücke|ausfüll|crochet|champ", re.IGNORECASE)
"""A text that mentions such gaps is about them."""
_NUMBERS = (
    r"(?: (?:no\.? ?|nr\.? ?|n° ?|#)?[\w.]{1,4}(?:(?: ?[,&-] ?| and | or | to | und | oder | bis | et | ou | à )[\w.]{1,4})*)?"
)
_POINTER = re.compile(
    r"(?:same as|see|as in|as|like) (?:\w+ ){0,2}"
    r"(?:(?:above|below)(?:[,;:(].*)?|(?:previous|preceding|next|last)(?: (?:one|criteri(?:on|a)|item|point|row|entry))?"
    rf"|criteri(?:on|a){_NUMBERS}(?:[,;:(].*)?)[\W_]*"
    r"|(?:siehe|vgl\.?|wie) (?:\w+ ){0,2}"
    r"(?:(?:oben|unten)(?:[,;:(].*)?|(?:vorige|vorherige|letzte|nächste)[mnrs]?(?: (?:kriterium|punkt))?"
    rf"|kriterium{_NUMBERS})[\W_]*"
    r"|(?:voir|cf\.?|comme) (?:\w+ ){0,2}"
    rf"(?:ci-dess(?:us|ous)(?:[,;:(].*)?|plus (?:haut|bas)|(?:critère |point )?(?:précédent|suivant)|critère{_NUMBERS})[\W_]*"
    r"|(?:ditto|dito|idem)\W*"
)
_SUBJECT = re.compile(
    r"(?:the )?(?:model|response|answer|assistant|output) (?!to\b|of\b|is\b)"
    r"|(?:die |das |der )?(?:antwort|modell|assistent) (?!auf\b|an\b|ist\b|des\b|der\b|von\b)"
    r"|(?:la |le |l['\u2019])?(?:réponse|modèle|assistant) (?!à\b|au\b|aux\b|de\b|du\b|des\b|est\b)"
)
_WRONGLY = r"(?:incorrectly|wrongly|erroneously|mistakenly|falsely)"
_FAULT_OF_SUBJECT = re.compile(rf"{_WRONGLY}\b")
"""`The response wrongly` is a fault; `Wrongly dismissed employees` is not, so that without a subject more must follow."""
_FAULT = re.compile(
    rf"{_WRONGLY} \w+[^\Ws]s\b"
    r"|(?:fails to|misstates|misquotes|misrepresents|hallucinates|fabricates)\b"
    r"|(?:makes|contains|gives|provides|includes) (?:an? |any )?(?:factually )?(?:incorrect|wrong|false|erroneous|inaccurate) "
    r"(?:statement|claim|assertion|citation|conclusion|information)s?(?=\W*$| (?:about|that|of|on|regarding|concerning)\b)"
    r"|(?:contains|includes) (?:an? |any )?(?:hallucinated|fabricated) (?:fact|case|citation|source|reference|quote)s?\b"
    # `Erkennt fälschlich erhobene Gebühren` is none: what was done wrongly follows at once, and no article or `dass`.
    r"|\w+t (?:fälschlich|irrtümlich)(?:erweise)?(?=,| (?:dass|als|an|d(?:ie|er|as|en|em)|eine?[mnr]?)\b)"
    r"|(?:enthält|macht|nennt|gibt|liefert|zitiert) (?:eine? |einen )?(?:sachlich )?"
    r"(?:falsch|unrichtig|unzutreffend|erfunden|halluziniert)e[nrs]? "
    r"(?:aussage|angabe|behauptung|information|schlussfolgerung|quelle|fundstelle|zitat|urteil)\w*"
    r"(?=\W*$| (?:über|zu|zur|zum|von|aus)\b|, dass\b)"
    r"|(?:erfindet|halluziniert|versäumt es|unterlässt es)\b"
    r"|\w+e à tort(?=,| (?:que|comme|l[ae]s?|une?|des)\b| (?:qu|l)['\u2019])"
    r"|contient (?:une? |des )?(?:information|affirmation|citation|référence|conclusion|source)s? "
    r"(?:faux|fausse|inexacte|erronée|incorrecte|inventée)s?\b"
    r"|(?:omet|oublie|invente|hallucine) (?:de |d['\u2019]|une? |des |l[ae]s? |l['\u2019])"
)
_OPENING = 18
"""Letters within which a subject and the beginning of its predicate fit."""
_LONGEST_FAULT = 200
"""Maximum letters in which a fault is searched."""
FAULT_SIGNS = ("älschlich", "ümlich", "à tort")
"""Every German or French fault that may begin with any word contains one of them; their first letters are fast to find."""
# Derived by hand from the patterns above: a new word in one of them needs its first letters here, or it is never searched for.
_FAULT_BEGINNINGS = frozenset((
    "inc", "wro", "err", "mis", "fal", "fai", "hal", "fab", "mak", "con", "giv", "pro", "ent", "mac", "nen", "gib", "lie",
    "zit", "erf", "ver", "unt", "ome", "oub", "inv",
))  # fmt: skip
"""First letters of every fault that does not have one of these signs."""
_STUB_WORDS = frozenset((
    "todo", "tbd", "tba", "fixme", "lorem", "n/a", "na", "none", "null", "nan", "undefined", "untitled", "placeholder",
    "insert", "new", "example", "another", "criterion", "criteria", "item", "point", "rubric", "platzhalter", "keine", "noch",
    "neues", "weiteres", "kriterium", "punkt", "nouveau", "autre", "critère", "same", "see", "as", "like", "ditto", "dito",
    "idem", "siehe", "vgl", "wie", "voir", "cf", "comme", "à",
))  # fmt: skip
"""First word of every placeholder, and of every pointer to another criterion."""
_BEGINNINGS = _FAULT_BEGINNINGS.union((word[:3] for word in _STUB_WORDS), (
    "the", "mod", "res", "ans", "ass", "out", "die", "das", "der", "ant", "la", "le", "l'a", "l\u2019a", "rép",
))  # fmt: skip
"""First letters of faults, stubs and subjects: a title that begins otherwise is not doubtful by itself, but for its signs."""

_NO_ONE = re.compile(r"\bk(?=ein(?:e[mnrs]?)?\b)|\bauc(?=une?\b)")
"""`keine Frist` is the opposite of `eine Frist`, and `aucun délai` of `un délai`."""
_NEGATION = re.compile(r"\b(?:not|no(?!\W{0,2}\d)|never|nicht|nie|niemals|pas|jamais)\b|n['\u2019]t\b")
"""`No 44/2001` is a number, not a negation."""
_NEGATION_MARKS = (" not", " no ", "n't", "n\u2019t", " cannot", " never", " nicht", " nie", " kein", " pas", " jamais", " aucun")
"""Every text with a negation contains one of them; searching for them takes a tenth of the time."""
_AUXILIARY = re.compile(r"\b(?:do|does|did)(?=\W*\bnot\b|n['\u2019]t\b)")
_FRENCH_NEGATION = re.compile(r"\b(?:pas|jamais|aucune?)\b")
_FRENCH_AUXILIARY = re.compile(r"\b(?:ne\b|n['\u2019])")
"""Says nothing by itself: `ne mentionne pas` is negated once."""
_SHORTEST_CLAIM = 12
"""Minimum characters of a claim whose opposite is searched."""

_TERM = re.compile(r"\d{2,}|[^\W\d_]{5,}")
_STEM = 6
_FEWEST_TERMS = 3
_LEAST_SHARE = 1 / 16
"""Real answers share 7 % or more of their significant words with their own rubric."""


def lint_rubric(criteria: Sequence[Criterion], references: Sequence[str] = ()) -> FindingList:
    """Collect every warning about one rubric, with paths from its row."""
    found = FindingList()
    # casefold and not lower: German ß and ss are the same word.
    titles = [criterion.title.casefold() for criterion in criteria]
    plain = [_said(title).translate(_PLAIN).strip() for title in titles]
    _warn_of_each(found, criteria, titles)
    _warn_of_repetitions(found, criteria, plain)
    negated = {index for index, title in enumerate(titles) if any(mark in f" {title}" for mark in _NEGATION_MARKS)}
    if negated:
        _warn_of_opposites(
            found,
            criteria,
            [_claim(titles[index]) if index in negated else _CriterionClaim(text) for index, text in enumerate(plain)],
        )
    if references:
        _warn_of_missed_references(found, criteria, references)
    return found


def is_doubtful_alone(title: str, *, weight: float) -> bool:
    """Return whether a criterion may be warned of independently of the rest of its rubric, apart from a weight of 0."""
    opening = _opening(title[:_OPENING])
    # German and French faults may begin with any word, but contain a letter beyond ASCII.
    may_be_fault = opening.may_be_fault or (not title.isascii() and any(sign in title for sign in FAULT_SIGNS))
    if may_be_fault and weight > 0 and _is_fault(title[:_LONGEST_FAULT].casefold()):
        return True
    return (opening.may_be_stub and bool(undecidable(title))) or _has_gap(title)


@lru_cache(4096)
def begins_doubtfully(beginning: str) -> bool:
    """Return whether a title with these first letters may be doubtful by itself, without a sign of a gap or a fault."""
    folded = beginning.casefold()
    return not folded[:1].isalpha() or folded[:3] in _BEGINNINGS or folded.partition(" ")[0] in _BEGINNINGS


class _TitleStart(NamedTuple):
    """Possible kinds of a title with these first letters."""

    may_be_fault: bool
    may_be_stub: bool


@lru_cache(4096)
def _opening(beginning: str) -> _TitleStart:
    """Classify the first letters of a title; cached, because many titles of a rubric begin with the same words."""
    folded = beginning.casefold()
    word = _FIRST_WORD.match(folded)
    may_be_stub = word is None or word[1] in _STUB_WORDS or word.end() == len(folded)
    return _TitleStart(_said(folded)[:3] in _FAULT_BEGINNINGS, may_be_stub)


def _is_fault(title: str) -> bool:
    """Return whether a title describes what only a bad answer does."""
    said = _said(title)
    is_of_subject = len(said) < len(title) and _FAULT_OF_SUBJECT.match(said) is not None
    return is_of_subject or _FAULT.match(said) is not None


def has_gap_sign(text: str) -> bool:
    """Return whether a text has one of the signs that every gap has."""
    return "[" in text or "<" in text or "{" in text


def _has_gap(text: str) -> bool:
    """Return whether a text has an unfilled slot."""
    return has_gap_sign(text) and _GAP.search(text) is not None and not _ABOUT_GAPS.search(text)


def _said(title: str) -> str:
    """Remove the subject of a title: `The response mentions it` is the same as `Mentions it`."""
    subject = _SUBJECT.match(title)
    return title if subject is None else title[subject.end() :]


def undecidable(text: str) -> str:
    """Return why no judge could decide by this text; empty when one could."""
    if _has_gap(text):
        return "has an unfilled gap"
    line = " ".join(text[:_LONG].casefold().split())
    if _STUB.match(line) or (len(line) < _SHORT and _EMPTY_TEXT.fullmatch(line)):
        return "says nothing that could be decided"
    if len(line) < _SHORT and _POINTER.fullmatch(line):
        return "points to another criterion, which the judge of this one does not see"
    return ""


def _warn_of_each(found: FindingList, criteria: Sequence[Criterion], titles: Sequence[str]) -> None:
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
        elif weight > 0 and _is_fault(title[:_LONGEST_FAULT]):
            found.warn(
                "contradictory_criteria",
                ("rubric", index, "title"),
                f"{short(criterion.title)} is a fault, and the weight {weight:g} rewards it",
                hint="give it a negative weight, or say what a good answer does",
            )
        if _opening(title[:_OPENING]).may_be_stub or _has_gap(title):
            _warn_of_undecidable(found, criterion, ("rubric", index, "title"))


def _warn_of_undecidable(found: FindingList, criterion: Criterion, path: Path) -> None:
    """Warn of an empty title, unless the description says what is wanted."""
    # A description can make up for a title that says nothing, since the judge reads both.
    reason = undecidable(criterion.title)
    if reason and (not criterion.description or undecidable(criterion.description)):
        message = f"criterion {short(criterion.title)} {reason}"
        found.warn("unscorable_criterion", path, message, hint="write what an answer must say to meet it")


def _warn_of_repetitions(found: FindingList, criteria: Sequence[Criterion], plain: Sequence[str]) -> None:
    """Compare each criterion with the first one of the same meaning."""
    first: dict[str, int] = {}
    for index, (criterion, title) in enumerate(zip(criteria, plain, strict=True)):
        # Many rubrics use the same short headings, `Legal basis`, with the point in the description.
        is_heading = len(title) < HEADING and criterion.description
        same = first.setdefault(
            f"{title}\n{criterion.description.casefold().translate(_PLAIN).strip()}" if is_heading else title, index
        )
        # A criterion of weight 0 changes nothing, however often it is repeated.
        if same != index and criterion.weight and criteria[same].weight:
            found.append(_repetition(index, same, is_same_sign=(criterion.weight > 0) == (criteria[same].weight > 0)))


def _repetition(index: int, same: int, *, is_same_sign: bool) -> Finding:
    path = ("rubric", index, "title")
    if is_same_sign:
        message = f"the criterion says the same as rubric[{same}], so the point counts twice"
        return Finding("duplicate_criterion", path, message, "keep one of them, with the weight that the point has", "warning")
    message = f"the criterion says the same as rubric[{same}], and one of them rewards what the other punishes"
    return Finding("contradictory_criteria", path, message, "keep the one that is meant", "warning")


def _warn_of_opposites(found: FindingList, criteria: Sequence[Criterion], claims: Sequence["_CriterionClaim"]) -> None:
    """Warn of two criteria that differ only in a negation, and are both rewarded or both punished."""
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


class _CriterionClaim(NamedTuple):
    """Content of a criterion without its negation."""

    text: str
    is_negated: bool = False


def _claim(title: str) -> _CriterionClaim:
    text = _AUXILIARY.sub("", _said(title).replace("cannot", "can not"))
    if _FRENCH_NEGATION.search(text):
        text = _FRENCH_AUXILIARY.sub("", text)
    text, negations = _NEGATION.subn("", text)
    text, nones = _NO_ONE.subn("", text)
    return _CriterionClaim(text.translate(_PLAIN).strip(), (negations + nones) % 2 == 1)


def _opposition(index: int, opposite: int, *, is_rewarded: bool) -> Finding:
    message = (
        f"the criterion says the opposite of rubric[{opposite}], and the rubric {'rewards' if is_rewarded else 'punishes'} both"
    )
    hint = "no answer can meet both: keep the one that is meant"
    return Finding("contradictory_criteria", ("rubric", index, "title"), message, hint, "warning")


def _warn_of_missed_references(found: FindingList, criteria: Sequence[Criterion], references: Sequence[str]) -> None:
    """Report a reference that shares hardly any word or number with the criteria: no criterion scores its content."""
    asked = _terms("\n".join(f"{criterion.title}\n{criterion.description}" for criterion in criteria))
    for index, reference in enumerate(references):
        terms = _terms(reference)
        shared = len(terms & asked)
        # Few terms prove nothing: an answer of one sentence may be put in quite other words.
        if len(terms) >= _FEWEST_TERMS and shared < _LEAST_SHARE * len(terms):
            found.warn(
                "reference_not_covered",
                ("reference_answers", index),
                f"the criteria mention {shared or 'none'} of the {len(terms):,} telling words and numbers of this reference answer",
                hint="add a criterion for what it says, or remove it if it belongs to another row",
            )


def _terms(text: str) -> set[str]:
    """Extract numbers, and the beginnings of long words."""
    return {term[:_STEM] for term in _TERM.findall(text.casefold())}


class _ScreenedCriterion(Protocol):
    """A decoded criterion."""

    id: str
    title: str
    description: str | UnsetType
    weight: int | float | UnsetType


class _ScreenedRow(Protocol):
    """A decoded row with a rubric."""

    rubric: list[_ScreenedCriterion]
    reference_answers: list[str] | UnsetType


_SEAM = "\0"
"""Separator that no valid text contains."""
_TELLING = b"bfgqxyz0123456789"
"""Latin letters in none of the words (`not`, `keine`, `The response`) in which two equal criteria may differ."""
_LOWER = bytes(range(256)).lower()
_NOT_TELLING = bytes({*range(256)} - {*_TELLING, *_TELLING.upper(), ord(_SEAM)})
_SIGNS = tuple(sign.encode("latin-1") for sign in FAULT_SIGNS)
_BEGINNING = 3
_FEW = 3
_FOREIGN = re.compile(r"[^\x00-\u024f\u2000-\u206f]+")
"""Letters of other scripts; no sign and no word of these rules has one."""


def doubtful_rows(rows: Sequence[_ScreenedRow]) -> list[int]:
    """Find the positions of rows that the lint may warn of; all rows have a rubric."""
    if not rows:
        return []
    criteria = list(chain.from_iterable([row.rubric for row in rows]))
    joined = _SEAM.join([item.title for item in criteria])
    # One byte per character, so that signs can be searched in bytes.
    latin = joined.encode("latin-1", "replace")
    closer = {id(item) for item in _conspicuous(criteria, joined, latin) if is_doubtful_alone(item.title, weight=_weight(item))}
    closer |= {id(item) for item in criteria if item.weight == 0}
    places = {place for place, row in enumerate(rows) if row.reference_answers}
    if closer:
        places |= {place for place, row in enumerate(rows) if any(id(item) in closer for item in row.rubric)}
    warned = {place for place in places if _is_warned_of(rows[place].rubric, rows[place].reference_answers or ())}
    return sorted(warned.union(place for place, alike in _alike(rows, latin) if _is_warned_of(alike)))


def _is_warned_of(items: Sequence[_ScreenedCriterion], references: Sequence[str] = ()) -> bool:
    return bool(lint_rubric([Criterion(item.id, item.title, item.description or "", _weight(item)) for item in items], references))


def _weight(item: _ScreenedCriterion) -> float:
    return 1.0 if item.weight is UNSET else item.weight


def _alike(rows: Sequence[_ScreenedRow], latin: bytes) -> Iterator[tuple[int, list[_ScreenedCriterion]]]:
    """Yield criteria of one rubric with the same telling letters, as repetitions and opposites have."""
    letters = iter(latin.translate(_LOWER, _NOT_TELLING).split(_SEAM.encode()))
    for place, row in enumerate(rows):
        size = len(row.rubric)
        telling = list(islice(letters, size))
        # Equal criteria have equal telling letters; the reverse is checked by the slow rules.
        if len(set(telling)) < size:
            yield from ((place, alike) for alike in _groups(row.rubric, telling))


def _groups(items: Sequence[_ScreenedCriterion], telling: Sequence[bytes]) -> Iterator[list[_ScreenedCriterion]]:
    """Group criteria that may be equal; where Latin letters are few, those of other scripts must be the same too."""
    groups: dict[str, list[_ScreenedCriterion]] = {}
    for item, letters in zip(items, telling, strict=True):
        more = "" if len(letters) > _FEW or item.title.isascii() else "".join(_FOREIGN.findall(item.title.casefold()))
        groups.setdefault(f"{letters.decode()} {more}", []).append(item)
    yield from (group for group in groups.values() if len(group) > 1)


def _conspicuous(criteria: Sequence[_ScreenedCriterion], joined: str, latin: bytes) -> Iterator[_ScreenedCriterion]:
    """Yield criteria that begin as doubtful ones do, or have a sign of them."""
    beginnings = [item.title[:_BEGINNING] for item in criteria]
    looked_at = set(filter(begins_doubtfully, set(beginnings)))
    if looked_at:
        yield from (item for item, beginning in zip(criteria, beginnings, strict=True) if beginning in looked_at)
    if any(sign in joined for sign in GAP_SIGNS):
        yield from (item for item in criteria if has_gap_sign(item.title))
    if not joined.isascii() and any(_has_sign(latin, sign) for sign in _SIGNS):
        yield from (item for item in criteria if not item.title.isascii())


def _has_sign(latin: bytes, sign: bytes) -> bool:
    """Return whether a sign is in a text, by its first letter: that is rare, and the next one is found at once."""
    return any(piece.startswith(sign[1:]) for piece in latin.split(sign[:1])[1:])


MAX_ISSUES = 100
"""Maximum warnings of one code in one file; the last states the number of further ones."""


class _RubricRow(msgspec.Struct):
    """Fields of a valid row that the lint reads."""

    id: str
    rubric: list[Criterion] = []
    reference_answers: list[str] | None = None


_decode_row = msgspec.json.Decoder(_RubricRow).decode


class RubricLinter:
    """Collector of the warnings about the rubrics of one file."""

    def __init__(self) -> None:
        self._issues: list[Issue] = []
        self._counts: Counter[str] = Counter()
        self._last: dict[str, int] = {}
        """Place of the last issue of each code."""

    def lint_rows(self, rows: Mapping[int, _ScreenedRow], line_of: Callable[[int], TextLine]) -> None:
        """Lint rows with a rubric, by their index; `line_of` gives the line of a row with a warning."""
        indexes = list(rows)
        for place in doubtful_rows(list(rows.values())):
            self.lint_row(indexes[place], line_of(indexes[place]))

    def lint_row(self, index: int, line: TextLine, *, row: object = None) -> None:
        """Lint one row on its line; `row` is its value, if the line was parsed before."""
        linted = _decode_row(line.content) if row is None else msgspec.convert(row, _RubricRow)
        found = lint_rubric(linted.rubric, linted.reference_answers or ())
        new = [finding for finding in found if self._is_listed(finding)]
        if new:
            document = parse_json(line.text, is_whole=False)
            record = RecordContext(index, linted.id, start=Location(line.number, 1))
            self._list(locate_issues(new, document, lambda _: record))

    def _is_listed(self, finding: Finding) -> bool:
        self._counts[finding.code] += 1
        return self._counts[finding.code] <= MAX_ISSUES

    def _list(self, issues: Sequence[Issue]) -> None:
        for issue in issues:
            self._last[issue.code] = len(self._issues)
            self._issues.append(issue)

    def issues(self) -> list[Issue]:
        """Return the first warnings of each code; the last of them states the number of further ones."""
        for code, place in self._last.items():
            if self._counts[code] > MAX_ISSUES:
                message = f"{self._issues[place].message} (and {self._counts[code] - MAX_ISSUES:,} more like it)"
                self._issues[place] = msgspec.structs.replace(self._issues[place], message=message)
        return self._issues


def lint_cases(document: ParsedDocument) -> list[Issue]:
    """Lint the cases of a valid golden dataset: each has one criterion, its rubric, and notes that no model sees."""
    cases: list[JsonObject] = document.value["cases"]
    found = FindingList()
    for index, case in enumerate(cases):
        reason = undecidable(case["rubric"])
        if reason:
            message = f"rubric {short(case['rubric'])} {reason}"
            path = ("cases", index, "rubric")
            found.warn("unscorable_criterion", path, message, hint="write what an answer must say to meet it")
        fact = fact_of_context(case.get("context") or "", rubric=case["rubric"], prompt=case["user_prompt"])
        if fact:
            message = f"the rubric relies on context ({short(fact)}), which is never sent to a model"
            hint = "write what the answer needs into user_prompt; context is for people"
            found.warn("unsent_context", ("cases", index, "context"), message, hint=hint)

    def record_of(finding: Finding) -> RecordContext:
        index = finding.path[1]
        return RecordContext(index, cases[index]["id"]) if isinstance(index, int) else RecordContext()

    return locate_issues(found, document, record_of)


_MENTION = re.compile(
    r"\b(?:according to|based on|from|in|per|by|using|uses|use|with|match(?:es)?|contradicts?)"
    r" (?:the |this |its )?(?:(?:given|provided|supplied|attached) )?(?:context|background information)\b(?! of\b)"
    r"|\b(?:given|provided|supplied|attached) (?:context|background)\b|\bcontext (?:says|states|gives|mentions|above|provided)\b"
    r"|\b(?:laut|gemäß|aus|im|nach) (?:dem |des )?(?:angegebenen )?kontexts?\b"
    r"|\b(?:selon|d['\u2019]après|dans) le contexte\b(?! de\b)",
    re.IGNORECASE,
)
"""A rubric that names the context as its source. `In the context of` and `additional context` are other things."""
_ABOUT_THE_CASE = re.compile(
    r"\W*(?:simple|basic|tests?|testing|checks?|edge case|corner case|baseline|expected|expects|answer|the answer|correct|notes?"
    r"|todo|verif\w+|ensures?|should|regression|added|source|see|safety case|bug|issue|ticket)\b"
    r"|[^.\n]{1,100}\b(?:test|tests|case|task|query|question|request|scenario|prompt)\Z",
    re.IGNORECASE,
)
"""Notes about the case, such as `Simple arithmetic test`: they are not material for an answer."""
_FEWEST_WORDS = 4
_WHOLE_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_HOUR = re.compile(r"0?(\d{1,2})[:.]00\Z")
_PROPER = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin a sentence."""
_MAX_CONTEXT = 20_000
"""Maximum characters of a context that are searched."""


def fact_of_context(context: str, *, rubric: str, prompt: str) -> str:
    """Return the fact of the context that the rubric relies on although the prompt lacks it; empty if there is no sign of one."""
    context = context[:_MAX_CONTEXT].strip()
    # golden_v1 never sends `context`: a rubric that asks for what only the context says cannot be met.
    if len(context.split()) < _FEWEST_WORDS or context in prompt:
        return ""
    mention = _MENTION.search(rubric)
    if mention:
        return mention[0]
    if _ABOUT_THE_CASE.match(context):
        return ""
    known = _numbers(prompt)
    numbers = [number for number in _numbers(rubric) if len(number) > 1 and number not in known and number in _numbers(context)]
    said = prompt.casefold()
    names = [
        name for name in _PROPER.findall(context) if name.casefold() not in said and re.search(rf"\b{re.escape(name)}\b", rubric)
    ]
    return next(iter((*numbers, *names)), "")


def _numbers(text: str) -> dict[str, None]:
    """List the numbers of a text in order; 13:00 is 13."""
    return dict.fromkeys(_HOUR.sub(r"\1", number) for number in _WHOLE_NUMBER.findall(text))
