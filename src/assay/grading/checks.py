"""Checks of answers: each compares an answer with a value or a reference, and no model is called."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.core.case import Case
from assay.core.checks import (
    RECORD_CHECKS,
    Check,
    CheckResult,
    ContainsCheck,
    CostCheck,
    EndsWithCheck,
    EqualsCheck,
    IsJsonCheck,
    JsonPathCheck,
    JsonSchemaCheck,
    LanguageCheck,
    LatencyCheck,
    LengthCheck,
    NumberCheck,
    OneOfCheck,
    PassRule,
    PassShare,
    RefusalCheck,
    RegexCheck,
    SimilarityCheck,
    StartsWithCheck,
    ToolCalledCheck,
    merged_checks,
    named_checks,
)
from assay.core.errors import MissingExtra
from assay.core.json_path import JsonPath, path_problem, structure_of
from assay.core.model_call import MeasuredReply, Reply
from assay.core.outcome import FailureLabel
from assay.grading.answer_number import find_number
from assay.grading.answer_text import after_thoughts, without_end_marks
from assay.grading.refusals import FINISH_REASONS, refusal_in
from assay.grading.similarity import MAX_CHARACTERS, check_installed, edits, similarity
from assay.grading.tool_call import read_call

MAX_LANGUAGE = 10_000
"""Characters of an answer by which its language is recognised."""
MIN_CONFIDENCE = 0.1
"""Confidence below which no language is recognised: single words and names have one of about 0.02."""
_MAX_QUOTED = 80
_MAX_TRIES = 20
"""Opening brackets that are tried as the beginning of JSON within an answer."""
_NO_VALUE: Any = msgspec.UNSET
_TOOL_NAMES = ("tool", "tool_name", "function", "name")
_MAX_STEP_DEPTH = 6

Texts = tuple[str, ...]


class CheckFinding(NamedTuple):
    """Whether what a check is about holds for an answer; None where it is unknown."""

    holds: bool | None
    reason: str
    score: float | None = None
    """A similarity; other checks have none."""


class CheckedAnswer:
    """An answer as checks read it; what several checks need is computed once."""

    def __init__(self, reply: Reply, references: Texts = ()) -> None:
        self.reply = reply
        self.references = references
        # Reasoning that servers leave in front of an answer is not part of it, and markers after it neither.
        self.text = _normal(without_end_marks(after_thoughts(reply.text)))
        self.bare = self.text.strip()

    @cached_property
    def folded(self) -> str:
        """Return the answer without upper case."""
        return self.bare.casefold()

    def form(self, *, ignore_case: bool) -> str:
        """Return the answer as texts are compared with it."""
        return self.folded if ignore_case else self.bare

    @cached_property
    def json(self) -> "ParsedAnswer":
        """Return the answer as JSON."""
        return _parse(self.bare)

    @cached_property
    def inner_json(self) -> "ParsedAnswer":
        """Return the answer as JSON, else the first object or list within it."""
        return self.json if not self.json.problem else _extract(self.bare)

    def parsed(self, *, extract: bool) -> "ParsedAnswer":
        """Return the answer as JSON, or what is within it."""
        return self.inner_json if extract else self.json

    @cached_property
    def number(self) -> Decimal | None:
        """Return the number of the answer."""
        return find_number(self.bare)

    @property
    def latency_ms(self) -> float | None:
        """Return how long the candidate took; None where that is unknown."""
        return self.reply.latency_ms if isinstance(self.reply, MeasuredReply) else None

    @property
    def cost(self) -> float | None:
        """Return what the candidate's call cost; None where that is unknown."""
        return self.reply.cost if isinstance(self.reply, MeasuredReply) else None

    @cached_property
    def tools(self) -> Texts:
        """Return the tools that the candidate called: in its reply, in the steps of an agent, or as its answer."""
        called = read_call(self.reply.text)
        found = [call.name for call in self.reply.tool_calls]
        found += [name for step in self.reply.steps for name in _tools_of(step, 0)]
        return tuple(dict.fromkeys([*found, *([called.name] if called else [])]))


