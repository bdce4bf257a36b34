"""Checks of promptfoo that came to no verdict: it counts them as 0, or turned around as 1; here they are no score at all."""

import re
from collections.abc import Iterator
from typing import Any

from assay.datasets.imports.items import Row
from assay.integrations.importers.shapes import mapping, mappings

_NOT = "not-"
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
