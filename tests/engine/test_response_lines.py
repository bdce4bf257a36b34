import json
from pathlib import Path

from assay.engine.response_lines import ResponseLines
from assay.engine.responses import load_responses


def row(example_id: str, text: str = "A", candidate: str = "big") -> bytes:
    return json.dumps({"example_id": example_id, "candidate_name": candidate, "response_text": text}).encode() + b"\n"


def table(*rows: tuple[str, str, bytes]) -> ResponseLines:
    lines = ResponseLines(b"".join(line for _, _, line in rows))
    start = 0
    for number, (candidate, case_id, line) in enumerate(rows, 1):
        assert lines.add(candidate, case_id, start=start, number=number) == 0
        start += len(line)
    return lines


def test_every_row_of_many_is_found_and_no_other() -> None:
    lines = table(*(("big", f"r{n}", row(f"r{n}", f"answer {n}")) for n in range(3_000)))
    assert [lines.line("big", f"r{n}") for n in range(3_000)] == [row(f"r{n}", f"answer {n}")[:-1] for n in range(3_000)]
    assert [n for n in range(3_000, 9_000) if lines.line("big", f"r{n}") or lines.line("small", f"r{n - 3_000}")] == []


def test_the_same_record_of_another_candidate_is_another_row() -> None:
    lines = table(("big", "a", row("a", "one")), ("small", "a", row("a", "two", "small")))
    assert (lines.line("big", "a"), lines.line("small", "a")) == (row("a", "one")[:-1], row("a", "two", "small")[:-1])


def test_a_repeated_row_is_told_with_the_line_of_the_first() -> None:
    lines = table(("big", "a", row("a")), ("big", "b", row("b")))
    assert (lines.add("big", "b", start=0, number=7), lines.add("big", "a", start=0, number=8)) == (2, 1)


def test_a_row_with_half_a_character_is_found() -> None:
    line = b'{"example_id": "a\\ud800", "candidate_name": "big", "response_text": "x"}'
    assert table(("big", "a\ud800", line)).line("big", "a\ud800") == line


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"\n" * 5_000 + row("a", "here") + b"\n" * 5_000)
    assert load_responses(path).of("big").text_for("a") == "here"