class ParsedAnswer(NamedTuple):
    """An answer as JSON, or why it is none."""

    value: Any
    problem: str = ""


def record_checks(case: Case) -> tuple[Check, ...]:
    """Return the checks that a record has of its own; planning has refused wrong ones."""
    own = case.metadata.get(RECORD_CHECKS)
    return named_checks(msgspec.convert(own, tuple[Check, ...])) if own else ()


def checks_for(case: Case, run: Sequence[Check]) -> tuple[Check, ...]:
    """Return the checks of a case: those of the run, and its own."""
    own = record_checks(case)
    return merged_checks(run, own) if own else tuple(run)


def comparable(check: Check, references: Texts) -> bool:
    """Return whether the check has something to compare an answer with."""
    if not check.needs_references:
        return True
    if isinstance(check, NumberCheck):
        return any(find_number(reference) is not None for reference in references)
    return any(references)


def run_checks(checks: Iterable[Check], reply: Reply, references: Texts) -> tuple[CheckResult, ...]:
    """Return the results of checks of an answer; a check without anything to compare with has none."""
    answer = CheckedAnswer(reply, tuple(reference for reference in references if reference))
    return tuple(_result(check, answer) for check in checks if comparable(check, answer.references))


def _result(check: Check, answer: CheckedAnswer) -> CheckResult:
    judged = _CHECKS[type(check)](check, answer)
    if judged.holds is None:
        return CheckResult(name=check.title, type=check.type, passed=None, score=None, reason=judged.reason)
    passed = judged.holds == check.expected
    score = float(passed) if judged.score is None or not check.expected else judged.score
    return CheckResult(name=check.title, type=check.type, passed=passed, score=score, reason=judged.reason)


class CheckDecision(NamedTuple):
    """What several checks say together."""

    share: float
    """Share of the weights of the checks that passed."""
    passed: bool


def decide(checks: Sequence[Check], results: Sequence[CheckResult], rule: PassRule) -> CheckDecision | None:
    """Return what the checks with a weight and a result say together; None when there is none."""
    weights = {check.title: Fraction(str(check.weight)) for check in checks}
    known = [(weights[result.name], result.passed) for result in results if result.passed is not None and weights[result.name]]
    if not known:
        return None
    # As fractions: exactly half of the weights must reach a share of 0.5.
    share = sum((weight for weight, passed in known if passed), Fraction()) / sum(weight for weight, _ in known)
    needed = Fraction(str(rule.at_least)) if isinstance(rule, PassShare) else 1
    return CheckDecision(float(share), share > 0 if rule == "any" else share >= needed)


_LABELS: Mapping[str, FailureLabel] = {
    "contains": "missing_required_content",
    "starts-with": "format_or_schema_violation",
    "ends-with": "format_or_schema_violation",
    "regex": "format_or_schema_violation",
    "is-json": "format_or_schema_violation",
    "json-schema": "format_or_schema_violation",
    "length": "format_or_schema_violation",
    "latency": "timeout_or_latency_exceeded",
    "tool-called": "tool_or_retrieval_misuse",
    "refusal": "other",
    "language": "other",
    "cost": "other",
}
"""Why an answer that does not pass a check of a type failed; otherwise it is wrong."""


def label_of(checks: Sequence[Check], results: Sequence[CheckResult]) -> FailureLabel:
    """Return the failure label of the first check that counts and did not pass."""
    weights = {check.title: check.weight for check in checks}
    failed = next((result for result in results if result.passed is False and weights[result.name]), None)
    return "" if failed is None else _LABELS.get(failed.type, "incorrect_answer")


def summary_of(results: Sequence[CheckResult]) -> str:
    """Describe the results: how many checks passed, and why the others did not."""
    known = [result for result in results if result.passed is not None]
    failed = [result for result in known if not result.passed]
    head = f"{len(known) - len(failed)} of {len(known)} check{'s' if len(known) > 1 else ''} passed"
    return "; ".join([head, *(f"{result.name}: {result.reason}" for result in failed)])


