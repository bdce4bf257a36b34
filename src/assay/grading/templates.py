"""Versioned prompt templates: texts, hashes, and slots that are filled in one pass."""

import hashlib
import re
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from assay.core.canonical import canonical_json, sha256_hex

_FOLDER = Path(__file__).parent / "prompts"
# Filled in one pass: text of a dataset that looks like a slot is never filled itself.
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_PARTS = "=== user ===\n"

TOOL_CALL = "tool_call/1"
"""Tells a candidate how to call a tool."""
ASK_AGAIN = "ask_again/1"
"""Sent to a judge whose reply was unusable."""
CONFIDENCE = "confidence/1"
"""Asks a judge for its confidence, when unsure votes call in more judges."""
OPEN_FIELD = "open_field/1"
"""Shows a further field of a record."""
JUDGE_PROMPT = "judge_prompt/1"
"""Frame of a judge's prompt that the user wrote."""
TEMPLATE_IDS = (
    "mcq_answer/1",
    "mcq_one/1",
    "mcq_several/1",
    "mcq_any/1",
    "exam_question/1",
    TOOL_CALL,
    OPEN_FIELD,
    "judge_1_5/1",
    "judge_1_5/2",
    "judge_criterion/1",
    "judge_result/1",
    "judge_rubric/1",
    "judge_reference/1",
    "judge_exam/1",
    "judge_pairwise/1",
    "judge_pairwise/2",
    "judge_value/1",
    JUDGE_PROMPT,
    ASK_AGAIN,
    CONFIDENCE,
    "criterion_overall/1",
    "criterion_accuracy/1",
    "criterion_clarity/1",
    "criterion_reasoning/1",
    "criterion_factuality/1",
)
"""A template never changes: another text is another version in another file."""


class Template(msgspec.Struct, frozen=True):
    """One prompt text with slots written as `{{name}}`."""

    id: str
    text: str
    sha256: str
    system: str
    """System message of a judge's prompt; the whole text of any other template."""
    user: str
    """User message of a judge's prompt."""


@cache
def load_template(template_id: str) -> Template:
    """Load the template with this id and version; raises KeyError when there is none."""
    if template_id not in TEMPLATE_IDS:
        raise KeyError(template_id)
    # Files instead of constants, so that a prompt can be read and reviewed as the text that is sent.
    text = (_FOLDER / f"{template_id.replace('/', '_')}.txt").read_text(encoding="utf-8")
    system, _, user = text.partition(_PARTS)
    # The hash is of the file as it is, and does not depend on how the text is split and filled.
    return Template(template_id, text, hashlib.sha256(text.encode()).hexdigest(), system.rstrip("\n"), user.rstrip("\n"))


@cache
def texts_sha256(template_ids: tuple[str, ...]) -> str:
    """Hash several templates: the JSON object of their ids and hashes, sorted and without spaces."""
    return sha256_hex(canonical_json({template_id: load_template(template_id).sha256 for template_id in template_ids}))


def fill(text: str, slots: dict[str, str]) -> str:
    """Fill the slots of a text; text that looks like a slot inside a value is unchanged."""
    pieces = [*_pieces(text)]
    pieces[1::2] = [slots[name] for name in pieces[1::2]]
    return "".join(pieces)


@lru_cache(maxsize=256)
def _pieces(text: str) -> list[str]:
    """Split a template into its own text and the names of slots; cached, so each template is split once."""
    return _SLOT.split(text)
