"""Verdicts of promptfoo's assertions: which of them came to none, because code broke or a judge did not answer."""

import re
from collections.abc import Iterator

from assay.datasets.converters.rows import Row
from assay.integrations.importers.json_values import mapping, mappings

_THROWN = re.compile(
    r"Custom function threw error|(?:Python|Ruby) code execution failed|Assertion malformed|Webhook error|Some grading calls failed"
)
"""Beginning of reasons where a check of any kind broke."""
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
"""Beginning of reasons where no judge answered, or none readably."""


def without_verdict(components: list[Row]) -> Iterator[tuple[str, str]]:
    """List metric and reason of each check without a verdict, those inside of groups included."""
    for component in components:
        assertion = mapping(component.get("assertion"))
        reason = first_line(component.get("reason"))
        # Whether a check came to a verdict is only in the words of its reason: promptfoo writes 0 for one that
        # broke, and versions before `graderError` note nothing else.
        if _is_broken(component, str(assertion.get("type") or ""), reason):
            yield str(assertion.get("metric") or ""), reason or "the grader failed"
        yield from without_verdict(mappings(component.get("componentResults")))


def _is_broken(component: Row, form: str, reason: str) -> bool:
    # Newer versions say it themselves, at least of some of their graders.
    if mapping(component.get("metadata")).get("graderError") is True or _THROWN.match(reason):
        return True
    # Other checks are computed by promptfoo itself, so a reason that looks like an error of an API is a text of
    # the model.
    return form.removeprefix("not-") in _JUDGED and _NO_ANSWER.match(reason) is not None


def first_line(text: object) -> str:
    """Return the first line of a reason: what follows are traces and bodies of responses."""
    return str(text or "").partition("\n")[0]
