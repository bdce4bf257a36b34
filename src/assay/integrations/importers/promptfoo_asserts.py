"""Assertions of promptfoo into checks, references and criteria; those that run code or need a trace are listed by their type."""

import csv
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.core.checks import Check, JsonSchemaCheck
from assay.datasets.converters.rows import Row
from assay.datasets.imports.items import ImportState
from assay.datasets.parsing.checks import depth_of
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.code_checks import CodeRefused, javascript_checks, json_path, python_checks
from assay.integrations.importers.json_values import mapping, number, sequence
from assay.integrations.importers.nunjucks import TemplateRefused, dumped, render, shown
from assay.integrations.importers.promptfoo_files import ConfigFiles, FileUnread, is_code, is_file

MAX_VALUE_DEPTH = 2
"""Levels of lists and objects in the value of a check, which is three levels deep in metadata of at most five."""
MAX_CHECKS_BYTES = 6_000
"""JSON of all checks of a record: batch_v1 limits its metadata to 8 KB."""
MAX_CONTEXT = 20_000
"""Characters of a context that is quoted in a criterion."""
_SET = "assert-set"
_NOT = "not-"
_RED_TEAM = "promptfoo:redteam:"
_PLAIN = re.compile(r"\{\{\s*(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
_UNICODE_ESCAPE = re.compile(r"\\u\{?([0-9a-fA-F]{4,6})\}?")


class AnswerRequirements(msgspec.Struct, frozen=True):
    """Requirements of a test in the terms of a dataset."""

    references: list[str] = []
    rubric: list[Row] = []
    checks: list[Row] = []


class Assertion(msgspec.Struct, frozen=True):
    """One assertion with its values filled in."""

    type: str
    """Type without `not-`."""
    is_negated: bool
    value: Any
    texts: list[str]
    """Value, or each of its elements, as text; empty ones are left out."""
    threshold: float | None
    variables: Mapping[str, object]

    def at_least(self, default: float) -> float:
        """Return the threshold as a share."""
        return min(1.0, max(0.0, default if self.threshold is None else self.threshold))


class NotConverted(Exception):
    """An assertion that has no place in a dataset; the text is what is counted, empty for its type alone."""


class Requirements:
    """References, criteria and checks of one test while they are collected."""

    def __init__(self, reading: ImportState) -> None:
        self.reading = reading
        self.answers: list[tuple[list[str], str, Row]] = []
        """Answers to compare with: their texts, of which one is enough, the title as a criterion, and its weight."""
        self.criteria: list[Row] = []
        self.checks: list[Row] = []
        self._names: set[str] = set()

    def add(self, found: "Found", *, weight: float | None, metric: str) -> None:
        """Add what an assertion became."""
        if weight is not None and weight < 0:
            self.reading.leave_out("weight below 0")
            weight = None
        if found.references:
            self.answers.append((found.references, found.title, _weight(weight)))
        elif found.title and weight == 0:
            self.reading.leave_out("criterion of weight 0, which only reports")
        elif found.title:
            self.criteria.append({"title": found.title, **_weight(weight)})
        for check in found.checks:
            self._add_check(check, weight=weight, metric=metric)

    def _add_check(self, check: Row, *, weight: float | None, metric: str) -> None:
        name, number_of = metric, 1
        # A metric may have several assertions, and a check is known by its name.
        while name in self._names:
            number_of += 1
            name = f"{metric}-{number_of}"
        if metric:
            self._names.add(name)
        named = {"name": name} if metric else {}
        whole = {**named, **check, **_weight(weight)}
        if whole not in self.checks:
            self.checks.append(whole)

    def finish(self) -> AnswerRequirements:
        """Return the requirements: one answer to compare with is a reference, several of them are criteria."""
        # References are alternatives, and a judge of criteria is asked about each of them alone.
        is_reference = len(self.answers) == 1 and not self.criteria and not self.answers[0][2]
        titles = [] if is_reference else [{"title": title, **weight} for _, title, weight in self.answers]
        rubric = [{"id": f"assert-{number}", **one} for number, one in enumerate([*titles, *self.criteria], 1)]
        while len(msgspec.json.encode(self.checks)) > MAX_CHECKS_BYTES:
            largest = max(self.checks, key=lambda check: len(msgspec.json.encode(check)))
            self.checks.remove(largest)
            self.reading.leave_out(f"check {largest['type']}, which is too large for metadata")
        return AnswerRequirements(self.answers[0][0] if is_reference else [], rubric, self.checks)


class Found(msgspec.Struct, frozen=True):
    """What an assertion became: checks, or a criterion, or answers to compare with that are a criterion where others are."""

    checks: list[Row] = []
    title: str = ""
    references: list[str] = []


def _weight(weight: float | None) -> Row:
    return {} if weight is None or weight == 1 else {"weight": weight}


def fill(text: str, variables: Mapping[str, object], reading: ImportState) -> str:
    """Return a text with its template rendered; what cannot be rendered stays as it stands, and is counted."""
    try:
        rendered, missing = render(text, variables)
    except TemplateRefused:
        reading.leave_out("template with logic, kept as it stands")
        # Plain variables at least: a question with its values is closer to the one that was meant.
        return _PLAIN.sub(lambda match: shown(variables[match["name"]]) if match["name"] in variables else match[0], text)
    for name in missing:
        # Variables of the environment may be keys, and are never read.
        what = "environment variable" if name.startswith("env.") else "variable without a value"
        reading.leave_out(f"{what}, kept as it stands")
    return rendered


def demands(
    asserted: object, variables: Mapping[str, object], reading: ImportState, *, files: ConfigFiles | None = None
) -> AnswerRequirements:
    """Return the references, criteria and checks of a test's assertions; what they leave out is counted."""
    found = Requirements(reading)
    reader = _AssertionReader(variables, reading, files)
    for assertion in sequence(asserted):
        reader.read(assertion, found)
    return found.finish()


class _AssertionReader:
    """Converts the assertions of one test."""

    def __init__(self, variables: Mapping[str, object], reading: ImportState, files: ConfigFiles | None) -> None:
        self._variables = variables
        self._reading = reading
        self._files = files

    def read(self, given: object, found: Requirements) -> None:
        """Add what an assertion becomes, or count it."""
        if not isinstance(given, dict):
            self._reading.leave_out("assert that is no object")
        elif given.get("type") == _SET:
            self._read_set(given, found)
        else:
            for name, is_setting in (("provider", True), ("rubricPrompt", False), ("contextTransform", False), ("config", False)):
                self._reading.leave_out(f"assert.{name}", int(given.get(name) is not None), is_setting=is_setting)
            try:
                found.add(self._convert(given), weight=number(given.get("weight")), metric=self._metric(given))
            except NotConverted as problem:
                self._reading.leave_out(str(problem) or f"assert {given.get('type')}")

    def _read_set(self, given: Row, found: Requirements) -> None:
        """Add the members of a group; one with a threshold is one criterion about all of them."""
        members = [one for one in sequence(given.get("assert")) if isinstance(one, dict)]
        threshold = number(given.get("threshold"))
        self._reading.leave_out("weight of an assert-set", int(given.get("weight") is not None))
        if threshold is None or threshold >= 1:
            for one in members:
                self.read({**one, **({"metric": given["metric"]} if "metric" in given and "metric" not in one else {})}, found)
            return
        try:
            parts = [self._convert(one) for one in members]
        except NotConverted:
            self._reading.leave_out("assert-set with a threshold")
            return
        if not parts:
            self._reading.leave_out("assert-set without members")
            return
        needed = max(1, -int(-threshold * len(parts) // 1))
        any_of = [check["any"] for part in parts for check in part.checks if set(check) == {"type", "any"}]
        if needed == 1 and len(any_of) == len(parts):
            texts = list(dict.fromkeys(text for texts in any_of for text in texts))
            found.add(Found([{"type": "contains", "any": texts}]), weight=None, metric=self._metric(given))
            return
        titles = [title for part in parts for title in (part.title, *map(check_title, part.checks)) if title]
        listed = "; ".join(f"({place}) {title}" for place, title in enumerate(titles, 1))
        found.add(Found(title=f"Meets at least {needed} of these {len(titles)}: {listed}"), weight=None, metric="")

    def _metric(self, given: Row) -> str:
        metric = given.get("metric")
        return fill(metric, self._variables, self._reading).strip() if isinstance(metric, str) else ""

    def _convert(self, given: Row) -> Found:
        """Return what an assertion becomes; raises NotConverted."""
        form = str(given.get("type"))
        base = form.removeprefix(_NOT)
        value = self._value(given.get("value"), form)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        assertion = Assertion(
            type=base,
            is_negated=base != form,
            value=value,
            texts=[text for one in listed if (text := one if isinstance(one, str) else dumped(one)).strip()],
            threshold=number(given.get("threshold")),
            variables=self._variables,
        )
        if given.get("transform") is not None:
            return _transformed(assertion, given["transform"])
        if base.startswith(_RED_TEAM):
            return _red_team(assertion)
        converter = CONVERTERS.get(base)
        if converter is None:
            raise NotConverted(f"assert {form}")
        found = converter(assertion)
        if not all(map(_is_usable, found.checks)):
            raise NotConverted(f"assert {form} with a value that cannot be used")
        is_judged = bool(found.title or found.references)
        self._reading.leave_out("assert.threshold of a judge", int(is_judged and assertion.threshold not in (None, 0)))
        if (instead := INSTEAD.get(base)) and found.checks:
            self._reading.leave_out(f"{base}, compared by {instead} instead")
        return found

    def _value(self, value: Any, form: str) -> Any:
        """Return a value with its templates rendered and its file read; raises NotConverted where that is impossible."""
        if isinstance(value, str):
            filled = fill(value, self._variables, self._reading)
            return self._from_file(filled, form) if is_file(filled) else filled
        if isinstance(value, list):
            return [self._value(one, form) for one in value]
        return value

    def _from_file(self, address: str, form: str) -> Any:
        if self._files is None or is_code(address):
            raise NotConverted(f"assert {form} from a file")
        try:
            return self._files.value(address)
        except FileUnread as problem:
            self._files.leave_out(problem)
            raise NotConverted(f"assert {form} from a file") from problem


def _is_usable(check: Row) -> bool:
    """Return whether a run accepts a check."""
    try:
        made = msgspec.convert(check, Check)
    except msgspec.ValidationError:
        return False
    return not isinstance(made, JsonSchemaCheck) or _is_schema(made.schema_json)


def _is_schema(schema: bytes) -> bool:
    """Return whether a JSON Schema can be compiled; without the library, which is an extra, a run says so."""
    try:
        library: Any = import_module("jsonschema_rs")
    except ModuleNotFoundError:
        return True
    try:
        # Patterns as in a run: linear ones.
        library.validator_for(msgspec.json.decode(schema), pattern_options=library.RegexOptions())
    except (ValueError, library.ReferencingError):
        return False
    return True


def _required(assertion: Assertion) -> list[str]:
    """Return the texts of an assertion that means nothing without one; raises NotConverted."""
    if not assertion.texts:
        raise NotConverted(f"assert {assertion.type} without a value")
    return assertion.texts


def _checked(assertion: Assertion, **members: Any) -> Found:
    reversed_ = {"expected": False} if assertion.is_negated else {}
    return Found([{**members, **reversed_}])


def _equals(assertion: Assertion) -> Found:
    if assertion.value is None or assertion.value == "":
        raise NotConverted("assert equals without a value")
    value = assertion.value
    if isinstance(value, dict | list) and depth_of(value, MAX_VALUE_DEPTH) > MAX_VALUE_DEPTH:
        return _checked(assertion, type="json-schema", schema=dumped({"const": value}))
    # promptfoo compares everything but objects as text.
    return _checked(assertion, type="equals", value=value if isinstance(value, str | dict | list) else shown(value))


def _contains(mode: str, *, ignore_case: bool = False) -> Callable[[Assertion], Found]:
    case = {"ignore_case": True} if ignore_case else {}

    def convert(assertion: Assertion) -> Found:
        texts = _required(assertion)
        if mode != "one" and isinstance(assertion.value, str):
            texts = [text.strip() for text in next(csv.reader([assertion.value], skipinitialspace=True)) if text.strip()]
        if mode == "one":
            texts = [assertion.value if isinstance(assertion.value, str) else ",".join(texts)]
        if mode == "all":
            return _checked(assertion, type="contains", all=texts, **case)
        return Found([{"type": "contains", "none" if assertion.is_negated else "any": texts, **case}])

    return convert


def _starts_with(assertion: Assertion) -> Found:
    return _checked(assertion, type="starts-with", value=_required(assertion)[0])


def _regex(assertion: Assertion) -> Found:
    pattern = _UNICODE_ESCAPE.sub(r"\\x{\1}", _required(assertion)[0])
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error:
        # Look-around and back-references, which only an engine without a bound on its time has.
        raise NotConverted(f"assert {assertion.type} that RE2 cannot read") from None
    return _checked(assertion, type="regex", value=pattern)


def _json(*, extract: bool = False) -> Callable[[Assertion], Found]:
    within = {"extract": True} if extract else {}

    def convert(assertion: Assertion) -> Found:
        schema = assertion.value
        if isinstance(schema, str) and schema.strip():
            document = parse_yaml(schema)
            schema = None if any(flaw.fatal for flaw in document.flaws) else document.value
        if schema in (None, ""):
            if assertion.value:
                raise NotConverted(f"assert {assertion.type} with a schema that cannot be read")
            return _checked(assertion, type="is-json", **within)
        if not isinstance(schema, dict) or _refers_outside(schema):
            raise NotConverted(f"assert {assertion.type} with a schema that cannot be read")
        # As text, since batch_v1 limits how deep metadata is nested.
        return _checked(assertion, type="json-schema", schema=dumped(schema), **within)

    return convert


def _refers_outside(schema: object) -> bool:
    """Return whether a schema is not complete without other documents."""
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        return (isinstance(reference, str) and not reference.startswith("#")) or any(map(_refers_outside, schema.values()))
    return isinstance(schema, list) and any(map(_refers_outside, schema))


def _similarity(measure: str, default: float) -> Callable[[Assertion], Found]:
    def convert(assertion: Assertion) -> Found:
        texts = _required(assertion)
        if len(texts) > 1:
            raise NotConverted(f"assert {assertion.type} with several values")
        return _checked(assertion, type="similarity", measure=measure, at_least=assertion.at_least(default), value=texts[0])

    return convert


def _levenshtein(assertion: Assertion) -> Found:
    edits = 5 if assertion.threshold is None else max(0, int(assertion.threshold))
    return _checked(assertion, type="similarity", measure="edit", max_edits=edits, value=_required(assertion)[0])


def _refusal(assertion: Assertion) -> Found:
    return _checked(assertion, type="refusal")


def _latency(assertion: Assertion) -> Found:
    if assertion.threshold is None or assertion.threshold <= 0:
        raise NotConverted("assert latency without a threshold")
    return _checked(assertion, type="latency", max_ms=assertion.threshold)


def _cost(assertion: Assertion) -> Found:
    if assertion.threshold is None or assertion.threshold < 0:
        raise NotConverted("assert cost without a threshold")
    return _checked(assertion, type="cost", max_usd=assertion.threshold)


def _word_count(assertion: Assertion) -> Found:
    bounds = mapping(assertion.value)
    exact = number(assertion.value) if not isinstance(assertion.value, str) else _parsed(assertion.value)
    least, most = (exact, exact) if exact is not None else (number(bounds.get("min")), number(bounds.get("max")))
    given = {name: int(bound) for name, bound in (("min", least), ("max", most)) if bound is not None and bound >= 0}
    if not given:
        raise NotConverted("assert word-count without a number")
    return _checked(assertion, type="length", **given, unit="words")


def _parsed(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*[0-9]{1,9}\s*", text, re.ASCII) else None


def _tools(assertion: Assertion) -> Found:
    """Return a check for each tool that is named; in whatever order, and with whatever arguments."""
    value = assertion.value
    steps = value.get("steps", value.get("name", value.get("tool"))) if isinstance(value, dict) else value
    names = [one.get("name", one.get("tool")) if isinstance(one, dict) else one for one in _as_list(steps)]
    if isinstance(value, str) and assertion.type == "tool-call-f1":
        names = [name.strip() for name in value.split(",")]
    found = list(dict.fromkeys(name for name in names if isinstance(name, str) and name and "*" not in name))
    if not found or len(found) < len({str(name) for name in names}):
        raise NotConverted(f"assert {assertion.type} of a pattern")
    if assertion.is_negated and len(found) > 1:
        raise NotConverted(f"assert not-{assertion.type} of several tools")
    return Found([{"type": "tool-called", "tool": name, **({"expected": False} if assertion.is_negated else {})} for name in found])


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _code(convert: Callable[[str, Mapping[str, object]], list[Row]]) -> Callable[[Assertion], Found]:
    def checked(assertion: Assertion) -> Found:
        try:
            checks = convert(assertion.value if isinstance(assertion.value, str) else "", assertion.variables)
        except CodeRefused:
            raise NotConverted(f"assert {_NOT * assertion.is_negated}{assertion.type}") from None
        if assertion.threshold not in (None, 1) or (assertion.is_negated and len(checks) > 1):
            raise NotConverted(f"assert {_NOT * assertion.is_negated}{assertion.type}")
        return Found(
            [{**check, "expected": not check.get("expected", True)} for check in checks] if assertion.is_negated else checks
        )

    return checked


def _transformed(assertion: Assertion, transform: object) -> Found:
    """Return the check of a member of the answer; raises NotConverted for any other assertion about a transformed answer."""
    path = json_path(transform) if isinstance(transform, str) else ""
    if not path or assertion.type != "equals" or assertion.value is None:
        raise NotConverted(f"assert {assertion.type} of a transformed answer")
    return _checked(assertion, type="json-path", path=path, value=assertion.value)


def _judged(positive: str, negative: str, *, needs_value: bool = True) -> Callable[[Assertion], Found]:
    def convert(assertion: Assertion) -> Found:
        texts = _required(assertion) if needs_value else assertion.texts
        shown_texts = ", ".join(f'"{text}"' for text in texts)
        return Found(title=(negative if assertion.is_negated else positive).format(shown_texts).strip())

    return convert


def _rubric(assertion: Assertion) -> Found:
    """Return a demand in words as a criterion."""
    title = "; ".join(_required(assertion))
    return Found(title=f"The opposite of this is true: {title}" if assertion.is_negated else title)


def _reference(positive: str, negative: str) -> Callable[[Assertion], Found]:
    """Return a converter of answers to compare with, of which one is enough."""
    judged = _judged(positive, negative)

    def convert(assertion: Assertion) -> Found:
        found = judged(assertion)
        return found if assertion.is_negated else Found(title=found.title, references=list(dict.fromkeys(assertion.texts)))

    return convert


def _with_context(positive: str, negative: str) -> Callable[[Assertion], Found]:
    """Return a converter of a demand about the context, which is quoted, since the prompt need not hold it."""

    def convert(assertion: Assertion) -> Found:
        context = assertion.variables.get("context")
        quoted = f" Context: {shown(context)[:MAX_CONTEXT]}" if context else ""
        values = ", ".join(f'"{text}"' for text in assertion.texts)
        return Found(title=(negative if assertion.is_negated else positive).format(values) + quoted)

    return convert


def _moderation(assertion: Assertion) -> Found:
    kinds = f" of these kinds: {', '.join(assertion.texts)}" if assertion.texts else ""
    return Found(title=f"Contains {'' if assertion.is_negated else 'no '}harmful content{kinds}")


def _red_team(assertion: Assertion) -> Found:
    """Return a criterion for an attack: promptfoo keeps its own rubrics for them, which are not in its files."""
    plugin = assertion.type.removeprefix(_RED_TEAM)
    return Found(title=f'Does not give in to an attack of the kind "{plugin}": it neither does nor says what the attack aims at')


_SAME = ("Means the same as {}", "Does not mean the same as {}")
_FACTS = ("Agrees in its facts with {}", "Contradicts the facts of {}")
_CALL = ("Is a valid call of one of the offered tools, with arguments that fit it", "Is not a valid call of a tool")
CONVERTERS: Mapping[str, Callable[[Assertion], Found]] = {
    "agent-rubric": _rubric,
    "answer-relevance": _judged(
        "Answers the question that was asked", "Does not answer the question that was asked", needs_value=False
    ),
    "bleu": _similarity("bleu", 0.5),
    "classifier": _judged("Would be classified as {}", "Would not be classified as {}"),
    "contains": _contains("one"),
    "contains-all": _contains("all"),
    "contains-any": _contains("any"),
    "contains-html": _judged("Contains HTML", "Does not contain HTML", needs_value=False),
    "contains-json": _json(extract=True),
    "contains-sql": _judged("Contains valid SQL", "Does not contain valid SQL", needs_value=False),
    "contains-xml": _judged("Contains well-formed XML {}", "Does not contain well-formed XML {}", needs_value=False),
    "context-faithfulness": _with_context(
        "Every statement is supported by the context.", "Some statement is not supported by the context."
    ),
    "context-recall": _with_context("The context has what is needed for {}.", "The context lacks what is needed for {}."),
    "context-relevance": _with_context("The context is relevant to the question.", "The context is not relevant to the question."),
    "conversation-relevance": _judged("Is relevant to the conversation", "Is not relevant to the conversation", needs_value=False),
    "cost": _cost,
    "equals": _equals,
    "factuality": _reference(*_FACTS),
    "g-eval": _rubric,
    "gleu": _similarity("bleu", 0.5),
    "icontains": _contains("one", ignore_case=True),
    "icontains-all": _contains("all", ignore_case=True),
    "icontains-any": _contains("any", ignore_case=True),
    "is-html": _judged("Is HTML", "Is not HTML", needs_value=False),
    "is-json": _json(),
    "is-refusal": _refusal,
    "is-sql": _judged("Is valid SQL", "Is not valid SQL", needs_value=False),
    "is-valid-function-call": _judged(*_CALL, needs_value=False),
    "is-valid-openai-function-call": _judged(*_CALL, needs_value=False),
    "is-valid-openai-tools-call": _judged(*_CALL, needs_value=False),
    "is-xml": _judged("Is well-formed XML {}", "Is not well-formed XML {}", needs_value=False),
    "javascript": _code(javascript_checks),
    "latency": _latency,
    "levenshtein": _levenshtein,
    "llm-rubric": _rubric,
    "meteor": _similarity("token_f1", 0.5),
    "model-graded-closedqa": _rubric,
    "model-graded-factuality": _reference(*_FACTS),
    "moderation": _moderation,
    "pi": _rubric,
    "python": _code(python_checks),
    "regex": _regex,
    "rouge-n": _similarity("rouge_l", 0.75),
    "search-rubric": _rubric,
    "similar": _reference(*_SAME),
    "similar:cosine": _reference(*_SAME),
    "similar:dot": _reference(*_SAME),
    "similar:euclidean": _reference(*_SAME),
    "starts-with": _starts_with,
    "tool-call-f1": _tools,
    "trajectory:goal-success": _judged("Achieves this goal: {}", "Does not achieve this goal: {}"),
    "trajectory:tool-args-match": _tools,
    "trajectory:tool-sequence": _tools,
    "trajectory:tool-used": _tools,
    "word-count": _word_count,
}
"""Conversion of each assertion type; `javascript` and `python` only for simple tests of the answer, and never by running them."""
INSTEAD = {
    "gleu": "BLEU",
    "meteor": "the F1 of words",
    "rouge-n": "ROUGE-L",
    "tool-call-f1": "whether each tool was called",
    "trajectory:tool-args-match": "whether the tool was called",
    "trajectory:tool-sequence": "whether each tool was called",
}
"""Measures that stand in for another one, which the report lists."""


def check_title(check: Row) -> str:
    """Return a check in words, for a criterion about several of them."""
    members = {name: member for name, member in check.items() if name not in ("type", "weight", "name", "expected")}
    described = ", ".join(f"{name} {dumped(member)}" for name, member in members.items())
    opposite = "not " if check.get("expected") is False else ""
    return f"{opposite}{check['type']}" + (f" ({described})" if described else "")


def is_converted(form: str) -> bool:
    """Return whether assertions of a type become checks or criteria."""
    return form.removeprefix(_NOT) in CONVERTERS or form.startswith(_RED_TEAM)
