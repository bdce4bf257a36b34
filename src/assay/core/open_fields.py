"""Open fields of a dataset: which models receive them, and how many records have each."""

import ast
import json
import re
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypedDict, TypeGuard, TypeVar, get_args

import msgspec

from assay.core.case import Case, Role
from assay.core.tools import expects_calls

Audience = Literal["candidate_and_judge", "judge_only", "not_sent"]
FieldCounts = Mapping[str, Mapping[str, int]]
"""Number of records with each field, by audience; audiences without a field are left out."""
OTHERS = "other fields"
"""Replaces all names above the limit; its number counts values, of which a record may have many."""
# Reports and the manifest list these names; a dataset whose field names are ids would make both as large as the dataset.
_MAX_NAMES = 100
_MAX_NAME = 200


class FieldUse(NamedTuple):
    """A field of a record, and the models that receive it."""

    field: str
    """Path in the record, such as `input.choices`."""
    audience: Audience


class FieldCounter:
    """Counts records by field, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[Audience, dict[str, int]] = {audience: {} for audience in get_args(Audience)}

    def add(self, uses: Iterable[FieldUse]) -> None:
        """Count the fields of one record."""
        for use in uses:
            self.count(use.field, use.audience)

    def count(self, field: str, audience: Audience, records: int = 1) -> None:
        """Count a field of several records."""
        if not records:
            return
        counts = self._counts[audience]
        name = field[:_MAX_NAME]
        # A dataset may have another field name in every record; memory must stay bounded.
        if name not in counts and len(counts) >= _MAX_NAMES:
            name = OTHERS
        counts[name] = counts.get(name, 0) + records

    def counts(self) -> FieldCounts:
        """Return the counts so far."""
        return {audience: dict(fields) for audience, fields in self._counts.items() if fields}


def add_counts(all_counts: Iterable[FieldCounts]) -> FieldCounts:
    """Add the counts of several datasets."""
    counter = FieldCounter()
    for counts in all_counts:
        for audience in get_args(Audience):
            for field, records in counts.get(audience, {}).items():
                counter.count(field, audience, records)
    return counter.counts()


# Words and rules below are part of version 1. A changed list is version 2, because a resumed run must send the same prompts.
VERSION = 1
"""Version of the rule; a case records by which version its open fields are shown."""
UNSENT_REFERENCE = ("source_metadata", "source_tags")
"""Members of `reference` in which a conversion stores metadata and tags that batch_v1 has no place for; not used for grading."""
TOOL_MEMBERS: Mapping[str, tuple[str, ...]] = {"input": ("tools",), "reference": ("tool_calls", "tool_matching")}
"""Members with tools and expected calls, where calls are compared."""
_MESSAGES = "messages"
_ROLES = ("user", "assistant", "system")

_NAME_PARTS = re.compile(r"[^\W\d_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _plain(text: str) -> str:
    """Remove accents, case and invisible letters."""
    # Names are compared in compatibility form, so that full-width letters, accents or a soft hyphen do not hide a key.
    letters = unicodedata.normalize("NFKD", text).casefold()
    return "".join(letter for letter in letters if unicodedata.category(letter) not in ("Mn", "Cf"))


# Doubt is decided against the candidate: a context that is not sent costs score and `validate` lists it, while a key that is
# sent raises scores without any sign. See docs/decisions/024-open-fields.md.
_GRADING_PART = re.compile(
    r"answer|rubri|rubry|[ck]riter|^crit(?:ique)?s?$|correct|(?<!re)(?<!dis)(?<!ab)solution|(?<!un)expected|expectation|groundtruth"
    r"|markscheme|gradesheet|checklist|^expects?$|testcases?$|^unittests?$|chainofthought|^gold|(?<!de)(?<!up)(?<!wn)grad(?:er|ed|ing)|scor(?:er|ing)|^mark(?:ers?|ing)|^eval|^assess"
    r"|^judge(?!ment)|^judging|^examiner|^annotator|^ans(?:key|w?r)|^(?:true|target)labels?$|^key(?:points?|facts?)$"
    r"|^(?:references?|refs?|rationales?|distractors?|must|should)$|"
    # The same words in other languages.
    + _plain(
        "antwort|lösung|loesung|richtig|korrekt|bewert|erwart|réponse|corrigé|barème|attendu|respuesta|soluci|calificaci"
        "|risposta|soluzion|corrett|valutazion|resposta|soluç|gabarito|corret|antwoord|oplossing|beoordel|^svar|facit|fasit|lösning"
        "|løsning|vastau|odpowied|rozwiąz|prawidłow|odpověď|řešení|válasz|megold|răspuns|cevap|yan\u0131t|çözüm|jawaban|đáp|απάντηση"
        "|ответ|решени|правильн|критери|оцен|эталон|відповід|תשוב|جواب|إجاب|پاسخ|उत्तर|উত্তর|คำตอบ|답|채점|평가|모범|模範|вердикт|答|正解|正确|正確|评分|評分|採点|解析|解説|解法|評価|得分|预期|점수|объяснен|пояснен|обоснован|explicaç|spiegazion|puntuaci|punteggi|pontuaç"
    )
)
"""A part of a name that means grading, regardless of its neighbours."""
# The lookbehinds except names such as `drug_label` and `row_label`, which are not keys.
_GRADING_PHRASE = re.compile(
    r"(?:required|needed|essential|mandatory|key)_(?:points?|facts?|elements?|phrases?|concepts?|ideas?|mentions?)"
    r"|_to_(?:cover|mention|include|pass)(?:_|$)|chain_of_thoughts?|(?:pass|passing|success)_conditions?"
    r"|(?:required|forbidden|banned|disallowed)_(?:keywords?|words?|phrases?|claims?|citations?|mentions?)"
    r"|(?:expert|physician|doctor|lawyer|attorney|safe|gpt|chatgpt|llm|ai)_(?:responses?|repl(?:y|ies)|completions?|outputs?)"
    r"|common_(?:mistakes?|errors?|misconceptions?)|supporting_(?:facts?|sentences?)|(?:desired|intended|target|ideal)_behaviou?rs?"
    r"|^(?:is|was)_(?:true|false|possible|impossible|relevant|supporting|safe|unsafe|harmful|toxic)$"
    r"|^(?:actual|final|true)(?:_(?:value|number|choice|option|letter|decision|diagnosis|disposition))?$|^(?:input_outputs?|(?:hidden|private|generated|challenge)_tests?(?:_list)?)$"
    r"|(?<!drug)(?<!food)(?<!product)(?<!nutrition)(?<!warning)(?<!package)(?<!axis)(?<!row)(?<!column)(?<!speaker)(?<!private)_label$"
)
"""Words that mean grading only together."""
_KEY_PARTS = frozenset((
    "key", "keys", "keyed", "ideal", "ideals", "target", "targets", "label", "labels", "truth", "truths", "verdict",
    "score", "scores", "grade", "grades", "note", "notes", "explanation", "explanations", "justification", "output", "outputs",
    "completion", "completions", "response", "responses", "ans", "gt", "sol", "soln", "cop", "y", "chosen", "rejected", "preferred",
    "selected", "picked", "right", "wrong", "best", "worst", "winning", "winner", "test", "tests", "check", "checks", "feedback",
    "reasoning", "cot", "thought", "thoughts", "hidden", "secret", "private", "oracle", "assert", "asserts", "assertion",
    "assertions", "judgment", "judgments", "judgement", "judgements", "mark", "marks", "class", "result", "results", "outcome",
    "outcomes", "accepted", "acceptable", "reward", "rewards", "reply", "replies", "exp", "expl", "tgt", "ytrue", "rating",
    "ratings", "aliases", "highlights", "tldr", "patch", "sentiment", "polarity", "verifier", "verifiers", "validator",
    "validators", "checker", "checkers", "better",
))  # fmt: skip
"""A name of only these means grading; with other words only if those are neutral: `best_label`, not `best_friend`."""
_NEUTRAL_PARTS = frozenset((
    "a", "an", "the", "is", "are", "of", "for", "in", "final", "true", "model", "sample", "human", "max", "min", "total", "id",
    "ids", "text", "texts", "index", "indices", "idx", "letter", "letters", "value", "values", "number", "num", "no", "nr", "list",
    "string", "raw", "official", "suggested", "desired", "intended", "actual", "ground", "standard", "choice", "choices", "option",
    "options", "point", "points", "fact", "facts", "phrase", "phrases", "item", "items", "mc", "mcq", "single", "multi", "multiple",
    "case", "cases", "unit", "example", "examples", "teacher", "teachers", "author", "authors", "reviewer", "instructor",
    "internal", "dataset", "scheme", "guide", "guidance", "guideline", "guidelines", "sheet",
))  # fmt: skip
_FORM_PARTS = frozenset((
    "choice", "choices", "option", "options", "format", "formats", "type", "types", "language", "lang", "length", "style",
    "instruction", "instructions", "template", "schema", "unit", "units", "candidates",
))  # fmt: skip
"""`answer_choices` and `answer_format` belong to the question, although they contain `answer`."""
_JOINED = _KEY_PARTS | _NEUTRAL_PARTS | _FORM_PARTS | {"answer", "answers"}
# Words of one or two letters would split almost any name: `an`, `is`, `y`.
_SHORTEST_JOINED, _LONGEST_JOINED = 3, max(map(len, _JOINED))
# Longer parts are not joined words, and every further letter costs a search.
_MAX_JOINED = 40
"""Maximum letters of a part that is split into several words."""
# `key` and `note` both mean grading, a keynote does not.
_NOT_JOINED = frozenset(("keynote", "keynotes"))
_CHOICES = frozenset(("choices", "options", "alternatives"))
_ONE_CHOICE = frozenset(("choice", "option", "alternative"))
_LISTED_CHOICE = re.compile(r"(?:choice|option|alternative)[\W_]*(?:[a-z]|\d+)")
"""`option_a` and `choice2` are choices; `choice` is the correct one."""
_DEMONSTRATIONS = frozenset(("examples", "exemplars", "demonstrations", "demos", "shots", "shot", "fewshot", "fewshots"))
"""Lists of few-shot examples for the candidate."""
_DEMONSTRATED = frozenset((
    "answer", "answers", "output", "outputs", "completion", "completions", "response", "responses", "label", "labels", "target",
    "targets", "solution", "solutions", "ans", "explanation", "explanations", "reasoning", "thought", "class", "result", "results",
))  # fmt: skip
"""Names that an example may show its answer under; a rubric, a key or a reference is hidden there too."""
_PROPERTIES = frozenset(("properties", "$defs", "definitions"))
_SCHEMA = frozenset((
    "type", "title", "description", "format", "enum", "items", "properties", "required", "additionalProperties", "nullable",
    "anyOf", "oneOf", "allOf", "$ref", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern",
))  # fmt: skip
"""A parameter of a tool may be called `answer`: names in a JSON Schema belong to the question."""
_SCHEMA_TYPES = frozenset(("type", "enum", "anyOf", "oneOf", "allOf", "$ref"))
_FIELD_NAMES = ("name", "key", "field", "column", "attribute", "label", "id")
_PEOPLE = frozenset(("judge", "examiner", "assessor"))
"""Roles of people: the speaker in a transcript may be a judge."""
_LABELS = ("id", "letter", "label", "key", "name")
_LABEL_LISTS = (*_LABELS, *(f"{name}s" for name in _LABELS))
_VERDICTS = frozenset((
    "correct", "incorrect", "true", "false", "right", "wrong", "yes", "no", "gold", "good", "bad", "answer", "valid", "invalid",
    "other", "others", "x", "",
))  # fmt: skip
"""Values in a choice that tell which one is right, and are not labels."""
_PLAIN_PARTS = _CHOICES | _ONE_CHOICE | {"answer", "answers", "possible", "multiple"}
"""Numbers are choices only in a list with such a name; `choice_weights` are not."""
_TEXTS = ("text", "content", "option", "choice", "title", "description")
_TEXT_LISTS = (*_TEXTS, "texts", "choices", "options")
_NUMBERED = re.compile(r"(.*?)([a-z]|\d{1,9})(\W*)", re.DOTALL)
# Only the ends of a choice are searched for marks: a mark in the middle is part of its text.
_MARK_ROOM = 60
_MARKED_HEAD = re.compile(
    r"\*\S|[✓✔✅☑]|[\[(][x✓✔][\])]|\W*(?:(?:the|correct|right)\s+)*(?:answer|key|solution)(?:\s+(?:is|key))?\s*[:=]", re.IGNORECASE
)
_MARKED_TAIL = re.compile(
    r"(?:[*✓✔✅☑]|[\[(](?:correct|right|true|answer|richtig|korrekt|correcta|correto|juste|верно|правильно|正确|正解)(?:\s[^\])]*)?[\])])$",
    re.IGNORECASE,
)
"""Marks before and after the right choice of a list."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBERED_NAME = re.compile(r"(.*?)(\d{1,2}|(?<=[_\W])[A-Za-z]|(?<=[a-z])[A-Z])", re.DOTALL)
_ANSWER_STEMS = frozenset(("ans", "answer"))
_SHORT_TEXT = 500
_ASKING = frozenset(("human", "user"))
_QUOTED_NAME = re.compile(r"""(["'])([^"'\n]{1,100})\1\s*:""")
_SHORT_NAME = re.compile(r"[\w -]{1,40}")
# Recursion is in Python, and a text that is JSON may hold JSON again. Depth beyond this is hidden rather than shown unchecked.
_MAX_DEPTH = 64
"""Levels of a value in which names are checked; deeper content is for judges only."""
# The cache is bounded in entries, not in bytes: with names of a megabyte it could hold gigabytes.
_LONGEST_NAME = 100
"""Names up to this length are cached."""


