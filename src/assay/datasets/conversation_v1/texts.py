"""The conversations in a source: one for each document, or one for each line that is an array."""

from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

from assay.core.canonical import canonical_json
from assay.core.strict_json import Document, parse_json, parse_json_lines
from assay.datasets.parsing.formats import sniff_format
from assay.datasets.parsing.hashing import Hasher
from assay.datasets.parsing.lazy_yaml import MAX_YAML_BYTES, parse_yaml
from assay.datasets.parsing.source import BOM, Source, filled_lines


def has_conversation_lines(source: Source) -> bool:
    """True for JSONL whose lines are arrays: each is a conversation."""
    if sniff_format(source) != "jsonl":
        return False
    first = next(filled_lines(source), None)
    return first is not None and not first.content.lstrip().startswith(b"{")


def whole_document(source: Source) -> Document:
    """A source that is one conversation: JSON, YAML, or JSONL with a turn on each line."""
    shape = sniff_format(source)
    if shape == "yaml":
        # A text beyond the limit is refused for its length alone.
        return parse_yaml(source.part(0, MAX_YAML_BYTES + 1))
    document = parse_json_lines(source.buffer()) if shape == "jsonl" else parse_json(source.buffer())
    source.let_go()
    return document


def document_to_check(source: Source) -> Document:
    """As `whole_document`, for checks: long strings of a large text may have stand-ins."""
    shape = sniff_format(source)
    return whole_document(source) if shape == "yaml" else source.document_to_check(by_line=shape == "jsonl")


class Conversation(NamedTuple):
    """The turns of one conversation and their hash."""

    turns: Any
    record_sha256: str


def conversations_in(source: Source, rejected: Container[int]) -> Iterator[tuple[int, Conversation]]:
    """Every conversation but the rejected ones, with its position, read as fast as its text allows."""
    if has_conversation_lines(source):
        texts: Iterable[bytes] = (line.text for line in filled_lines(source))
    elif sniff_format(source) == "json":
        texts = [bytes(source.buffer()).removeprefix(BOM)]
    else:
        texts = [] if 0 in rejected else [canonical_json(whole_document(source).value)]
    hasher = Hasher()
    for index, text in enumerate(texts):
        if index not in rejected:
            yield index, Conversation(*hasher.read(text))


def documents_in(source: Source) -> Iterator[Document]:
    """Every conversation of the source, parsed exactly."""
    if has_conversation_lines(source):
        yield from (parse_json(line.text, is_whole=False) for line in filled_lines(source))
    else:
        yield whole_document(source)
