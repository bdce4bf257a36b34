"""Sources: files, bytes, standard input and gzip, read in lines or as one buffer, as often as wanted."""

import gzip
import hashlib
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from assay import SourceUnreadable, validate
from assay.datasets.parsing.formats import guess_contract, sniff_format
from assay.datasets.parsing.source import open_source

CONTENT = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n"\xe2\x80\xa8"\nlast'
TURNS = '[{"turn_id": 1, "speaker": "user", "message": "hi"}]'


def test_a_file_and_its_bytes_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(CONTENT)
    from_file, from_bytes = open_source(path), open_source(CONTENT)
    assert bytes(from_file.buffer()) == bytes(from_bytes.buffer()) == CONTENT
    assert list(from_file.lines()) == list(from_bytes.lines())
    assert (from_file.name, from_file.size, from_bytes.name) == (str(path), len(CONTENT), "<bytes>")


def test_lines_end_at_line_feeds_alone_and_keep_their_numbers() -> None:
    lines = list(open_source(CONTENT).lines())
    assert [line.number for line in lines] == [1, 2, 3, 4, 5]
    assert [line.content.rstrip(b"\r\n") for line in lines] == [b'{"a": 1}', b"", b"  ", b'"\xe2\x80\xa8"', b"last"]


def test_a_byte_order_mark_is_no_part_of_the_head() -> None:
    assert open_source(CONTENT).head(7) == b'{"a"'


def test_a_source_can_be_read_again_and_in_any_order() -> None:
    source = open_source(CONTENT)
    first = [line.content for line in source.lines()]
    assert source.head(4) == source.head(4)
    assert bytes(source.buffer()) == CONTENT
    assert [line.content for line in source.lines()] == first


def test_an_empty_source_has_no_lines() -> None:
    source = open_source(b"")
    assert (list(source.lines()), bytes(source.buffer()), source.head(), source.size) == ([], b"", b"", 0)


def test_an_empty_file_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert bytes(open_source(path).buffer()) == b""


def test_reading_never_changes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "half.json"
    record = '{"record_id": "r", "input": {"prompt": "\\ud800"}}'
    path.write_text(
        f'{{"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [{record}]}}', encoding="utf-8"
    )
    before = path.read_bytes()
    report = validate(path)
    assert {issue.code for issue in report.record_errors} == {"invalid_encoding"}
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_are_a_source(kind: type) -> None:
    assert validate(kind(TURNS.encode())).outcome == "accepted"


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(gzip.compress(TURNS.encode()))
    assert validate(path).outcome == "accepted"
    assert validate(gzip.compress(TURNS.encode())).outcome == "accepted"


def test_a_gzip_file_may_have_several_members() -> None:
    content = gzip.compress(TURNS[:10].encode()) + gzip.compress(TURNS[10:].encode())
    assert validate(content).outcome == "accepted"


def test_the_size_of_a_gzip_source_is_that_of_its_content() -> None:
    assert open_source(gzip.compress(b"x" * 1000)).size == 1000


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(TURNS.encode())[:-4],
        gzip.compress(TURNS.encode())[:15],
        b"\x1f\x8b",
        b"\x1f\x8b\x08" + b"\x00" * 30,
        gzip.compress(b"x") + b"trailing garbage",
    ],
    ids=["no-end", "cut", "magic-only", "zeros", "garbage"],
)
def test_damaged_gzip_cannot_be_read(content: bytes) -> None:
    with pytest.raises(SourceUnreadable, match="cannot unpack"):
        validate(content)


def test_a_gzip_bomb_is_refused() -> None:
    with pytest.raises(SourceUnreadable, match="more than 200 times its size"):
        open_source(gzip.compress(b"\x00" * (64 << 20)) * 5)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.json", "json"),
        ("a.JSONL", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.yaml", "yaml"),
        ("a.yml", "yaml"),
        ("a.jsonl.gz", "jsonl"),
        ("a.gz", None),
        ("a.txt", None),
        ("json", None),
        ("a.b.json", "json"),
    ],
)
def test_the_name_tells_the_format(name: str, expected: str | None) -> None:
    assert open_source(b"", name=name).format == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[1]", "json"),
        (b'{\n  "a": 1\n}', "json"),
        (b"[\n1,\n2\n]", "json"),
        (b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        (b"[1]\n\n[2]\n", "jsonl"),
        (b'{"a": 1}\n{broken\n{"a": 3}\n', "jsonl"),
        (b'{"a": "' + b"x" * 70_000 + b'"}\n{"a": 2}\n', "jsonl"),
        (b'{"a": 1}\n{"a": "' + b"x" * 70_000 + b'"}\n', "jsonl"),
        (b"- a: 1\n- b\n", "yaml"),
        (b"a: 1\n", "yaml"),
        (b"[a: 1, b: 2]", "yaml"),
        (b"{a: 1}", "yaml"),
        (b"# note\n- 1\n", "yaml"),
        (b"---\n- 1\n", "yaml"),
        (b"", "yaml"),
    ],
    ids=range(15),
)
def test_the_content_tells_the_format_where_the_name_does_not(content: bytes, expected: str) -> None:
    assert sniff_format(open_source(content)) == expected


