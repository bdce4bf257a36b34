"""Every dataset-level conformance vector through the public API: those of the repository, and a folder that ASSAY_VECTORS names."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import SUFFIXES, Vector, content_of, differences, expanded, outcome_of, read_vectors

OWN = Path(__file__).parents[1] / "vectors"
FOLDER = Path(os.environ.get("ASSAY_VECTORS", "/nonexistent"))
CPU_SECONDS = {"light": 2, "heavy": 20}


def cases(folder: Path) -> list[Any]:
    return [pytest.param(vector, id=f"{vector['contract']}/{vector['id']}") for vector in read_vectors(folder)]


@pytest.mark.parametrize("vector", cases(OWN) + cases(FOLDER))
def test_the_bytes_of_a_vector_have_the_expected_outcome(vector: Vector) -> None:
    content = content_of(vector["input"])
    start = time.process_time()
    assert differences(outcome_of(vector, content), vector) == []
    assert time.process_time() - start < CPU_SECONDS[vector["cost"]]


@pytest.mark.parametrize("vector", [case for case in cases(OWN) + cases(FOLDER) if case.values[0]["cost"] == "light"])
def test_the_file_of_a_vector_has_the_expected_outcome(vector: Vector, tmp_path: Path) -> None:
    path = tmp_path / f"vector{SUFFIXES.get(vector['input']['kind'], '.json')}"
    path.write_bytes(content_of(vector["input"]))
    assert differences(outcome_of(vector, path), vector) == []


@pytest.mark.skipif(not FOLDER.is_dir(), reason="ASSAY_VECTORS names no folder")
def test_the_folder_of_vectors_is_not_empty() -> None:
    assert len(cases(FOLDER)) > 100


@pytest.mark.parametrize("contract", ["batch_v1", "conversation_v1", "golden_v1", "legal_eval_v1"])
def test_every_contract_has_vectors_of_our_own(contract: str) -> None:
    assert len([vector for vector in read_vectors(OWN) if vector["contract"] == contract]) > 0


@pytest.mark.parametrize(
    "expected",
    [
        {"outcome": "valid"},
        {"outcome": "invalid", "http_status": 400},
        {"outcome": "invalid", "summary": {"total_records": 3}},
        {"outcome": "invalid", "errors": []},
        {"outcome": "invalid", "errors": [{"name": "Empty message", "path": "[1].message"}]},
        {"outcome": "invalid", "errors": [{"name": "Empty message"}, {"name": "Message too long"}]},
        {"outcome": "invalid", "errors": [{"name": "Message too long"}], "report": "name_only"},
        {"outcome": "invalid", "errors": [{"name": {"any_of": ["Missing message"]}}]},
        {"outcome": "invalid", "errors": [{"path": {"any_of": ["[1]"], "or_prefix": "[1]."}}]},
        {"outcome": "invalid", "min_rejected_rows": 2},
    ],
)
def test_an_answer_that_differs_is_noticed(expected: dict[str, Any]) -> None:
    error = {"turn_index": 0, "name": "Empty message", "path": "[0].message", "code": "value_out_of_range"}
    actual = {"outcome": "invalid", "summary": {"total_records": 2}, "errors": [error], "rejected_rows": 1}
    assert differences(actual, {"expected": expected}) != []
    assert differences(actual, {"expected": expected, "alternatives": [{"outcome": "invalid"}]}) == []


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ({"$repeat": {"text": "ab", "times": 3}}, "ababab"),
        ({"$list": {"times": 2, "item": {"id": {"$fmt": "q_%03d"}}}}, [{"id": "q_000"}, {"id": "q_001"}]),
        ({"$concat": [[1], {"$list": {"times": 2, "item": 0}}]}, [1, 0, 0]),
        ({"$nest": {"containers": 3, "kind": "object", "leaf": 1}}, {"k": {"k": {"k": 1}}}),
        ({"$nest": {"containers": 2, "kind": "array", "leaf": []}}, [[[]]]),
        ({"$fill": {"object": {"a": {"$filler": True}}, "bytes": 12}}, {"a": "xxxx"}),
    ],
)
def test_generators_make_the_described_values(document: Any, value: Any) -> None:
    assert expanded(document) == value


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ({"kind": "json", "document": {"a": "é"}, "pad_payload_to": 15, "prefix_hex": "efbbbf"}, b'\xef\xbb\xbf{"a":"\xc3\xa9"}  '),
        ({"kind": "text", "text": "é", "encoding": "latin-1"}, b"\xe9"),
        ({"kind": "base64", "data": "AP8="}, b"\x00\xff"),
        ({"kind": "concat", "parts": [{"text": "a"}, {"hex": "00"}, {"repeat": "b", "times": 3}]}, b"a\x00bbb"),
        ({"kind": "jsonl", "rows": [{"$list": {"times": 2, "item": 1}}], "spread": True}, b"1\n1\n"),
        ({"kind": "http", "body": {"kind": "json", "document": []}}, b"[]"),
    ],
)
def test_inputs_make_the_described_bytes(source: Any, content: bytes) -> None:
    assert content_of(source) == content
