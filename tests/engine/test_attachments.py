import os
from pathlib import Path

import pytest

from assay.core.case import Attachment, Case
from assay.engine.attachments import (
    MAX_BYTES,
    MAX_CHARACTERS,
    AttachmentProblem,
    attachment_reader,
    check_attachments,
    read_attachment,
)
from assay.engine.request import RunRequest
from tests.engine.run_settings import mcq_row, planned, problems_of, write_rows


def pdf(text: str) -> bytes:
    """The smallest PDF that shows one line of text."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    parts = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length " + str(len(stream)).encode() + b" >>\nstream\n" + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n".encode() + part + b"\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets).encode()
    head = f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n".encode()
    return body + head + table + f"trailer\n<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n".encode()


def case_with(case_id: str, path: str) -> Case:
    attachments = (Attachment(path),)
    return Case(id=case_id, index=0, contract="legal_eval_v1", task="mcq", dataset="law", prompt="?", attachments=attachments)


def test_text_is_read_as_utf_8_without_its_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "lease.txt").write_bytes(b"\xef\xbb\xbf" + "Miete: 5 €".encode())
    assert read_attachment(tmp_path, "lease.txt") == "Miete: 5 €"


def test_the_text_of_a_pdf_is_extracted(tmp_path: Path) -> None:
    (tmp_path / "lease.pdf").write_bytes(pdf("The rent is due on Monday"))
    assert read_attachment(tmp_path, "lease.pdf") == "The rent is due on Monday"


def test_a_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "lease.txt").write_text("rent")
    (tmp_path / "link.txt").symlink_to("lease.txt")
    assert read_attachment(tmp_path, "link.txt") == "rent"


@pytest.mark.parametrize("path", ["/etc/hostname", "../secret.txt", "sub/../../secret.txt", "a\x00b"])
def test_a_path_never_leaves_the_folder(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "data"
    folder.mkdir()
    with pytest.raises(AttachmentProblem, match="does not stay below the dataset's folder"):
        read_attachment(folder, path)


@pytest.mark.parametrize("target", ["../secret.txt", "/etc/hostname"])
def test_a_link_never_leaves_the_folder(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.txt").symlink_to(target)
    with pytest.raises(AttachmentProblem, match="is a link that leaves the dataset's folder"):
        read_attachment(folder, "link.txt")


def test_a_folder_behind_a_link_never_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.txt").write_text("secret")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "docs").symlink_to("../other")
    with pytest.raises(AttachmentProblem, match="is a link that leaves the dataset's folder"):
        read_attachment(folder, "docs/secret.txt")


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(AttachmentProblem, match=r"'gone\.txt' cannot be read: no such file or directory"):
        read_attachment(tmp_path, "gone.txt")


def test_a_link_in_a_circle_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to("a.txt")
    with pytest.raises(AttachmentProblem, match=r"'a\.txt' cannot be read"):
        read_attachment(tmp_path, "a.txt")


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe.txt")
    assert check_attachments(tmp_path, [Attachment("folder"), Attachment("pipe.txt")]) == [
        "the attachment 'folder' is not a regular file",
        "the attachment 'pipe.txt' is not a regular file",
    ]


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(AttachmentProblem, match="has more than 20 MB"):
        read_attachment(tmp_path, "large.txt")


def test_a_long_text_is_refused_rather_than_cut(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("x" * (MAX_CHARACTERS + 1))
    with pytest.raises(AttachmentProblem, match="more than 2,000,000 characters"):
        read_attachment(tmp_path, "long.txt")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("Gebühr".encode("latin-1"), "is not UTF-8: byte 0xfc at offset 3"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is neither text nor PDF"),
        (b"%PDF-1.4\nnothing", "is a damaged PDF"),
        (pdf(""), "is a PDF without text"),
    ],
)
def test_what_holds_no_text_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(AttachmentProblem, match=problem):
        read_attachment(tmp_path, "file")


def test_all_unreadable_attachments_are_told_before_any_call(tmp_path: Path) -> None:
    rows = [mcq_row(name, attachments=[{"path": f"docs/{name}.txt"}]) for name in "abc"]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.txt").write_text("there")
    problems = problems_of(RunRequest(datasets=(str(dataset),), models=("scripted/echo",)))
    assert problems == tuple(
        f"{dataset}: the attachment 'docs/{name}.txt' cannot be read: no such file or directory" for name in "ac"
    )


def test_the_texts_of_a_case_come_by_path(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    dataset = write_rows(tmp_path / "law.jsonl", mcq_row("r", attachments=[{"path": "a.txt"}]))
    (plan,) = planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",))).plans
    assert attachment_reader(plan)(case_with("r", "a.txt")) == {"a.txt": "alpha"}


def test_attachments_are_looked_for_beside_their_own_dataset(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
        write_rows(tmp_path / name / "law.jsonl", mcq_row(f"r-{name}", attachments=[{"path": "a.txt"}]))
    datasets = tuple(str(tmp_path / name / "law.jsonl") for name in ("one", "two"))
    (plan,) = planned(RunRequest(datasets=datasets, models=("scripted/echo",))).plans
    read = attachment_reader(plan)
    assert (read(case_with("r-one", "a.txt")), read(case_with("r-two", "a.txt"))) == ({"a.txt": "one"}, {"a.txt": "two"})
