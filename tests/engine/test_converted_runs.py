"""Runs over converted files: the candidate sees the choices, the judge the rubric and the key."""

import json
from pathlib import Path

from assay.api.datasets import convert_contract
from tests.datasets.converters.test_contracts import GOLDEN, LEGAL_ROWS
from tests.engine.run_settings import write_rows
from tests.sent_requests import Sent, texts_sent


def sent_after_conversion(source: Path, contract: str) -> Sent:
    converted = source.parent / "converted.json"
    converted.write_bytes(b"".join(convert_contract(source, source=contract, target="batch_v1").lines()))
    return texts_sent(converted, source.parent)


def test_a_converted_golden_file_is_graded_by_its_rubric(tmp_path: Path) -> None:
    source = tmp_path / "golden.json"
    source.write_text(json.dumps(GOLDEN), encoding="utf-8")
    sent = sent_after_conversion(source, "golden_v1")
    assert sent.candidate == [f"[user]\nMay I keep {number} cats?" for number in range(5)]
    assert all("grading begins]\nrubric:\nSays that the house rules decide.\n[" in text for text in sent.judge)
    assert not any("Asked by real tenants" in text for text in (*sent.candidate, *sent.judge))


def test_a_converted_legal_file_keeps_choices_key_rubric_references_and_conversation(tmp_path: Path) -> None:
    sent = sent_after_conversion(write_rows(tmp_path / "rows.jsonl", *LEGAL_ROWS), "legal_eval_v1")
    reference, conversation, choices = sent.candidate
    assert conversation == "[user]\nThe roof leaks.\n[user]\nAnd the window?"
    assert reference == "[user]\nSince when?"
    assert choices.startswith("[user]\nWho repairs the roof?\n\ncontext:\nThe lease is silent.\n\n")
    assert choices.endswith("choices:\nA. The owner\nB. The tenant")
    assert not any(word in choices for word in ("correct", "tenancy", "mcq", "exam 4"))
    by_task = {name: next(text for text in sent.judge if name in text) for name in ("Since when?", "the roof?", "the window?")}
    assert "choices:\nA. The owner\nB. The tenant" in by_task["the roof?"]
    assert "grading begins]\ncorrect_choice_ids:\nA\n[" in by_task["the roof?"]
    assert '"title": "Names the owner", "weight": -2' in by_task["the window?"]
    assert "answers:\n(1)\nSince 1911.\n\n(2)\nFrom 1911 on." in by_task["Since when?"]
