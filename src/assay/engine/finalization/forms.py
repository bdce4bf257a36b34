"""What custom redaction rules leave alone in records, issues and parameters: names and terms that are not the user's."""

from collections.abc import Mapping

from assay.core.case import Attachment, Case, Choice, Criterion, Message, Turn
from assay.store.redact import StructureFields


def _form(*, names: str, terms: str, free: str = "metadata") -> StructureFields:
    given = frozenset(terms.split())
    return StructureFields(names=given | {*names.split(), *free.split()}, terms=given, free=frozenset(free.split()))


_STRUCTS = (Case, Message, Criterion, Choice, Attachment, Turn)

CASE = _form(
    names=" ".join(name for struct in _STRUCTS for name in struct.__struct_fields__),
    terms="id contract task role speaker correct_choice_ids policy_id sha256 record_sha256",
    free="metadata extra tool_input tool_output",
)

ROWS: Mapping[str, StructureFields] = {
    "legal_eval_v1": _form(
        names="dataset prompt messages content context reference_answers rubric title description weight choices text attachments"
        " path kind",
        terms="schema_version task_type role id correct_choice_ids",
    ),
    "batch_v1": _form(
        names="dataset_id records record_id input prompt reference answer tags expected max_latency_ms",
        terms="schema_version dataset_version created_at required_criteria",
    ),
    "golden_v1": _form(names="description cases user_prompt rubric context tags", terms="version id"),
    "conversation_v1": _form(
        names="turn_id message assistant_reply tool_used confidence_score",
        terms="speaker",
        free="metadata tool_input tool_output",
    ),
}
"""The rows of each contract, and what its documents say besides; those of plugins are the user's."""

ISSUES = StructureFields(terms=frozenset(("code", "severity", "error_type", "name", "details")))
OWN_NAMES = StructureFields()
"""All names and numbers are the program's, and all texts may be the user's."""
