"""Assertions of promptfoo into references and criteria, and their verdicts; those that run code or came to none are counted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from assay.datasets.imports.items import ImportState, Row
from assay.integrations.importers.shapes import mapping, mappings

_REFERENCES = frozenset(
    {"equals", "similar", "factuality", "model-graded-factuality", "rouge-n", "bleu", "gleu", "meteor", "levenshtein"}
)
"""Assertions whose value is an answer that the model's answer is held against."""
_RUBRICS = frozenset({"llm-rubric", "model-graded-closedqa", "g-eval", "search-rubric", "agent-rubric"})
"""Assertions whose value is a demand in words, which a judge decides."""
_TITLES = {
    "contains": ("Contains {}", "Does not contain {}"),
    "icontains": ("Contains {} (case-insensitive)", "Does not contain {} (case-insensitive)"),
    "contains-all": ("Contains all of {}", "Does not contain all of {}"),
    "icontains-all": ("Contains all of {} (case-insensitive)", "Does not contain all of {} (case-insensitive)"),
    "contains-any": ("Contains any of {}", "Does not contain any of {}"),
    "icontains-any": ("Contains any of {} (case-insensitive)", "Does not contain any of {} (case-insensitive)"),
    "starts-with": ("Starts with {}", "Does not start with {}"),
    "equals": ("Is exactly {}", "Is not exactly {}"),
    "similar": ("Means the same as {}", "Does not mean the same as {}"),
    "is-refusal": ("Refuses to answer", "Does not refuse to answer"),
}
"""Titles of the checks that a judge can decide, and of their negations."""
_SET = "assert-set"
_NOT = "not-"
_VARIABLE = re.compile(r"(?<!\$)\{\{\s*(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*\}\}")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
FILE = "file://"


class AnswerRequirements(msgspec.Struct, frozen=True):
    """What a test demands of an answer, as a dataset can say it."""

    references: list[str]
    rubric: list[Row]


def filled_in(text: str, variables: Mapping[str, Any], reading: ImportState) -> str:
    """The text with the values of plain variables, in one pass: nothing in a value is looked at again, and no logic is run."""

    def value_of(match: re.Match[str]) -> str:
        if match["name"] not in variables:
            reading.leave_out("variable without a value, kept as it stands")
            return match[0]
        value = variables[match["name"]]
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    if _TEMPLATE.search(_VARIABLE.sub("", text)):
        reading.leave_out("template with logic, kept as it stands")
    return _VARIABLE.sub(value_of, text)


def variables_in(text: str) -> Iterator[str]:
    """The names of the plain variables in a text."""
    return (match["name"] for match in _VARIABLE.finditer(text))


def demands(asserted: Any, variables: Mapping[str, Any], reading: ImportState) -> AnswerRequirements:
    """The references and criteria of a test's assertions."""
    references: list[str] = []
    rubric: list[Row] = []
    for assertion in _flat(asserted, reading):
        form = str(assertion.get("type"))
        values = [filled_in(value, variables, reading) for value in _values(assertion.get("value"))]
        is_file = any(value.startswith(FILE) for value in values)
        if form in _REFERENCES and values and not is_file:
            references += values
        elif (title := _title(form, values)) and not is_file:
            rubric.append({"id": f"assert-{len(rubric) + 1}", "title": title, **_weight(assertion)})
        else:
            reading.leave_out(f"assert {form}" + (" from a file" if is_file else ""))
        for name in ("threshold", "provider", "transform"):
            reading.leave_out(f"assert.{name}", int(assertion.get(name) is not None))
    return AnswerRequirements(list(dict.fromkeys(value for value in references if value.strip())), rubric)


def _flat(asserted: Any, reading: ImportState) -> Iterator[Row]:
    for assertion in asserted if isinstance(asserted, list) else []:
        if not isinstance(assertion, dict):
            reading.leave_out("assert that is no object")
        elif assertion.get("type") == _SET:
            reading.leave_out("assert-set as a group")
            yield from _flat(assertion.get("assert"), reading)
        else:
            yield assertion


