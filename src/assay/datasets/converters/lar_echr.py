"""Rows of LAR-ECHR into mcq rows whose facts and arguments are the context."""

from assay.datasets.converters.canonical import ALPHABET, Row, RowDraft, RowOrigin, digest, finish, older_digest
from assay.datasets.converters.columns import RowRefused, SourceColumns, is_empty, option_text

PROMPT = "Select the continuation that best extends the ECHR argument excerpt."
OPTIONS = ("a", "b", "c", "d")
MEASURES = (
    "toughness_score",
    "difficulty_signal_facts_len",
    "difficulty_signal_context_len",
    "difficulty_signal_option_similarity",
    "difficulty_signal_overlap_ambiguity",
    "difficulty_signal_negation_density",
)


def convert(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """The canonical row of one argument to continue; raises RowRefused."""
    facts = _required(columns, "facts")
    arguments = _required(columns, "context_arguments", "context")
    choices = _choices(columns)
    row_id = columns.identifier("case_id") or _content_id(columns, origin, content=[facts, arguments, choices])
    metadata = {
        "policy_id": "lar_echr_mcq_v1",
        "source_id": columns.identifier("record_id") or row_id,
        "case_id": columns.get("case_id"),
        "case_no": columns.get("case_no"),
        "source_split": columns.get("source_split"),
        "source_dataset": columns.get("source_dataset"),
    }
    draft = RowDraft(
        id=f"lar_echr:{row_id}",
        dataset="lar_echr",
        task_type="mcq",
        prompt=PROMPT,
        context=f"Facts:\n{facts}\n\nArguments:\n{arguments}",
        metadata={**metadata, **{name: columns.get(name) for name in MEASURES if name in columns}},
        choices=choices,
        correct_choice_ids=[_required(columns, "label").upper()],
    )
    return (finish(draft),)


def _required(columns: SourceColumns, *names: str) -> str:
    text = columns.text(*names)
    if not text:
        raise RowRefused(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} empty")
    return text


def _choices(columns: SourceColumns) -> list[Row]:
    cells = [(letter, name, columns.get(name)) for letter, name in zip(ALPHABET, OPTIONS, strict=False)]
    return [{"id": letter, "text": option_text(value, name)} for letter, name, value in cells if not is_empty(value)]


def _content_id(columns: SourceColumns, origin: RowOrigin, *, content: list[object]) -> str:
    if origin.id_style == "upstream":
        return older_digest(f"{origin.line}:{content[0]}:{content[1]}")
    return columns.identifier("record_id") or digest(*content)