_ChoiceObject = Mapping[str, object]


class ChatMessage(TypedDict):
    """A message in `input.messages`."""

    role: Role
    content: str


class OpenField(NamedTuple):
    """One open field as a text for a model."""

    name: str
    text: str


def question_fields(case: Case) -> tuple[OpenField, ...]:
    """Return the fields of the question besides the prompt, for the candidate and for judges."""
    given = dict(_members(case, "input"))
    listed = _listed_answers(given, case.references)
    # The answer of `messages` is not among these: `_members` leaves the conversation out, which is sent as turns.
    shown = (
        (name, _member_part(name, value, prompt=case.prompt))
        for name, value in given.items()
        if name in listed or not _is_key(name, value)
    )
    return tuple(OpenField(name, field_text(name, value)) for name, value in shown if not _is_empty(value))


def grading_fields(case: Case) -> tuple[OpenField, ...]:
    """Return the fields that only judges see: other members of `reference`, and members of `input` that mean grading."""
    return (*_keys(case), *_references(case))


def _keys(case: Case) -> Iterator[OpenField]:
    # Judges see the whole conversation where the candidate gets only its beginning: the rest is the answer, as files for
    # fine-tuning hold it.
    messages = case.extra.get("input", {}).get(_MESSAGES) if case.open_fields == VERSION and case.messages else None
    if messages is not None and len(earlier_messages({"prompt": case.prompt, _MESSAGES: messages})) < len(messages):
        yield OpenField(_MESSAGES, json.dumps(messages, ensure_ascii=False))
    given = dict(_members(case, "input"))
    listed = _listed_answers(given, case.references)
    for name, value in given.items():
        if _is_empty(value):
            continue
        if name not in listed and _is_key(name, value):
            yield OpenField(name, field_text(name, value))
        elif _member_part(name, value, prompt=case.prompt) != value:
            # Judges also see the part that is hidden from the candidate.
            yield OpenField(name, value if type(value) is str else json.dumps(value, ensure_ascii=False))


