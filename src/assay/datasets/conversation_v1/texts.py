"""The conversations in a source: one for each document, or one for each line that is an array."""

from collections.abc import Iterator

from assay.core.document import Document
from assay.core.json_door import parse_json, parse_json_lines
from assay.datasets.formats import sniff_format
from assay.datasets.source import Source, filled_lines
from assay.datasets.yaml_door import parse_yaml


def has_conversation_lines(source: Source) -> bool:
    """True for JSONL whose lines are arrays: each is a conversation."""
    if sniff_format(source) != "jsonl":
        return False
    first = next(filled_lines(source), None)
    return first is not None and not first.content.lstrip().startswith(b"{")


def whole_document(source: Source) -> Document:
    """A source that is one conversation: JSON, YAML, or JSONL with a turn on each line."""
    content = bytes(source.buffer())
    shape = sniff_format(source)
    if shape == "yaml":
        return parse_yaml(content)
    return parse_json_lines(content) if shape == "jsonl" else parse_json(content)


def documents_in(source: Source) -> Iterator[Document]:
    """Every conversation of the source, parsed exactly."""
    if has_conversation_lines(source):
        yield from (parse_json(line.text, is_whole=False) for line in filled_lines(source))
    else:
        yield whole_document(source)
