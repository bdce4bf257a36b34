"""Drop-in names for users of a conversation validator: change one import and keep the code.

`AgentDataValidator(config).validate_file(path)` or `.validate_data(turns)` give a `ValidationResult`. The rules
are those of `assay.validate(..., contract="conversation_v1")`; subclasses may add their own in `_validate_turn`.
"""

import enum
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable
from assay.core.issue import Finding
from assay.datasets.conversation_v1 import documents_in
from assay.datasets.conversation_v1.rules import (
    check_ids,
    check_plain,
    check_shape,
    check_text,
    check_turn,
    drop_conversation_nulls,
    is_empty,
)
from assay.datasets.parsing.config import ValidationConfig, check_config
from assay.datasets.parsing.source import open_source

__all__ = ["AgentDataValidator", "ErrorType", "ValidationConfig", "ValidationError", "ValidationResult", "create_example_files"]


class ErrorType(enum.Enum):
    """One of the contract's seven kinds of errors."""

    STRUCTURE_ERROR = "structure_error"
    REQUIRED_FIELD_MISSING = "required_field_missing"
    INVALID_FIELD_TYPE = "invalid_field_type"
    INVALID_FIELD_VALUE = "invalid_field_value"
    SEQUENCE_ERROR = "sequence_error"
    CONTENT_ERROR = "content_error"
    TOOL_ERROR = "tool_error"


class ValidationError(msgspec.Struct):
    """One error of a conversation."""

    error_type: ErrorType
    message: str
    turn_id: int | None = None
    field: str | None = None


class ValidationResult(msgspec.Struct):
    """Result of a validation; `is_valid` becomes false with the first error."""

    is_valid: bool = True
    total_turns: int = 0
    errors: list[ValidationError] = msgspec.field(default_factory=list)
    warnings: list[str] = msgspec.field(default_factory=list)

    def add_error(self, error_type: ErrorType, message: str, turn_id: int | None = None, field: str | None = None) -> None:
        """Note an error."""
        self.errors.append(ValidationError(error_type, message, turn_id, field))
        self.is_valid = False

    def add_warning(self, message: str) -> None:
        """Note something that does not make the conversation invalid."""
        self.warnings.append(message)


class AgentDataValidator:
    """Validates conversations; `_validate_turn` may be overridden."""

    def __init__(self, config: ValidationConfig | None = None) -> None:
        self.config = check_config(config or ValidationConfig())

    def validate_file(self, path: str | Path) -> ValidationResult:
        """Validate a JSON, YAML or JSONL file; an unreadable one is a STRUCTURE_ERROR."""
        result = ValidationResult()
        try:
            conversations = list(documents_in(open_source(path)))
        except SourceUnreadable as problem:
            result.add_error(ErrorType.STRUCTURE_ERROR, problem.message)
            return result
        for document in conversations:
            self._note(check_text(document), document.value, result)
            # A line that is not JSON was noted already; it is not reported again as a turn of the wrong type.
            unread = {flaw.path[0] for flaw in document.flaws if flaw.path and flaw.code == "invalid_json"}
            if document.is_readable and not is_empty(document):
                self._validate(document.value, result, skip=unread)
        return result

    def validate_data(self, data: object) -> ValidationResult:
        """Validate a list of turns."""
        result = ValidationResult()
        turns = enumerate(data) if isinstance(data, list) else ()
        odd = {position: list(check_plain(turn, (position,))) for position, turn in turns}
        for problems in odd.values():
            self._note(problems, data, result)
        self._validate(data, result, skip={position for position, problems in odd.items() if problems})
        return result

    def _validate(self, turns: object, result: ValidationResult, *, skip: Collection[str | int]) -> None:
        if self.config.null_as_absent and isinstance(turns, list):
            # Copies: the turns are the caller's.
            turns = [dict(turn) if isinstance(turn, dict) else turn for turn in turns]
            drop_conversation_nulls(turns, self.config)
        self._note(check_shape(turns, self.config), turns, result)
        if not isinstance(turns, list):
            return
        result.total_turns += len(turns)
        for position, turn in enumerate(turns):
            if position not in skip:
                self._validate_turn(turn, position, result)
        self._note(check_ids(turns, self.config), turns, result)

    def _validate_turn(self, turn: object, position: int, result: ValidationResult) -> None:
        """Check every rule for one turn; `position` counts from 0."""
        self._note(check_turn(turn, position, self.config), {position: turn}, result)

    def _note(self, found: Iterable[Finding], turns: object, result: ValidationResult) -> None:
        for finding in found:
            position = finding.path[0] if finding.path else None
            field = next((step for step in finding.path[1:] if isinstance(step, str)), None)
            turn_id = _turn_id(turns, position)
            if finding.severity == "warning":
                result.add_warning(finding.message if turn_id is None else f"turn {turn_id}: {finding.message}")
            else:
                result.add_error(ErrorType(finding.error_type), finding.message, turn_id, field)


def _turn_id(turns: Any, position: Any) -> int | None:
    """Return the turn's own id, or its position in the conversation."""
    if not isinstance(position, int):
        return None
    try:
        turn = turns[position]
    except (KeyError, IndexError, TypeError):
        return None
    turn_id = turn.get("turn_id") if isinstance(turn, dict) else None
    return turn_id if type(turn_id) is int else position + 1


_VALID = [
    {"turn_id": 1, "speaker": "user", "message": "Which trains go from Basel to Milan tomorrow morning?"},
    {
        "turn_id": 2,
        "speaker": "assistant",
        "assistant_reply": "There is a direct train at 06:28 that arrives at 10:37.",
        "tool_used": "timetable",
        "tool_input": {"from": "Basel SBB", "to": "Milano Centrale", "before": "12:00"},
        "tool_output": {"trains": [{"departs": "06:28", "arrives": "10:37", "changes": 0}]},
        "confidence_score": 0.94,
    },
    {"turn_id": 3, "speaker": "user", "message": "Good, and what does it cost?"},
    {"turn_id": 4, "speaker": "assistant", "assistant_reply": "Second class starts at 39 francs.", "confidence_score": 0.71},
]
_INVALID = [
    {"turn_id": "1", "speaker": "user", "message": "Which trains go to Milan?"},
    {"turn_id": 2, "speaker": "robot", "assistant_reply": "Let me look."},
    {"turn_id": 4, "speaker": "assistant", "assistant_reply": "", "tool_used": "timetable", "confidence_score": 1.5},
]


def create_example_files(folder: str | Path = ".") -> None:
    """Write valid_example.json and invalid_example.json."""
    for name, turns in (("valid_example.json", _VALID), ("invalid_example.json", _INVALID)):
        (Path(folder) / name).write_text(json.dumps(turns, indent=2) + "\n", encoding="utf-8")
