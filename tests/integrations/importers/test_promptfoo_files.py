"""Files that a config names are data below its folder: nothing else is read, and each reason is told."""

import os
from pathlib import Path

import pytest

from assay.datasets.imports.items import ImportSource, ImportState
from assay.integrations.importers.promptfoo_files import MAX_FILE_BYTES, ConfigFiles, FileUnread, is_code


@pytest.fixture
def files() -> ConfigFiles:
    Path("suite").mkdir()
    Path("suite/promptfooconfig.yaml").write_text("prompts: []")
    return ConfigFiles(ImportSource("suite/promptfooconfig.yaml"), ImportState())


def names(files: ConfigFiles, address: str) -> list[str]:
    return [path.relative_to(files.folder).as_posix() for path in files.found(address)]


def test_patterns_find_files_in_order(files: ConfigFiles) -> None:
    for name in ("b.txt", "a.txt", "c.md", "deep/d.txt", "[x].txt"):
        (files.folder / name).parent.mkdir(exist_ok=True)
        (files.folder / name).write_text(name)
    assert names(files, "file://*.txt") == ["[x].txt", "a.txt", "b.txt"]
    assert names(files, "./**/*.txt") == ["[x].txt", "a.txt", "b.txt", "deep/d.txt"]
    assert names(files, "{c.md,b.txt}") == ["c.md", "b.txt"]
    assert names(files, "[x].txt") == ["[x].txt"]


REFUSED = [
    ("../outside.txt", "outside of the config's folder"),
    ("../*.txt", "outside of the config's folder"),
    ("/etc/passwd", "outside of the config's folder"),
    ("link.txt", "outside of the config's folder"),
    (".env", "hidden file"),
    (".keys/a.txt", "hidden file"),
    ("none.txt", "there is no file"),
    ("a\0b.txt", "holds a null character"),
    ("*.none", "no file matches"),
    ("folder", "there is no file"),
    ("pipe", "there is no file"),
    ("large.txt", "more than 64 MB"),
]


@pytest.mark.parametrize(("address", "reason"), REFUSED, ids=[address for address, _ in REFUSED])
def test_nothing_else_is_read(files: ConfigFiles, address: str, reason: str) -> None:
    Path("outside.txt").write_text("a secret")
    for name in (".env", ".keys/a.txt"):
        (files.folder / name).parent.mkdir(exist_ok=True)
        (files.folder / name).write_text("a secret")
    (files.folder / "folder").mkdir()
    (files.folder / "link.txt").symlink_to(Path("outside.txt").absolute())
    os.mkfifo(files.folder / "pipe")
    with (files.folder / "large.txt").open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(FileUnread, match=reason):
        files.found(address)


TEXTS = [
    ("a.jpg", b"x", "is not text"),
    ("a.pdf", b"x", "is a document of type .pdf"),
    ("a.txt", b"\xff\xfe", "is not text in UTF-8"),
    ("a.bin", b"a\0b", "is not text in UTF-8"),
    ("a.txt", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a Git LFS pointer"),
]


@pytest.mark.parametrize(("name", "content", "reason"), TEXTS, ids=[reason for *_, reason in TEXTS])
def test_a_file_without_text_is_refused(files: ConfigFiles, name: str, content: bytes, reason: str) -> None:
    (files.folder / name).write_bytes(content)
    with pytest.raises(FileUnread, match=reason):
        files.text(files.folder / name)


def test_data_is_read_by_the_ending(files: ConfigFiles) -> None:
    contents = {
        "a.yaml": "k: [1]\n",
        "a.json": '{"k": [1]}',
        "a.jsonl": '{"k": 1}\n{"k": 2}\n',
        "a.csv": "k , l\n1,\n",
        "a.sql": "select 1\n",
    }
    for name, text in contents.items():
        (files.folder / name).write_text(text)
    assert {name: files.value(f"file://{name}") for name in contents} == {
        "a.yaml": {"k": [1]},
        "a.json": {"k": [1]},
        "a.jsonl": [{"k": 1}, {"k": 2}],
        "a.csv": [{"k": "1", "l": None}],
        "a.sql": "select 1\n",
    }
    assert files.value("file://a.{yaml,json}") == [{"k": [1]}, {"k": [1]}]


def test_a_program_is_never_read_as_a_value(files: ConfigFiles) -> None:
    (files.folder / "a.py").write_text("raise SystemExit('this was run')")
    with pytest.raises(FileUnread, match=r"'a\.py' is a program"):
        files.value("file://a.py")


@pytest.mark.parametrize("address", ["a.py", "file://a.js:make", "a.mjs", "exec: ./a", "x/y.rb:f", "a.sh"])
def test_programs_are_known_by_their_endings(address: str) -> None:
    assert is_code(address)
    assert not is_code("a.txt")


def test_each_reason_is_told_once_and_each_loss_counted(files: ConfigFiles) -> None:
    for _ in range(3):
        files.leave_out(FileUnread("loss", "the reason"))
    assert [remark.reason for remark in files.source.tally.remarks] == ["the reason"]