def _references(case: Case) -> Iterator[OpenField]:
    for name, value in _members(case, "reference"):
        if name not in UNSENT_REFERENCE and not _is_empty(value):
            yield OpenField(name, field_text(name, value))


def field_uses(given: Mapping[str, object], reference: Mapping[str, object]) -> Iterator[FieldUse]:
    """List where each open member of `input` and `reference` goes, in the order of the record."""
    prompt, answer = given.get("prompt"), reference.get("answer")
    listed = _listed_answers(given, (answer,) if type(answer) is str else ())
    # Tools are offered whole, and expected calls are compared by a program.
    is_compared = "tool_calls" in reference and expects_calls(
        reference["tool_calls"], given.get("tools"), reference.get("tool_matching")
    )
    for name, value in given.items():
        if name in listed or (is_compared and name in TOOL_MEMBERS["input"]):
            yield FieldUse(f"input.{name}", "candidate_and_judge")
        elif name != "prompt" and not _is_empty(value):
            is_answered = name == _MESSAGES and type(value) is list and 0 < len(earlier_messages(given)) < len(value)
            yield from _input_uses(name, value, prompt=prompt if type(prompt) is str else "", is_answered=is_answered)
    unsent = (*UNSENT_REFERENCE, *(TOOL_MEMBERS["reference"] if is_compared else ()))
    for name, value in reference.items():
        if name != "answer" and not _is_empty(value):
            yield FieldUse(f"reference.{name}", "not_sent" if name in unsent else "judge_only")


