import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay import api
from assay.core.case import Attachment, Case
from assay.core.outcome import GradingFailure
from assay.engine.execution.run import open_or_create, run_to_completion
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.attachments import (
    MAX_BYTES,
    MAX_CHARACTERS,
    AttachmentProblem,
    Attachments,
    attachment_reader,
    read_attachment,
    read_pinned,
)
from assay.engine.planning.plans import PlannedRuns
from assay.engine.planning.request import RunRequest
from assay.engine.planning.selection import prepared_records
from assay.engine.storage.run_paths import RunPaths
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


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def law(folder: Path, **texts: str) -> PlannedRuns:
    """A run over one record for each text, which is attached to it."""
    rows = [mcq_row(name, attachments=[{"path": f"{name}.txt", "title": name}]) for name in texts]
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    dataset = write_rows(folder / "law.jsonl", *rows)
    return planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",), runs_dir=str(folder / "runs")))


def cases_of(runs: PlannedRuns, *, is_planned: bool = True) -> list[Case]:
    """The cases of a run as they are prepared, by the process that planned it or by another one."""
    rows = prepared_records(runs.plans[0], runs.inputs if is_planned else None)
    return [msgspec.json.decode(row.case or b"", type=Case) for row in rows]


def texts_of(runs: PlannedRuns, *cases: Case) -> list[Mapping[str, str]]:
    """What a process that did not plan the run reads for its cases."""

    async def read() -> list[Mapping[str, str]]:
        texts = attachment_reader(runs.plans[0], stop=asyncio.Event())
        return [await texts(case) for case in cases]

    return asyncio.run(read())


