"""Files that mean harm: archives that grow, lie or are cut off, and JSON that is none."""

import gzip
import io
import struct
import zipfile
from pathlib import Path

import pytest

from assay.core.errors import SourceUnreadable
from assay.integrations.importers.safe_zip import Archive
from tests.commands import assay
from tests.integrations.importers.bringing import FIXTURES


def packed(entries: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def written(content: bytes) -> Path:
    path = Path("log.eval")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_entry_comes_back_as_it_was(method: int) -> None:
    with Archive(written(packed({"header.json": b'{"a": 1}'}, method=method))) as archive:
        assert archive.read("header.json") == b'{"a": 1}'


def test_an_archive_of_zstandard_is_read() -> None:
    with Archive(FIXTURES / "letters.eval") as archive:
        assert archive.read("header.json").startswith(b"{")


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    with (
        Archive(written(packed({"samples/a_epoch_1.json": bytes(64 << 20)}))) as archive,
        pytest.raises(SourceUnreadable, match="grows to"),
    ):
        archive.read("samples/a_epoch_1.json")


def test_entries_that_are_small_each_and_endless_together_are_refused() -> None:
    content = packed({f"samples/{place}_epoch_1.json": bytes(15 << 20) for place in range(18)})
    with pytest.raises(SourceUnreadable, match="its entries grow to"):
        Archive(written(content))


def test_an_entry_that_lies_about_its_size_is_refused() -> None:
    honest = packed({"a.json": bytes(1 << 20)})
    lying = honest.replace(struct.pack("<I", 1 << 20), struct.pack("<I", 100))
    with Archive(written(lying)) as archive, pytest.raises(SourceUnreadable, match="does not match"):
        archive.read("a.json")


def test_a_changed_byte_is_noticed() -> None:
    content = packed({"a.json": b"0123456789"}, method=zipfile.ZIP_STORED).replace(b"0123456789", b"0123456780")
    with Archive(written(content)) as archive, pytest.raises(SourceUnreadable, match="checksum"):
        archive.read("a.json")


def test_names_of_entries_are_never_paths() -> None:
    written(packed({"header.json": b"{}", "../../escaped.json": b"{}", "/etc/escaped": b"{}"}))
    assert assay("import", "log.eval", "--run").exit_code == 2
    assert [path.name for path in Path.cwd().iterdir()] == ["log.eval"]


@pytest.mark.parametrize("content", [b"PK\x03\x04 cut off", packed({"other.txt": b"x"})], ids=["cut off", "no log"])
def test_what_is_no_log_is_refused_in_words(content: bytes) -> None:
    result = assay("import", str(written(content)), "-o", "rows.jsonl")
    assert result.exit_code == 2
    assert "internal error" not in result.output


def test_a_broken_stream_inside_an_archive_is_refused() -> None:
    content = bytearray(packed({"a.json": bytes(range(256)) * 20}))
    content[50:60] = bytes(10)
    with Archive(written(bytes(content))) as archive, pytest.raises(SourceUnreadable):
        archive.read("a.json")


def test_an_encrypted_entry_and_an_unknown_method_are_refused() -> None:
    content = bytearray(packed({"a.json": b"0123456789"}, method=zipfile.ZIP_STORED))
    directory = content.index(b"PK\x01\x02")
    content[directory + 8] = 1
    with Archive(written(bytes(content))) as archive, pytest.raises(SourceUnreadable, match="encrypted"):
        archive.read("a.json")
    content[directory + 8], content[directory + 10] = 0, 99
    with Archive(written(bytes(content))) as archive, pytest.raises(SourceUnreadable, match="method 99"):
        archive.read("a.json")


def test_an_entry_whose_place_is_a_lie_is_refused() -> None:
    content = bytearray(packed({"a.json": b"0123456789"}))
    content[:4] = b"XXXX"
    with Archive(written(bytes(content))) as archive, pytest.raises(SourceUnreadable, match="no entry"):
        archive.read("a.json")


def test_gzipped_files_are_read() -> None:
    Path("samples.jsonl.gz").write_bytes(gzip.compress((FIXTURES / "evals_samples.jsonl").read_bytes()))
    assert assay("import", "samples.jsonl.gz", "-o", "rows.jsonl").exit_code == 0
    assert len(Path("rows.jsonl").read_text().splitlines()) == 3