def _input_uses(name: str, value: object, *, prompt: str, is_answered: bool) -> Iterator[FieldUse]:
    field = f"input.{name}"
    if is_answered:
        yield from (FieldUse(field, "candidate_and_judge"), FieldUse(f"{field}[]", "judge_only"))
        return
    if _is_key(name, value):
        yield FieldUse(field, "judge_only")
        return
    shown = _member_part(name, value, prompt=prompt)
    if shown is value:
        yield FieldUse(field, "candidate_and_judge")
        return
    if not _is_empty(shown):
        yield FieldUse(field, "candidate_and_judge")
    if shown != value:
        yield from (FieldUse(path, "judge_only") for path in dict.fromkeys(_hidden_paths(value, shown, field)))


def earlier_messages(given: Mapping[str, object]) -> list[ChatMessage]:
    """Return the conversation in `input.messages`, if it is one: objects with a known role and a text only.

    The reply to the prompt in it is left out: it is the answer that the candidate must give.
    """
    messages = given.get(_MESSAGES)
    if type(messages) is not list or not messages or not all(map(_is_message, messages)):
        return []
    # Only where the last question is the prompt itself: otherwise the conversation is earlier context, with its replies.
    last = max((index for index, message in enumerate(messages) if message["role"] == "user"), default=None)
    is_answered = last is not None and messages[last]["content"].strip() == str(given["prompt"]).strip()
    return messages[: last + 1] if last is not None and is_answered else messages


def _is_message(value: object) -> bool:
    return (
        type(value) is dict
        and value.keys() == {"role", "content"}
        and value["role"] in _ROLES
        and type(value["content"]) is str
        and bool(value["content"].strip())
    )


def _member_part(name: str, value: object, *, prompt: str) -> object:
    """Return the part of a member of `input` that the candidate sees; None for nothing."""
    return _question_part(name, _unanswered(value, prompt))


def _unanswered(value: object, prompt: str) -> object:
    """Remove the reply to the prompt from a conversation in another tool's form, `{"from": "human", "value": …}`."""
    if type(value) is not list or not all(map(_is_turn, value)):
        return value
    matches = (index for index, turn in enumerate(value) if turn["from"] in _ASKING and turn["value"].strip() == prompt.strip())
    last = max(matches, default=None)
    return value if last is None or last == len(value) - 1 else value[: last + 1]


def _is_turn(value: object) -> bool:
    return type(value) is dict and type(value.get("from")) is str and type(value.get("value")) is str


def _listed_answers(given: Mapping[str, object], answers: Sequence[str] = ()) -> frozenset[str]:
    """Find names such as `ans0`, `ans1`, `ans2` that are the choices of the question, and not its answers.

    They are choices if they count from 0, or if the right answer is the label of one, `B` or `answer2`. When other members have
    the same numbers, `question0`, each is the answer to one of those.
    """
    # Numbered names belong together by what is before the number: ans0, ans1 and ans2 are one group.
    groups: dict[str, dict[str, str]] = {}
    for name in given:
        match = _NUMBERED_NAME.fullmatch(name) if len(name) <= _LONGEST_NAME else None
        if match is not None:
            groups.setdefault(match[1], {})[match[2].casefold()] = name
    found: set[str] = set()
    for stem, group in groups.items():
        if stem.casefold().strip("_- ") not in _ANSWER_STEMS or len(group) < 2 or not _are_labels([*group.values()]):
            continue
        texts = [given[name] for name in group.values()]
        if not _are_short_texts(texts) or any(not group.keys().isdisjoint(other) for own, other in groups.items() if own != stem):
            continue
        labels = {*group, *(name.casefold() for name in group.values())}
        is_labelled = any(answer.strip().casefold() in labels and answer not in texts for answer in answers)
        # Without one of these signs, `answer1` and `answer2` may be two accepted answers, and showing them would give the key away.
        if "0" in group or is_labelled:
            found |= {*group.values()}
    return frozenset(found)