def _values(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [one if isinstance(one, str) else msgspec.json.encode(one).decode() for one in listed if one not in ("", None)]


def _title(form: str, values: list[str]) -> str:
    """Return the title of a check for a judge; empty for a check that has none."""
    if form in _RUBRICS:
        return "; ".join(values)
    plain = form.removeprefix(_NOT)
    if plain not in _TITLES or (not values and plain != "is-refusal"):
        return ""
    positive, negative = _TITLES[plain]
    return (positive if plain == form else negative).format(", ".join(f'"{value}"' for value in values))


def _weight(assertion: Row) -> Row:
    weight = assertion.get("weight")
    return {"weight": weight} if isinstance(weight, int | float) and not isinstance(weight, bool) else {}


_THROWN = re.compile(
    r"Custom function threw error|(?:Python|Ruby) code execution failed|Assertion malformed|Webhook error|Some grading calls failed"
)
"""How reasons begin where a check of any kind broke."""
_JUDGED = frozenset(
    {"llm-rubric", "model-graded-closedqa", "model-graded-factuality", "factuality", "g-eval", "select-best", "similar",
     "search-rubric", "agent-rubric", "video-rubric", "answer-relevance", "context-faithfulness", "context-recall",
     "context-relevance", "conversation-relevance", "classifier", "moderation", "pi", "trajectory:goal-success"}
)  # fmt: skip
"""Checks that ask a model, whose reason is the model's own where it gave one."""
_NO_ANSWER = re.compile(
    r"""(?!(?:The|An?|This|It)\s)(?:[\w.-]+\s)?API\b[^.:\n]{0,40}?\berror:|HTTP\s(?:error:|call\sfailed|[45]\d\d\b)
    |(?:Request|Provider|Network|Connection|Fetch)\s(?:failed|error|timed\sout)\b|fetch\sfailed
    |Rate\slimit(?:ed|\sexceeded|\sreached|\serror|:)|Time(?:d\s)?out(?:\sof|\safter|:|$)
    |(?:[A-Z]\w*)?Error:
    |No\s(?:output|embedding)$|Embedding\snot\sfound|Unknown\serror\sfetching|No\sclassification\sscores\sreturned
    |Could\snot\s(?:extract\sJSON|perform\sremote)|Error\sparsing\soutput|Moderation\sAPI\serror
    |[\w:-]+\sproduced\smalformed\sresponse|Model\sgrader\sproduced\sa\smalformed\sresponse
    |Invalid\s(?:select-best\sverdict|similarity\sscore|category\svalue)|Factuality\schecker\soutput\sdid\snot\smatch
    |LLM-proposed\sevaluation|LLM\sdoes\snot\spropose|G-Eval\s(?:result|steps|step-generation|evaluation|criterion)
    |Search\srubric\sevaluation\sfailed|(?:Remote\s)?[Gg]rading\sfailed""",
    re.VERBOSE,
)
"""How reasons begin where no judge answered, or with nothing that could be read."""


def without_verdict(components: list[Row]) -> Iterator[tuple[str, str]]:
    """Metric and reason of each check that came to no verdict, those inside of groups included."""
    for component in components:
        assertion = mapping(component.get("assertion"))
        reason = first_line(component.get("reason"))
        if _is_broken(component, str(assertion.get("type") or ""), reason):
            yield str(assertion.get("metric") or ""), reason or "the grader failed"
        yield from without_verdict(mappings(component.get("componentResults")))


def _is_broken(component: Row, form: str, reason: str) -> bool:
    # Newer versions say it themselves, at least of some of their graders.
    if mapping(component.get("metadata")).get("graderError") is True or _THROWN.match(reason):
        return True
    return form.removeprefix(_NOT) in _JUDGED and _NO_ANSWER.match(reason) is not None


def first_line(text: Any) -> str:
    """The first line of a reason: what follows are traces and bodies of responses."""
    return str(text or "").partition("\n")[0]