# Texts


def _normal(text: str) -> str:
    """Return a text in the composed form of Unicode, so that two spellings of one letter are the same."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _form(text: str, *, ignore_case: bool) -> str:
    bare = _normal(text).strip()
    return bare.casefold() if ignore_case else bare


def _wanted(value: object, answer: CheckedAnswer) -> tuple[Any, ...]:
    """Return what to compare with: the value, or else the references."""
    return answer.references if value is _NO_VALUE else (value,)


def _equals(check: EqualsCheck, answer: CheckedAnswer) -> CheckFinding:
    wanted = _wanted(check.value, answer)
    is_same = any(_is_same(value, answer, ignore_case=check.ignore_case) for value in wanted)
    return CheckFinding(is_same, f"the answer {_quoted(answer.bare)} is{'' if is_same else ' not'} {_one_of(wanted)}")


def _is_same(value: object, answer: CheckedAnswer, *, ignore_case: bool) -> bool:
    if isinstance(value, str):
        return answer.form(ignore_case=ignore_case) == _form(value, ignore_case=ignore_case)
    return not answer.json.problem and _same_json(answer.json.value, value, ignore_case=ignore_case)


def _same_json(one: object, other: object, *, ignore_case: bool = False) -> bool:
    """Compare JSON values: 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(one, str) and isinstance(other, str):
        return _form(one, ignore_case=ignore_case) == _form(other, ignore_case=ignore_case)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[name], other[name], ignore_case=ignore_case) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            _same_json(left, right, ignore_case=ignore_case) for left, right in zip(one, other, strict=True)
        )
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _contains(check: ContainsCheck, answer: CheckedAnswer) -> CheckFinding:
    text = answer.form(ignore_case=check.ignore_case)
    groups: tuple[Texts | msgspec.UnsetType, ...] = (check.any, check.all, check.none)
    some, every, none = (() if group is msgspec.UNSET else group for group in groups)
    if check.value is not msgspec.UNSET:
        some = (*some, check.value)
    elif check.needs_references:
        some = answer.references
    found = {wanted for wanted in (*some, *every, *none) if _form(wanted, ignore_case=check.ignore_case) in text}
    missing = [wanted for wanted in every if wanted not in found]
    unwanted = [wanted for wanted in none if wanted in found]
    has_some = not some or any(wanted in found for wanted in some)
    reasons = [
        *([] if has_some else [f"contains {'none of ' if len(some) > 1 else 'no '}{_listed(some)}"]),
        *([f"lacks {_listed(missing)}"] if missing else []),
        *([f"contains {_listed(unwanted)}"] if unwanted else []),
    ]
    if reasons:
        return CheckFinding(False, f"the answer {' and '.join(reasons)}")
    present = [wanted for wanted in (*every, *some) if wanted in found]
    return CheckFinding(True, f"the answer contains {_listed(present)}" if present else f"the answer contains no {_listed(none)}")


def _starts_with(check: StartsWithCheck, answer: CheckedAnswer) -> CheckFinding:
    wanted = _wanted(check.value, answer)
    text = answer.form(ignore_case=check.ignore_case)
    holds = any(text.startswith(_form(value, ignore_case=check.ignore_case)) for value in wanted)
    start = _quoted(answer.bare)
    return CheckFinding(holds, f"the answer starts with {_listed(wanted)}" if holds else f"the answer starts with {start}")


def _ends_with(check: EndsWithCheck, answer: CheckedAnswer) -> CheckFinding:
    wanted = _wanted(check.value, answer)
    text = answer.form(ignore_case=check.ignore_case)
    holds = any(text.endswith(_form(value, ignore_case=check.ignore_case)) for value in wanted)
    end = _quoted(answer.bare[-_MAX_QUOTED:])
    return CheckFinding(holds, f"the answer ends with {_listed(wanted)}" if holds else f"the answer ends with {end}")


