"""The conversations in a source: one for each document, or one for each line that is an array."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.core.document import Document
from assay.core.json_door import parse_json, parse_json_lines
from assay.datasets.formats import sniff_format
from assay.datasets.source import BOM, Source, filled_lines
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


def conversations_in(source: Source) -> Iterator[Any]:
    """The turns of every conversation, read as fast as its text allows; None where it cannot be read."""
    if has_conversation_lines(source):
        yield from (_value(line.text) for line in filled_lines(source))
    elif sniff_format(source) == "json":
        yield _value(bytes(source.buffer()).removeprefix(BOM))
    else:
        yield whole_document(source).value


def _value(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return parse_json(content, is_whole=False).value


def documents_in(source: Source) -> Iterator[Document]:
    """Every conversation of the source, parsed exactly."""
    if has_conversation_lines(source):
        yield from (parse_json(line.text, is_whole=False) for line in filled_lines(source))
    else:
        yield whole_document(source)