def finished(runs: PlannedRuns, *, watch: Callable[[object], None] | None = None) -> dict[str, tuple[str, str | None]]:
    """Status and error code of each record, after a run by another process than the one that planned it."""
    folders = RunPaths(Path(runs.runs_dir), runs.plans[0].run_id)
    open_or_create(runs.plans[0], folders, at=1_700_000_000.0)
    run_to_completion(folders, RunEnvironment(environ={}, watch=watch))
    lines = map(json.loads, (folders.sealed / "predictions.jsonl").read_text().splitlines())
    return {line["record_id"]: (line["status"], line["error_code"]) for line in lines}


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
    assert Attachments().check(tmp_path, [Attachment("folder"), Attachment("pipe.txt")]) == [
        ("the attachment 'folder' is not a regular file", True),
        ("the attachment 'pipe.txt' is not a regular file", True),
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


def test_where_invalid_records_are_skipped_an_unreadable_attachment_costs_its_own_records_alone(tmp_path: Path) -> None:
    rows = [mcq_row(name, attachments=[{"path": f"{name}.txt"}]) for name in "abc"]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    (tmp_path / "b.txt").write_text("there")
    (tmp_path / "c.txt").write_bytes(b"\xff")
    runs = planned(
        RunRequest(datasets=(str(dataset),), models=("scripted/echo",), runs_dir=str(tmp_path / "runs"), on_invalid="skip")
    )
    missing, unreadable = [note for note in runs.notes if "attachment" in note]
    assert missing == f"{dataset}: the attachment 'a.txt' cannot be read: no such file or directory; its records end in an error"
    assert unreadable.startswith(f"{dataset}: the attachment 'c.txt' is not UTF-8")
    assert finished(runs) == {
        "a": ("evaluation_error", "attachment_missing"),
        "b": ("evaluated", None),
        "c": ("evaluation_error", "attachment_unreadable"),
    }


def test_the_texts_of_a_case_come_by_path(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    assert texts_of(runs, *cases_of(runs)) == [{"a.txt": "alpha"}]


def test_attachments_are_looked_for_beside_their_own_dataset(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
        write_rows(tmp_path / name / "law.jsonl", mcq_row(f"r-{name}", attachments=[{"path": "a.txt"}]))
    datasets = tuple(str(tmp_path / name / "law.jsonl") for name in ("one", "two"))
    runs = planned(RunRequest(datasets=datasets, models=("scripted/echo",)))
    assert texts_of(runs, *cases_of(runs)) == [{"a.txt": "one"}, {"a.txt": "two"}]


# Contents stay what they were


@pytest.mark.parametrize("is_planned", [True, False])
def test_a_case_is_prepared_with_the_hash_of_its_attachment(tmp_path: Path, *, is_planned: bool) -> None:
    (case,) = cases_of(law(tmp_path, a="alpha"), is_planned=is_planned)
    assert case.attachments == (Attachment("a.txt", title="a", sha256=sha256("alpha")),)


def test_the_hash_of_a_case_is_that_of_its_record_alone(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    assert [case.record_sha256 for case in cases_of(runs)] == [case.record_sha256 for case in runs.inputs[0].report.cases]


def test_a_hash_that_the_dataset_gives_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha")
    given = {"text": "0" * 64, "number": 7}
    rows = [mcq_row(name, attachments=[{"path": "a.txt", "sha256": value}]) for name, value in given.items()]
    dataset = write_rows(tmp_path / "law.jsonl", *rows)
    cases = cases_of(planned(RunRequest(datasets=(str(dataset),), models=("scripted/echo",))))
    assert [case.attachments[0].sha256 for case in cases] == [sha256("alpha")] * 2


def test_the_hash_is_beside_the_record_in_the_artifacts(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    finished(runs)
    case: dict[str, Any] = json.loads((tmp_path / "runs" / "run_1" / "cases.jsonl").read_text())
    (attachment,) = case["record"]["attachments"]
    assert attachment["sha256"] == sha256("alpha")


def test_a_changed_attachment_is_never_read(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    (case,) = cases_of(runs)
    (tmp_path / "a.txt").write_text("omega")
    with pytest.raises(GradingFailure, match=r"the attachment 'a\.txt' has changed") as problem:
        texts_of(runs, case)
    assert problem.value.code == "attachment_changed"


@pytest.mark.parametrize(("target", "code"), [("gone.txt", "attachment_missing"), ("/etc/hostname", "attachment_unreadable")])
def test_an_attachment_that_can_no_longer_be_read_says_why(tmp_path: Path, target: str, code: str) -> None:
    (tmp_path / "a.txt").symlink_to(target)
    with pytest.raises(GradingFailure) as problem:
        read_pinned([tmp_path], Attachment("a.txt", sha256=sha256("alpha")))
    assert problem.value.code == code


def test_the_process_that_planned_goes_on_with_what_it_has_read(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    (tmp_path / "a.txt").write_text("omega")
    (result,) = api.run(runs)
    answers = (Path(result.run_dir) / "responses.jsonl").read_text()
    assert ("alpha" in answers, "omega" in answers) == (True, False)


def test_a_missing_attachment_fails_its_record_and_not_the_run(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha", b="beta")
    (tmp_path / "a.txt").unlink()
    assert finished(runs) == {"a": ("evaluation_error", "attachment_missing"), "b": ("evaluated", None)}


def test_an_attachment_that_changes_under_a_run_fails_its_record_and_not_the_run(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha", b="beta")
    found = finished(runs, watch=lambda _: (tmp_path / "a.txt").write_text("omega") and None)
    assert found == {"a": ("evaluation_error", "attachment_changed"), "b": ("evaluated", None)}


# Reading beside the calls


def test_an_attachment_is_read_beside_the_event_loop(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    (case,) = cases_of(runs)

    async def order() -> list[str]:
        texts, seen = attachment_reader(runs.plans[0], stop=asyncio.Event()), list[str]()
        asyncio.get_running_loop().call_soon(seen.append, "loop")
        return [*seen, *(await texts(case)).values(), *seen]

    assert asyncio.run(order()) == ["alpha", "loop"]


def test_what_was_read_once_is_not_read_again(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    (case,) = cases_of(runs)
    (tmp_path / "a.txt").unlink()
    texts = attachment_reader(runs.plans[0], runs.inputs[0].attachments, stop=asyncio.Event())

    async def read() -> Mapping[str, str]:
        return await texts(case)

    assert asyncio.run(read()) == {"a.txt": "alpha"}


def test_after_a_stop_nothing_more_is_read(tmp_path: Path) -> None:
    runs = law(tmp_path, a="alpha")
    (case,) = cases_of(runs)

    async def read() -> Mapping[str, str]:
        stop = asyncio.Event()
        stop.set()
        return await attachment_reader(runs.plans[0], stop=stop)(case)

    assert asyncio.run(read()) == {}


def test_texts_are_kept_up_to_a_number_of_characters_those_used_last_first() -> None:
    kept = Attachments(most=10)
    for name in ("a", "b"):
        kept.keep(name, name * 4)
    assert kept.kept("a") == "aaaa"
    kept.keep("c", "cccc")
    assert ([kept.kept(name) for name in "abc"], kept.kept_characters) == (["aaaa", None, "cccc"], 8)
    kept.keep("d", "d" * 11)
    assert ([kept.kept(name) for name in "acd"], kept.kept_characters) == ([None, None, None], 0)
