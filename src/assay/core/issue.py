"""Issues: what validation finds, with code, path and location."""

import re
from typing import Literal, NamedTuple

import msgspec

from assay.core.canonical import JsonObject

Severity = Literal["error", "warning"]

# Without limits, the issues of a megabyte of numbers took more than a gigabyte.
MAX_ERRORS = 50_000
"""Maximum listed errors of one file, one for each record of the largest batch_v1 document; others are counted by code."""
MAX_LISTED = 10_000
"""Maximum listed warnings of one file, and errors or warnings of one record or of a document that is parsed as a whole."""

Path = tuple[str | int, ...]
"""Keys and indexes from the document's root to a value."""

CODES: dict[str, str] = {
    "missing_required_field": "A field that the contract requires is absent.",
    "invalid_field_type": "A value has another JSON type than the contract states; null counts as a type.",
    "value_out_of_range": "A number, a length below the minimum, a count, a depth or a pattern is outside the contract's range.",
    "string_too_long": "A string has more characters (code points) than the contract allows.",
    "invalid_enum_value": "A value is not one of the words that the contract lists.",
    "duplicate_record_id": "The id was used by an earlier valid record; the first one is kept.",
    "record_too_large": "The compact UTF-8 JSON of a record or of its metadata has more bytes than allowed.",
    "invalid_encoding": "NUL, a lone surrogate, a forbidden control character, a duplicate key, bytes that are not UTF-8.",
    "unsupported_field": "A field that the contract forbids here or does not know.",
    "invalid_json": "The text is not JSON (RFC 8259), or nests deeper than the reader allows.",
    "invalid_yaml": "The text is not YAML 1.2 that maps to JSON: syntax, tags, duplicate keys, aliases, several documents.",
    "payload_too_large": "The file has more bytes than the contract's upload limit.",
    "all_records_invalid": "Every record of the document failed; nothing is left to evaluate.",
    "contract_error": "The code of a contract of your own raised, or made no usable case of the record.",
    "unknown_contract": "No contract could be recognised in the content.",
    "unknown_columns": "The columns of a table do not say what they are, or say two things.",
    "empty_dataset": "The file has no rows.",
    "not_normalized": "Text is not in Unicode NFC; it is normalised before evaluation.",
    "null_optional": "An optional field is null and is read as absent.",
    "suspicious_value": "A value that is legal but probably not meant.",
    "duplicate_criterion": "Two criteria of a rubric say the same, so that the point counts twice.",
    "contradictory_criteria": "Criteria of which no answer can meet both, or a weight that rewards what its text calls a fault.",
    "unscorable_criterion": "A criterion that no judge could decide: a placeholder, a gap, a pointer to another criterion.",
    "unreachable_criterion": "A criterion that can never change the score, because its weight is 0.",
    "reference_not_covered": "A reference answer of which no criterion mentions anything.",
    "unsent_context": "A rubric asks for what only `context` says, and no model is sent the context.",
}
"""Every issue code with its meaning; the first nine are batch_v1's own."""


# One struct for all contracts: reports, pages and the service show issues of any contract without asking which one it is.
class Issue(msgspec.Struct, frozen=True, kw_only=True):
    """One finding of validation."""

    code: str
    message: str
    path: str = ""
    """JSONPath-like path of the value; empty for the document itself."""
    severity: Severity = "error"
    index: int | None = None
    """Zero-based record index; None for the dataset as a whole."""
    record_id: str | None = None
    line: int | None = None
    """1-based line in the source; None for a Python object."""
    column: int | None = None
    """1-based column, counted in characters."""
    hint: str = ""
    excerpt: str = ""
    """Source line around the location, at most 120 characters."""
    caret: int = 0
    """Zero-based position in the excerpt that the issue points at."""
    details: JsonObject | None = None
    """Members of some codes only: `http_status` and `error_code` of batch_v1, counts of all_records_invalid."""
    error_type: str | None = None
    """conversation_v1: one of the seven error types."""
    name: str | None = None
    """conversation_v1: the error in two or three words, such as `Missing speaker`."""
    turn_id: int | None = None
    """conversation_v1: the turn's id, if it is an integer."""
    conversation: int | None = None
    """conversation_v1: zero-based conversation in a file with several."""


class RecordIssue(msgspec.Struct, frozen=True, kw_only=True):
    """The members that every issue of a record has in record_validation.jsonl; some contracts add more of their own."""

    index: int
    record_id: str | None
    code: str
    message: str
    path: str
    severity: Severity
    line: int | None = None
    column: int | None = None
    hint: str | None = None


class Guess(NamedTuple):
    """A word that is unknown or absent, and the words among which a similar one may stand in its place."""

    word: str
    among: tuple[str, ...]
    question: str = "did you mean {!r}?"


# Line, column and excerpt are looked up afterwards, and only for issues that are listed: that costs more than most checks.
class Finding(msgspec.Struct, frozen=True):
    """An issue not yet located in the source; checks create these."""

    code: str
    path: Path
    message: str
    hint: str = ""
    severity: Severity = "error"
    on_key: bool = False
    """True if the location is the member's name, not its value."""
    offset: int | None = None
    """Character offset in the document, for findings about the text itself."""
    name: str | None = None
    error_type: str | None = None
    parameter: str = ""
    """Parameter of the HTTP interface that the hint names, for clients whose users know it as an option."""
    guess: Guess | None = None
    """Names whose comparison may give a better hint; it costs far more than a check, so it is left until the issue is listed."""


# A dataset may use a name of megabytes, and repeat it in every record; without a limit the report would be larger than the file.
MAX_NAME = 256
"""Maximum characters of an id, a name or a path that an issue repeats."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_plain(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & set(".[]\"'")


def shorten(text: str) -> str:
    """Shorten a text that issues repeat: thousands of issues may name the same one."""
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME // 2]}…{text[1 - MAX_NAME // 2 :]}"


def path_text(path: Path) -> str:
    """Format a path, `records[1].input.prompt`; ambiguous names are quoted in brackets, and very long ones shortened."""
    if len(path) == 1 and isinstance(path[0], str) and len(path[0]) <= MAX_NAME and _PLAIN_NAME.fullmatch(path[0]):
        return path[0]
    parts: list[str] = []
    for given in path:
        step = given if isinstance(given, int) else shorten(given)
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN_NAME.fullmatch(step) or _is_plain(step):
            parts.append(f".{step}" if parts else step)
        else:
            # The encoder refuses lone surrogates, and the issue about such a name has to be written.
            quoted = msgspec.json.encode(_SURROGATE.sub("\ufffd", step)).decode()
            parts.append(f"[{quoted}]")
    # The whole path too: a hundred levels of short names are as long as one long name.
    return shorten("".join(parts))