@pytest.mark.parametrize(
    ("content", "contract"),
    [
        (b'{"records": []}', "batch_v1"),
        (b'{"dataset_id": "x"}', "batch_v1"),
        (b'{"version": "1.0.0", "cases": []}', "golden_v1"),
        (b'{"schema_version": "legal_eval_v1"}', "legal_eval_v1"),
        (b'{"task_type": "mcq"}\n{"task_type": 1}', "legal_eval_v1"),
        (b'[{"task_type": "mcq"}]', "legal_eval_v1"),
        (b'[{"turn_id": 1}]', "conversation_v1"),
        (b'{"speaker": "user"}\n', "conversation_v1"),
        (b'[{"turn_id": 1}]\n[{"turn_id": 1}]', "conversation_v1"),
        (b"- turn_id: 1\n", "conversation_v1"),
        (b'{"records": [', "batch_v1"),
        (b'{"version": "1", "cases": [oops', "golden_v1"),
        (b'{"task_type": "mcq", oops}', "legal_eval_v1"),
        (b'[{"turn_id": 1, oops}]', "conversation_v1"),
        (b'{"a": 1}', None),
        (b"[]", None),
        (b"a: 1", None),
        (b"", None),
        (b"\x00\xff", None),
    ],
)
def test_the_content_tells_the_contract(content: bytes, contract: str | None) -> None:
    assert guess_contract(open_source(content)).contract == contract


@pytest.mark.parametrize("content", [TURNS.encode(), gzip.compress(TURNS.encode())], ids=["plain", "gzip"])
def test_standard_input_is_read_like_a_file(content: bytes) -> None:
    code = "from assay import validate; report = validate('-'); print(report.path, report.outcome, len(list(report.cases)))"
    finished = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
    assert finished.stdout.split() == [b"-", b"accepted", b"1"]


@pytest.mark.parametrize("name", ["missing.json", "", ".", "a\0b"], ids=["missing", "empty", "folder", "nul"])
def test_a_path_that_cannot_be_opened_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable, match="cannot read"):
        validate(tmp_path / name)


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_a_file_and_its_bytes_have_the_same_hash_and_parts(tmp_path: Path, size: int) -> None:
    content = b"0123456789" * (size // 10)
    path = tmp_path / "content.jsonl"
    path.write_bytes(content)
    sources = (open_source(path), open_source(content))
    assert {source.sha256() for source in sources} == {hashlib.sha256(content).hexdigest()}
    assert {source.part(3, 8) for source in sources} == {content[3:8]}


def test_a_long_line_is_in_memory_twice_until_it_is_read(tmp_path: Path) -> None:
    """Once in the buffer, which does not double for it, and once as the line."""
    size = 13_000_000
    source = tmp_path / "long.jsonl"
    source.write_bytes(b"x" * size + b"\n")
    tracemalloc.start()
    try:
        (block,) = open_source(source).blocks()
        (line,) = block.lines(1)
        assert len(line.content) == size
        assert tracemalloc.get_traced_memory()[1] < 2.5 * size
    finally:
        tracemalloc.stop()


def test_a_block_that_somebody_still_looks_at_does_not_change_its_size(tmp_path: Path) -> None:
    source = tmp_path / "long.jsonl"
    lines = [b"a" * 10, b"b" * 3_000_000, b"c"]
    source.write_bytes(b"\n".join(lines) + b"\n")
    views = [block.view for block in open_source(source).blocks()]
    assert [len(view) for view in views] == [11, 3_000_003]
    assert bytes(views[-1]) == b"\n".join(lines[1:]) + b"\n"