def _one_of_values(check: OneOfCheck, answer: CheckedAnswer) -> CheckFinding:
    values = answer.references if check.value is msgspec.UNSET else check.value
    holds = any(_is_same(value, answer, ignore_case=check.ignore_case) for value in values)
    return CheckFinding(holds, f"the answer {_quoted(answer.bare)} is {'' if holds else 'not '}{_one_of(values)}")


def _matches(check: RegexCheck, answer: CheckedAnswer) -> CheckFinding:
    try:
        found = compiled(check.value, ignore_case=check.ignore_case).search(answer.bare)
    except UnicodeEncodeError:
        found = compiled(check.value, ignore_case=check.ignore_case).search(answer.bare.encode("utf-8", "replace").decode())
    if found is None:
        return CheckFinding(False, f"{_quoted(check.value)} matches nothing in the answer")
    return CheckFinding(True, f"{_quoted(check.value)} matches {_quoted(found[0])}")


@lru_cache(maxsize=1_000)
def compiled(pattern: str, *, ignore_case: bool) -> re2._Regexp:
    """Compile a pattern; raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    return re2.compile(pattern, options)


# JSON


def _parse(text: str) -> ParsedAnswer:
    try:
        return ParsedAnswer(msgspec.json.decode(text))
    except msgspec.DecodeError as problem:
        if text.startswith("```"):
            return ParsedAnswer(None, "the answer is a code block, not JSON alone")
        return ParsedAnswer(None, f"the answer is not JSON: {problem}" if text else "the answer is empty")
    except (UnicodeEncodeError, RecursionError):
        return ParsedAnswer(None, "the answer is not JSON: it cannot be encoded or is nested too deeply")


def _extract(text: str) -> ParsedAnswer:
    """Return the first object or list that is JSON within a text."""
    start = 0
    decoder: Any = _prefix_decoder()
    for _ in range(_MAX_TRIES):
        places = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
        if not places:
            break
        start = min(places)
        try:
            value, _end = decoder.raw_decode(text, start)
        except ValueError:
            start += 1
        except RecursionError:
            break
        else:
            return ParsedAnswer(value)
    return ParsedAnswer(None, "there is no JSON object or list in the answer")


@cache
def _prefix_decoder() -> Any:
    # The only decoder at hand that stops after a value; constants such as NaN are not JSON.
    def refuse(name: str) -> None:
        raise ValueError(name)

    return import_module("json").JSONDecoder(parse_constant=refuse)


def _is_json(check: IsJsonCheck, answer: CheckedAnswer) -> CheckFinding:
    parsed = answer.parsed(extract=check.extract)
    return CheckFinding(not parsed.problem, parsed.problem or f"the answer is JSON: {structure_of(parsed.value)}")


def _fits_schema(check: JsonSchemaCheck, answer: CheckedAnswer) -> CheckFinding:
    parsed = answer.parsed(extract=check.extract)
    if parsed.problem:
        return CheckFinding(False, parsed.problem)
    problems = validator(check.schema_json).iter_errors(parsed.value)
    first = next(iter(problems), None)
    if first is None:
        return CheckFinding(True, "the schema accepts the answer")
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.instance_path)
    return CheckFinding(False, f"the schema does not accept ${path}: {_short(first.message)}")


@lru_cache(maxsize=1_000)
def validator(schema: bytes) -> Any:
    """Compile a schema; raises MissingExtra, and ValueError for one that is not a schema."""
    try:
        library: Any = import_module("jsonschema_rs")
    except ModuleNotFoundError as problem:
        raise MissingExtra("a check json-schema needs jsonschema-rs", hint="pip install 'assay[json-schema]'") from problem
    try:
        # An answer may be a megabyte, so patterns must be linear; and no schema may make this process open an address or a file.
        return library.validator_for(
            msgspec.json.decode(schema), pattern_options=library.RegexOptions(), retriever=_refuse_reference
        )
    except (ValueError, msgspec.DecodeError, library.ReferencingError) as problem:
        raise ValueError(str(problem).partition("\n")[0]) from None


def _refuse_reference(address: str) -> Any:
    raise ValueError(f"{address} is another document")


def _at_path(check: JsonPathCheck, answer: CheckedAnswer) -> CheckFinding:
    parsed = answer.parsed(extract=check.extract)
    if parsed.problem:
        return CheckFinding(False, parsed.problem)
    path = _path(check.path)
    found = path.find(parsed.value)
    if not found:
        return CheckFinding(False, f"there is nothing at {check.path} in {structure_of(parsed.value)}")
    value = found if path.has_many else found[0]
    wanted = _wanted(check.value, answer)
    # References are texts: the number 4 at the path is what the reference "4" says.
    candidates = [value, *([_json_text(value)] if check.value is msgspec.UNSET and not isinstance(value, str) else [])]
    holds = any(_same_json(one, other, ignore_case=check.ignore_case) for one in candidates for other in wanted)
    return CheckFinding(holds, f"{check.path} is {_quoted(_json_text(value))}, which is {'' if holds else 'not '}{_one_of(wanted)}")


@lru_cache(maxsize=1_000)
def _path(text: str) -> JsonPath:
    return JsonPath(text)


def _json_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# Numbers, lengths, similarity


def _number(check: NumberCheck, answer: CheckedAnswer) -> CheckFinding:
    if answer.number is None:
        return CheckFinding(False, "there is no number in the answer")
    if check.value is msgspec.UNSET:
        wanted = [number for number in map(find_number, answer.references) if number is not None]
    else:
        wanted = [Decimal(repr(check.value))]
    tolerance = Decimal(repr(check.tolerance))
    holds = any(abs(answer.number - number) <= tolerance for number in wanted)
    listed = " or ".join(f"{number:g}" if abs(number) < Decimal("1e15") else str(number) for number in wanted)
    within = f" within {check.tolerance:g}" if check.tolerance else ""
    return CheckFinding(
        holds, f"the number of the answer, {_short(str(answer.number))}, is {'' if holds else 'not '}{listed}{within}"
    )


def _length(check: LengthCheck, answer: CheckedAnswer) -> CheckFinding:
    length = len(answer.bare) if check.unit == "characters" else len(answer.bare.split())
    unit = check.unit if length != 1 else check.unit.removesuffix("s")
    for limit, is_wrong, words in (
        (check.min, check.min is not msgspec.UNSET and length < check.min, "fewer than"),
        (check.max, check.max is not msgspec.UNSET and length > check.max, "more than"),
    ):
        if is_wrong:
            return CheckFinding(False, f"the answer has {length:,} {unit}, {words} {limit:,}")
    return CheckFinding(True, f"the answer has {length:,} {unit}")


def _similar(check: SimilarityCheck, answer: CheckedAnswer) -> CheckFinding:
    wanted = [text for text in _wanted(check.value, answer) if len(text) <= MAX_CHARACTERS]
    if not wanted:
        return CheckFinding(None, f"the texts to compare with are longer than {MAX_CHARACTERS:,} characters")
    if len(answer.bare) > MAX_CHARACTERS:
        return CheckFinding(False, f"the answer is longer than {MAX_CHARACTERS:,} characters, so that it is not compared", 0.0)
    values = {text: similarity(check.measure, answer.bare, _form(text, ignore_case=False)) for text in wanted}
    best = max(values, key=lambda text: values[text])
    score = values[best]
    if check.max_edits is not msgspec.UNSET:
        count = min(edits(answer.bare, _form(text, ignore_case=False)) for text in wanted)
        holds = count <= check.max_edits
        return CheckFinding(holds, f"{count:,} edits to {_quoted(best)}, at most {check.max_edits:,}", score)
    assert check.at_least is not msgspec.UNSET, "planning refuses a check without either"
    # Similarities are quotients: a threshold that is exactly met must not be missed in the last digit.
    holds = score >= check.at_least - 1e-9
    return CheckFinding(holds, f"{check.measure} {score:.2f} to {_quoted(best)}, at least {check.at_least:g}", score)


# What kind of answer


def _refuses(_: RefusalCheck, answer: CheckedAnswer) -> CheckFinding:
    reason = answer.reply.finish_reason
    if reason in FINISH_REASONS:
        return CheckFinding(True, f"the provider ended the answer with {_quoted(reason)}")
    words = refusal_in(answer.bare)
    if words:
        return CheckFinding(True, f"the answer refuses: {_quoted(words)}")
    return CheckFinding(False, "the answer is no refusal" if answer.bare else "the answer is empty")


def _language(check: LanguageCheck, answer: CheckedAnswer) -> CheckFinding:
    text = answer.bare[:MAX_LANGUAGE]
    code, confidence = identifier().classify(text) if text else ("", 0.0)
    if not any(character.isalpha() for character in text) or confidence < MIN_CONFIDENCE:
        return CheckFinding(False, "the answer is too short for its language to be recognised")
    return CheckFinding(code == check.value, f"the language of the answer is '{code}'")


@cache
def identifier() -> Any:
    """Load the model of languages, which takes a third of a second; raises MissingExtra."""
    try:
        library: Any = import_module("py3langid.langid")
    except ModuleNotFoundError as problem:
        raise MissingExtra("a check of the language needs py3langid", hint="pip install 'assay[language]'") from problem
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)


def _in_time(check: LatencyCheck, answer: CheckedAnswer) -> CheckFinding:
    if answer.latency_ms is None:
        return CheckFinding(None, "the latency is not known: the answer was given, cached or asked for in a batch")
    return CheckFinding(
        answer.latency_ms <= check.max_ms, f"the answer took {answer.latency_ms:,.0f} ms, at most {check.max_ms:,g}"
    )


def _in_budget(check: CostCheck, answer: CheckedAnswer) -> CheckFinding:
    if answer.cost is None:
        return CheckFinding(None, "the cost is not known: the answer was given or cached, or its model has no known price")
    # Prices are products of floats: a cost that is exactly the limit must not be above it.
    is_within = answer.cost <= check.max_usd + 1e-12
    return CheckFinding(is_within, f"the answer cost ${answer.cost:.6g}, at most ${check.max_usd:g}")


def _called(check: ToolCalledCheck, answer: CheckedAnswer) -> CheckFinding:
    if not answer.tools:
        return CheckFinding(False, "no tool was called")
    return CheckFinding(check.tool in answer.tools, f"called {_listed(answer.tools)}")


def _tools_of(step: object, depth: int) -> Iterable[str]:
    """Yield the names of the tools in a step of an agent, which every framework writes in its own way."""
    if depth > _MAX_STEP_DEPTH:
        return
    if isinstance(step, str):
        if depth == 0:
            yield step
    elif isinstance(step, dict):
        named = next((step[name] for name in _TOOL_NAMES if isinstance(step.get(name), str)), None)
        if named is not None:
            yield named
        for member in step.values():
            if isinstance(member, dict | list):
                yield from _tools_of(member, depth + 1)
    elif isinstance(step, list):
        for member in step:
            yield from _tools_of(member, depth + 1)


_CHECKS: Mapping[type, Callable[[Any, CheckedAnswer], CheckFinding]] = {
    EqualsCheck: _equals,
    ContainsCheck: _contains,
    StartsWithCheck: _starts_with,
    EndsWithCheck: _ends_with,
    RegexCheck: _matches,
    IsJsonCheck: _is_json,
    JsonSchemaCheck: _fits_schema,
    JsonPathCheck: _at_path,
    NumberCheck: _number,
    LengthCheck: _length,
    OneOfCheck: _one_of_values,
    SimilarityCheck: _similar,
    RefusalCheck: _refuses,
    LanguageCheck: _language,
    LatencyCheck: _in_time,
    CostCheck: _in_budget,
    ToolCalledCheck: _called,
}


# Words of reasons


def _short(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED else f"{text[: _MAX_QUOTED - 1]}…"


def _quoted(text: str) -> str:
    return f"'{_short(' '.join(text[: 2 * _MAX_QUOTED].split()))}'"


def _listed(values: Iterable[object]) -> str:
    texts = [_quoted(_json_text(value)) for value in values]
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")


def _one_of(values: Sequence[object]) -> str:
    return f"{'one of ' if len(values) > 1 else ''}{_listed(values)}"


# What planning refuses


class CheckProblem(NamedTuple):
    """What is wrong with a check, at a member of it."""

    member: str
    message: str
    hint: str = ""


def check_problems(check: Check) -> Iterable[CheckProblem]:
    """Yield what is wrong with a check by itself, beyond the types of its members."""
    match check:
        case ContainsCheck():
            if check.value is not msgspec.UNSET and check.any is not msgspec.UNSET:
                yield CheckProblem("value", "'value' and 'any' say the same; keep one")
        case RegexCheck():
            yield from _pattern_problems(check)
        case JsonSchemaCheck():
            yield from _schema_problems(check)
        case JsonPathCheck():
            problem = path_problem(check.path)
            if problem:
                yield CheckProblem("path", problem.replace("the whole reply", "the whole answer"))
        case LengthCheck():
            if check.min is msgspec.UNSET and check.max is msgspec.UNSET:
                yield CheckProblem("", "a check of the length needs min, max or both")
            elif check.min is not msgspec.UNSET and check.max is not msgspec.UNSET and check.min > check.max:
                yield CheckProblem("min", f"min {check.min:,} is above max {check.max:,}")
        case SimilarityCheck():
            yield from _similarity_problems(check)
        case LanguageCheck():
            yield from _language_problems(check)
        case NumberCheck():
            numbers = [value for value in (check.value, check.tolerance) if value is not msgspec.UNSET]
            if not all(map(math.isfinite, numbers)):
                yield CheckProblem("value", "value and tolerance must be finite numbers")


def _pattern_problems(check: RegexCheck) -> Iterable[CheckProblem]:
    try:
        compiled(check.value, ignore_case=check.ignore_case)
    except re2.error as problem:
        reason = problem.args[0].decode() if isinstance(problem.args[0], bytes) else str(problem.args[0])
        hint = "patterns are in the syntax of RE2, which has neither look-around nor back-references"
        yield CheckProblem("value", f"the pattern cannot be used: {reason}", hint)


def _schema_problems(check: JsonSchemaCheck) -> Iterable[CheckProblem]:
    try:
        validator(check.schema_json)
    except MissingExtra as problem:
        yield CheckProblem("type", problem.message, problem.hint)
    except ValueError as problem:
        yield CheckProblem("schema", f"it is not a JSON Schema: {problem}")


def _similarity_problems(check: SimilarityCheck) -> Iterable[CheckProblem]:
    if check.max_edits is not msgspec.UNSET and check.at_least is not msgspec.UNSET:
        yield CheckProblem("max_edits", "'at_least' and 'max_edits' are two thresholds; keep one")
    elif check.max_edits is not msgspec.UNSET and check.measure != "edit":
        yield CheckProblem("max_edits", f"'max_edits' is for the measure 'edit', not '{check.measure}'", "write at_least")
    elif check.max_edits is msgspec.UNSET and check.at_least is msgspec.UNSET:
        yield CheckProblem("", "a check of similarity needs at_least, the similarity from 0 to 1 from which it passes")
    if check.value is not msgspec.UNSET and len(check.value) > MAX_CHARACTERS:
        yield CheckProblem("value", f"texts of more than {MAX_CHARACTERS:,} characters are not compared")
    try:
        check_installed(check.measure)
    except MissingExtra as problem:
        yield CheckProblem("measure", problem.message, problem.hint)


def _language_problems(check: LanguageCheck) -> Iterable[CheckProblem]:
    try:
        known = identifier().labels
    except MissingExtra as problem:
        yield CheckProblem("type", problem.message, problem.hint)
        return
    if check.value not in known:
        yield CheckProblem("value", f"the language '{check.value}' is not recognised", f"known are {', '.join(sorted(known))}")
