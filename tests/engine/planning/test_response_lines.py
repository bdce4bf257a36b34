import json
from pathlib import Path

from assay.datasets.parsing.source import open_source
from assay.engine.planning.responses import ResponseLines, load_responses


def row(example_id: str, text: str = "A", candidate: str = "big") -> bytes:
    return json.dumps({"example_id": example_id, "candidate_name": candidate, "response_text": text}).encode() + b"\n"


def table(*rows: tuple[str, bytes]) -> ResponseLines:
    lines = ResponseLines(open_source(b"".join(line for _, line in rows)))
    start = 0
    for number, (case_id, line) in enumerate(rows, 1):
        assert lines.add(case_id, start=start, size=len(line), number=number) == 0
        start += len(line)
    return lines


def test_every_row_of_many_is_found_and_no_other() -> None:
    lines = table(*((f"r{n}", row(f"r{n}", f"answer {n}")) for n in range(3_000)))
    assert [lines.line(f"r{n}") for n in range(3_000)] == [row(f"r{n}", f"answer {n}") for n in range(3_000)]
    assert [n for n in range(3_000, 9_000) if lines.line(f"r{n}") or f"r{n}" in lines] == []


def test_the_same_record_of_another_candidate_is_another_row(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(row("a", "one") + row("a", "two", "small"))
    loaded = load_responses(path)
    assert (loaded.of("big").text_for("a"), loaded.of("small").text_for("a"), loaded.problems) == ("one", "two", ())


def test_a_repeated_row_is_told_with_the_line_of_the_first() -> None:
    lines = table(("a", row("a")), ("b", row("b")))
    assert (lines.add("b", start=0, size=9, number=7), lines.add("a", start=0, size=9, number=8)) == (2, 1)
    assert (len(lines), lines.line("b")) == (2, row("b"))


def test_rows_after_a_byte_order_mark_are_read_from_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + row("a", "one") + b"\r\n" + row("b", "two").rstrip())
    loaded = load_responses(path).of("big")
    assert (loaded.text_for("a"), loaded.text_for("b")) == ("one", "two")


def test_a_row_with_half_a_character_is_found() -> None:
    line = b'{"example_id": "a\\ud800", "candidate_name": "big", "response_text": "x"}'
    assert table(("a\ud800", line)).line("a\ud800") == line


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\n" * 5_000 + row("a", "here") + b"\n" * 5_000)
    assert load_responses(path).of("big").text_for("a") == "here"
