"""Golden cases whose rubric asks for what only `context` says, which no model is sent."""

import re

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
"""Notes about the case, such as `Simple arithmetic test`: what they say is not material for an answer."""
_FEWEST_WORDS = 4
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,:]\d+)*")
_HOUR = re.compile(r"0?(\d{1,2})[:.]00\Z")
_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin a sentence."""
_LONGEST = 20_000
"""Characters of a context that are looked at."""


def fact_of_context(context: str, *, rubric: str, prompt: str) -> str:
    """What of the context the rubric asks for although the prompt does not say it; empty where nothing shows that it does."""
    context = context[:_LONGEST].strip()
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
        name for name in _NAME.findall(context) if name.casefold() not in said and re.search(rf"\b{re.escape(name)}\b", rubric)
    ]
    return next(iter((*numbers, *names)), "")


def _numbers(text: str) -> dict[str, None]:
    """The numbers of a text in their order; 13:00 is 13."""
    return dict.fromkeys(_HOUR.sub(r"\1", number) for number in _NUMBER.findall(text))