def _are_short_texts(texts: list[object]) -> bool:
    """Return whether texts are different single lines, none of them marked."""
    is_short = all(
        type(text) is str and text.strip() and len(text) <= _SHORT_TEXT and len(text.splitlines()) == 1 for text in texts
    )
    return is_short and len({*texts}) == len(texts) and not _are_marked(texts)


def _is_key(name: str, value: object) -> bool:
    """Return whether a member is for judges only; one `choice` next to `choices` is the right one."""
    # The name decides, not the value, so that an author can foresee who sees a field.
    kind = _kind(name)
    if kind == "one_choice":
        return type(value) not in (dict, list) and not (type(value) is str and _LISTED_CHOICE.fullmatch(_plain(name)))
    # A single label or number is not the text of the choices.
    return kind == "key" or (kind == "choices" and (type(value) in (int, float, bool) or (type(value) is str and len(value) == 1)))


def says_grading(name: str) -> bool:
    """Return whether a name means something hidden from the candidate: a rubric, a key, a note for graders."""
    return _kind(name) == "key"


_Kind = Literal["key", "one_choice", "choices", "demonstrations", "other"]


def _kind(name: str) -> _Kind:
    """Classify a name; overlong ones are not cached, since files rarely repeat them."""
    return _remembered_kind(name) if len(name) <= _LONGEST_NAME else _remembered_kind.__wrapped__(name)


@lru_cache(4096)
def _remembered_kind(name: str) -> _Kind:
    # Cached because a dataset repeats a handful of names in every record, and the patterns above are long.
    parts = tuple(word for part in _parts(name) for word in _words_of(part))
    has_key = any(part in _KEY_PARTS for part in parts)
    if _names_key(parts) or (has_key and all(part in _KEY_PARTS or part in _NEUTRAL_PARTS for part in parts)):
        return "key"
    if any(part in _CHOICES for part in parts):
        return "choices"
    if parts[-1] in _ONE_CHOICE or (parts[0] in _ONE_CHOICE and all(part in _NEUTRAL_PARTS for part in parts)):
        return "one_choice"
    return "demonstrations" if any(part in _DEMONSTRATIONS for part in parts) else "other"


def _names_key(parts: tuple[str, ...]) -> bool:
    strong = [part for part in parts if _GRADING_PART.search(part)]
    is_form = parts[-1] in _FORM_PARTS and all(part in ("answer", "answers") for part in strong)
    return (bool(strong) and not is_form) or _GRADING_PHRASE.search("_".join(parts)) is not None


def _words_of(part: str) -> tuple[str, ...]:
    """Split words that are written as one, `finallabel`; otherwise return the part unchanged."""
    if part in _JOINED or part in _NOT_JOINED or len(part) > _MAX_JOINED:
        return (part,)
    # Dynamic programming: split[n] holds the words of the first n letters, or None where these cannot be split into words.
    split: list[tuple[str, ...] | None] = [()]
    for end in range(1, len(part) + 1):
        starts = range(end - _SHORTEST_JOINED, max(end - _LONGEST_JOINED, 0) - 1, -1)
        start = next((start for start in starts if split[start] is not None and part[start:end] in _JOINED), None)
        split.append(None if start is None else (*(split[start] or ()), part[start:end]))
    return split[-1] or (part,)


def _is_demonstrated(name: str) -> bool:
    """Return whether a name is the answer of an example, and not about grading."""
    return all(part in _DEMONSTRATED or part in _NEUTRAL_PARTS for part in _parts(name))


def _parts(name: str) -> tuple[str, ...]:
    """Split a name into words without case and accents: `correctChoiceIds` and `CORRECT-choice_ids` give the same."""
    return tuple(_NAME_PARTS.findall(_plain(_HUMP.sub("_", unicodedata.normalize("NFKD", name))))) or ("",)


def _members(case: Case, field: str) -> list[tuple[str, object]]:
    """Return the open members of a case that the rule applies to; none for cases stored before the rule existed."""
    if case.open_fields != VERSION:
        return []
    members = case.extra.get(field, {})
    # Tools are offered as tools, and expected calls are compared by a program.
    used = TOOL_MEMBERS[field] if case.expected_calls is not msgspec.UNSET else ()
    return [
        item
        for item in members.items()
        if item[0] not in used and not (field == "input" and item[0] == _MESSAGES and case.messages)
    ]


def _question_part(name: str, value: object, *, depth: int = 1, is_example: bool = False) -> object:
    """Return the part of a value that the candidate sees; None for nothing."""
    if type(value) is str:
        return _shown_text(name, value, depth=depth, is_example=is_example)
    if not isinstance(value, dict | list):
        return value
    kind = _kind(name)
    if kind in ("choices", "one_choice"):
        return _shown_choices(name, value)
    return _shown(value, depth=depth, is_example=is_example or (kind == "demonstrations" and type(value) is list))


