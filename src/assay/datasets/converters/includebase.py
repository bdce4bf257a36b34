"""Rows of INCLUDE-base into mcq rows."""

from assay.datasets.converters.canonical import ALPHABET, Row, RowDraft, RowOrigin, digest, finish, older_digest
from assay.datasets.converters.columns import RowRefused, SourceColumns, is_empty, option_text, whole_number

OPTIONS = ("option_a", "option_b", "option_c", "option_d")
METADATA = ("language", "country", "subject", "level", "is_european", "source_file")


def convert(columns: SourceColumns, origin: RowOrigin) -> tuple[Row, ...]:
    """The canonical row of one question; raises RowRefused."""
    prompt = columns.text("question")
    options = [_option(columns, name) for name in OPTIONS]
    answer = whole_number(columns.get("answer"), "answer")
    if not 0 <= answer < len(options):
        raise RowRefused(f"answer is {answer}, but the options are numbered 0 to {len(options) - 1}")
    if not options[answer]:
        raise RowRefused(f"answer is {answer}, but {OPTIONS[answer]} is empty")
    draft = RowDraft(
        id=f"includebase:{_content_id(columns, origin, prompt=prompt, options=options)}",
        dataset="includebase",
        task_type="mcq",
        prompt=prompt,
        metadata={
            **{name: columns.get(name) for name in METADATA},
            "answer_index": answer,
            "policy_id": "includebase_default_v1",
        },
        # An empty option keeps its letter: the answer's number counts it.
        choices=[{"id": letter, "text": text} for letter, text in zip(ALPHABET, options, strict=False) if text],
        correct_choice_ids=[ALPHABET[answer]],
    )
    return (finish(draft),)


def _option(columns: SourceColumns, name: str) -> str:
    value = columns.get(name)
    return "" if is_empty(value) else option_text(value, name)


def _content_id(columns: SourceColumns, origin: RowOrigin, *, prompt: str, options: list[str]) -> str:
    source_file = columns.text("source_file")
    if origin.id_style == "upstream":
        return older_digest(f"{source_file or 'unknown'}:{origin.line}:{prompt}")
    return digest(source_file, prompt, options)