def _shown_text(name: str, text: str, *, depth: int, is_example: bool) -> object:
    """Return a text unchanged, or, if it is JSON or a list of choices, without what means grading."""
    # Tables store objects as text. Only the beginning is tested: decoding every long prompt as JSON would cost more than the rule.
    if text.lstrip()[:1] in ("{", "["):
        value = _decoded(text)
        quotes = {match[1] for match in _QUOTED_NAME.finditer(text) if says_grading(match[2])} if value is None else ()
        if quotes:
            value = _python_value(text)
            if value is None:
                # An unparsable object may hold a key; a text in brackets may be instructions, and code may contain the name.
                return None if text.lstrip()[0] == "{" and "'" in quotes else text
        part = _question_part(name, value, depth=depth + 1, is_example=is_example)
        return text if part == value else part
    lines = text.splitlines()
    return None if len(lines) > 1 and _kind(name) == "choices" and _are_marked(lines) else text


def _decoded(text: str) -> object:
    """Decode a JSON text, else return None; text nested too deeply is not examined."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _python_value(text: str) -> object:
    """Evaluate a Python literal, as tables write lists and objects; None for any other text."""
    try:
        # literal_eval compiles the text, and the compiler warns of escapes such as `\d`.
        with warnings.catch_warnings(action="ignore"):
            return msgspec.to_builtins(ast.literal_eval(text.strip()), str_keys=True)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _shown(value: object, *, depth: int, is_example: bool) -> object:
    """Remove members whose names mean grading, at any depth."""
    if type(value) is str:
        return _shown_text("", value, depth=depth, is_example=is_example)
    if not isinstance(value, dict | list):
        return value
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return _shown_list(value, depth=depth, is_example=is_example)
    is_key = _is_named_key(value, is_example=is_example)
    return None if is_key else _shown_object(_without_key_columns(value), depth=depth, is_example=is_example)


def _shown_list(value: Sequence[object], *, depth: int, is_example: bool) -> list[object]:
    if _are_pairs(value):
        value = [pair for pair in value if not (says_grading(pair[0]) and not (is_example and _is_demonstrated(pair[0])))]
    parts = ((member, _shown(member, depth=depth + 1, is_example=is_example)) for member in value)
    return [part for member, part in parts if part is not None or member is None]


def _shown_object(value: Mapping[str, object], *, depth: int, is_example: bool) -> dict[str, object]:
    shown: dict[str, object] = {}
    listed = _listed_answers(value)
    for name, member in value.items():
        if name in _PROPERTIES and type(member) is dict and all(map(_is_schema, member.values())):
            shown[name] = {own: _shown(schema, depth=depth + 2, is_example=False) for own, schema in member.items()}
        elif name in listed or not _is_key(name, member) or (is_example and _is_demonstrated(name)):
            part = _question_part(name, member, depth=depth + 1, is_example=is_example)
            if part is not None or member is None:
                shown[name] = part
    return shown


def _are_pairs(value: Sequence[object]) -> TypeGuard[Sequence[tuple[str, object]]]:
    """Return whether a list holds name-value pairs, `["answer", "x"]`."""
    return bool(value) and all(
        type(pair) is list and len(pair) == 2 and type(pair[0]) is str and _SHORT_NAME.fullmatch(pair[0]) for pair in value
    )


def _without_key_columns(value: dict[str, object]) -> dict[str, object]:
    """Remove columns whose names mean grading from a table of `columns` and `data`; other objects are unchanged."""
    columns, rows = value.get("columns"), value.get("data")
    if type(columns) is not list or type(rows) is not list or not all(type(row) is list for row in rows):
        return value
    hidden = {index for index, name in enumerate(columns) if type(name) is str and says_grading(name)}
    if not hidden:
        return value
    cells = [[cell for index, cell in enumerate(row) if index not in hidden] for row in rows]
    return {**value, "columns": [name for index, name in enumerate(columns) if index not in hidden], "data": cells}


def _is_named_key(value: Mapping[str, object], *, is_example: bool) -> bool:
    """Return whether an object names itself by a value: `{"name": "answer", "value": …}`, or a message of a grader."""
    names = [value["role"]] if "role" in value else []
    if "value" in value:
        names += [value[name] for name in _FIELD_NAMES if name in value]
    return any(
        type(name) is str and says_grading(name) and name.casefold() not in _PEOPLE and not (is_example and _is_demonstrated(name))
        for name in names
    )


def _is_schema(value: object) -> bool:
    return type(value) is dict and value.keys() <= _SCHEMA and not _SCHEMA_TYPES.isdisjoint(value)


def _shown_choices(name: str, value: dict[str, object] | list[object]) -> object:
    """Reduce each choice to its label and text; None when these are not obvious."""
    if isinstance(value, dict):
        return _named_choices(value)
    if _are_all(value, str):
        return None if _are_marked(value) else value
    if {type(choice) for choice in value} <= {int, float}:
        is_plain = all(part in _PLAIN_PARTS for part in _parts(name))
        return value if is_plain and len({*value}) == len(value) and not {*value} <= {0, 1} else None
    if _are_all(value, dict):
        return _shown_objects(value)
    return _shown_rows(value) if _are_all(value, list) else None


_T = TypeVar("_T")


def _are_all(values: Sequence[object], kind: type[_T]) -> TypeGuard[list[_T]]:
    """Return whether all values have a type of JSON; exactly that type, since true would otherwise be a number."""
    return all(type(value) is kind for value in values)


def _named_choices(value: dict[str, object]) -> object:
    """Reduce choices by label, texts next to a list of labels, or texts that each have a label."""
    if not value:
        return value
    listed = next((name for name in value if name.casefold() in _TEXT_LISTS and type(value[name]) is list), None)
    if listed is not None:
        return _parallel_lists(value, listed)
    named = value if _are_labels([*value]) else {name: choice for name, choice in value.items() if not says_grading(name)}
    if any(map(_says_verdict, named)):
        return None
    if all(type(choice) in (int, float, bool) or _is_verdict(choice) for choice in named.values()):
        return list(named) if len(named) == len(value) and not _are_labels([*named]) else None
    if not _are_labels([*named]):
        return None
    choices = [*named.values()]
    if _are_all(choices, dict):
        shown = _shown_objects(choices, ())
        return None if shown is None else dict(zip(named, shown, strict=True))
    return named if _are_all(choices, str) and not _are_marked(choices) else None


def _parallel_lists(value: dict[str, object], listed: str) -> dict[str, object] | None:
    texts = value[listed]
    if type(texts) is not list or not _are_all(texts, str) or _are_marked(texts):
        return None
    is_label = (
        name
        for name, labels in value.items()
        if name.casefold() in _LABEL_LISTS and type(labels) is list and len(labels) == len(texts) and _are_labels(labels)
    )
    label = next(is_label, None)
    return {name: member for name, member in value.items() if name in (listed, label)}


def _column(choices: Sequence[_ChoiceObject], name: str) -> list[object]:
    return [choice[name] if name in choice else _any_case(choice, name) for choice in choices]


def _any_case(choice: _ChoiceObject, name: str) -> object:
    return next((member for own, member in choice.items() if own.casefold() == name), None)


def _shown_objects(choices: Sequence[_ChoiceObject], labels: tuple[str, ...] = _LABELS) -> Sequence[_ChoiceObject] | None:
    """Keep the label, if any, and the text of each choice."""
    if labels and all(map(_is_pair, choices)) and _are_labels([choice["id"] for choice in choices]):
        return None if _are_marked([choice["text"] for choice in choices]) else choices
    label = next((name for name in labels if _are_labels(_column(choices, name))), None)
    known = (*_TEXTS, "value", *(name for name in ("label", "name") if name != label))
    text = next((name for name in known if _is_text_column(name, _column(choices, name), label)), None)
    # No obvious text means that any member could be the key, so that the whole list is hidden.
    if text is None or _are_marked(_column(choices, text)):
        return None
    return [{name: member for name, member in choice.items() if name.casefold() in (label, text)} for choice in choices]


def _is_pair(choice: Mapping[str, object]) -> bool:
    """Return whether a choice is just an id and a text, as nearly all are."""
    return len(choice) == 2 and "id" in choice and type(choice.get("text")) is str


def _shown_rows(rows: Sequence[Sequence[object]]) -> list[Sequence[object]] | None:
    """Reduce choices written as lists to label and text, or text only."""
    columns = [list(column) for column in zip(*rows, strict=False)][:2]
    if len(columns) > 1 and _are_labels(columns[0]) and _are_texts(columns[1]):
        return None if _are_marked(columns[1]) else [row[:2] for row in rows]
    index = next((index for index, column in enumerate(columns) if _are_texts(column) and not _are_labels(column)), None)
    return None if index is None or _are_marked(columns[index]) else [row[index : index + 1] for row in rows]


def _is_text_column(name: str, values: Sequence[object], label: str | None) -> bool:
    """Return whether a column has the choices' texts; a number in `value` is a choice's weight, unless next to a label."""
    if name in ("text", "content"):
        return all(type(value) is str for value in values)
    is_worth = name == "value" and label is None
    return _are_texts(values) and not (is_worth and any(map(_is_number, map(str, values))))


def _are_texts(values: Sequence[object]) -> bool:
    return all(type(value) is str for value in values) and not any(map(_is_verdict, values))


def _is_number(value: str) -> bool:
    return re.fullmatch(r"\s*[-+]?[\d.,]+\s*%?\s*", value) is not None


def _are_marked(texts: Iterable[object]) -> bool:
    """Return whether some of the texts, but not all, have a mark that reveals the right one: `*Paris`, `Paris (correct)`."""
    stripped = [str(text).strip() for text in texts]
    ends = [(text[:_MARK_ROOM], text[-_MARK_ROOM:]) for text in stripped]
    marks = [_MARKED_HEAD.match(head) is not None or _MARKED_TAIL.search(tail) is not None for head, tail in ends]
    heads = {head[:1] for head, _ in ends}
    return (any(marks) and not all(marks)) or heads == {"=", "~"}


def _are_labels(values: Sequence[object]) -> bool:
    """Return whether labels only count: consecutive letters or numbers after the same prefix, which is not a verdict."""
    if not all(type(value) is int or (type(value) is str and len(value) <= _LONGEST_NAME) for value in values):
        return False
    labels = tuple(str(value).strip().casefold() for value in values)
    return _remembered_labels(labels) if len(labels) <= len(_LETTERS) else _remembered_labels.__wrapped__(labels)


@lru_cache(256)
def _remembered_labels(labels: tuple[str, ...]) -> bool:
    if {*labels} <= {"0", "1"}:
        return False
    found = [_NUMBERED.fullmatch(label) for label in labels]
    counted = [match for match in found if match is not None]
    if len(counted) < len(labels) or len({(match[1], match[3]) for match in counted}) != 1 or _says_verdict(counted[0][1]):
        return False
    # Labels count if they are consecutive, in any order. A gap may mean that one label is something else, such as a score.
    numbers = sorted(int(match[2]) if match[2].isdecimal() else ord(match[2]) for match in counted)
    return numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _says_verdict(label: str) -> bool:
    """Return whether a word of a label reveals what is right; the word answer in each of them does not."""
    words = [part for part in _parts(label) if len(part) > 1 and part not in ("answer", "ans")]
    return any(word in _VERDICTS or word in _KEY_PARTS or _GRADING_PART.search(word) for word in words)


def _is_verdict(value: object) -> bool:
    return value.strip().casefold() in _VERDICTS if type(value) is str else type(value) in (int, float, bool) and value in (0, 1)


def _hidden_paths(value: object, shown: object, path: str) -> Iterator[str]:
    """Find the paths in a value that are hidden from the candidate."""
    if type(value) is dict and type(shown) is dict:
        for name, member in value.items():
            if name not in shown:
                yield f"{path}.{name}"
            elif shown[name] != member:
                yield from _hidden_paths(member, shown[name], f"{path}.{name}")
    elif type(value) is list and type(shown) is list and len(value) == len(shown):
        for member, part in zip(value, shown, strict=True):
            if part != member:
                yield from _hidden_paths(member, part, f"{path}[]")
    else:
        yield path


def _is_empty(value: object) -> bool:
    """Return whether a value is empty: null, blank text, an empty list or object, or a list of such."""
    if type(value) is str:
        return not value.strip()
    if type(value) is list:
        return all(map(_is_empty, value))
    return value is None or value == {}


def field_text(name: str, value: object) -> str:
    """Format a value for a model: texts unchanged, choices as labelled lines, lists of texts numbered, the rest as JSON."""
    if type(value) is str:
        return value
    if _kind(name) in ("choices", "one_choice"):
        lines = _choice_lines(value)
        if lines:
            return "\n".join(lines)
    if type(value) is list and all(type(member) is str for member in value):
        return value[0] if len(value) == 1 else "\n\n".join(f"({number})\n{member}" for number, member in enumerate(value, 1))
    return json.dumps(value, ensure_ascii=False)


def _choice_lines(value: object) -> list[str]:
    """Format choices as lines; empty if the value has another form."""
    if type(value) is dict:
        return _lines_of_object(value)
    if type(value) is not list:
        return []
    if value and all(type(choice) is list and len(choice) == 2 for choice in value):
        return _lines([choice[0] for choice in value], [choice[1] for choice in value])
    if value and all(type(choice) is dict and len(choice) == 2 for choice in value):
        label = next((name for name in _LABELS if _are_labels(_column(value, name))), "")
        others = [next((member for own, member in choice.items() if own.casefold() != label), None) for choice in value]
        return _lines(_column(value, label) if label else None, others)
    return _lines(None, [_only_member(choice) for choice in value])


def _lines_of_object(value: Mapping[str, object]) -> list[str]:
    listed = ((name, member) for name, member in value.items() if name.casefold() in _TEXT_LISTS and type(member) is list)
    name, texts = next(listed, ("", None))
    if texts is None:
        return _lines(list(value), [_only_member(choice) for choice in value.values()])
    labels = [other for other in value if other != name]
    return _lines(value[labels[0]] if labels else None, texts) if len(labels) < 2 else []


def _only_member(choice: object) -> object:
    if type(choice) is dict and len(choice) == 1:
        return next(iter(choice.values()))
    return choice[0] if type(choice) is list and len(choice) == 1 else choice


def _lines(labels: object, texts: Sequence[object]) -> list[str]:
    """Label choices without labels by letters of the alphabet, unless they begin with them."""
    # bool is excluded by the exact types: true and false next to choices say which of them is right.
    if not all(type(text) in (str, int, float) for text in texts):
        return []
    if labels is None:
        letters = list(_LETTERS) if len(texts) <= len(_LETTERS) else list(map(str, range(1, len(texts) + 1)))
        if all(re.match(rf"\(?{letter}[).:]", str(text).lstrip()) for letter, text in zip(letters, texts, strict=False)):
            return list(map(str, texts))
        labels = letters[: len(texts)]
    if type(labels) is not list or len(labels) != len(texts) or not all(type(label) in (str, int) for label in labels):
        return []
    return [f"{label}. {text}" for label, text in zip(labels, texts, strict=True)]
