"""Judge cards beside the runs."""

import re
from pathlib import Path

from assay.core.judge_card import JudgeCard
from assay.store.files import keep_card, read_cards


def card(judge: str, at: str) -> JudgeCard:
    return JudgeCard(
        judge=judge,
        verdict="pass",
        probes=(),
        source="shipped",
        source_sha256="",
        records=0,
        repeats=3,
        seed=0,
        parameters={},
        templates={},
        created_at=at,
        product_version="1",
        calls=0,
        failed_calls=0,
        cost=0.0,
        unknown_costs=0,
    )


def test_the_newest_card_comes_first(tmp_path: Path) -> None:
    keep_card(tmp_path, card("one", "2026-01-01T00:00:00Z"))
    keep_card(tmp_path, card("two", "2026-02-01T00:00:00Z"))
    assert [kept.card.judge for kept in read_cards(tmp_path).cards] == ["two", "one"]


def test_any_name_of_a_judge_is_a_file_of_this_folder(tmp_path: Path) -> None:
    name = keep_card(tmp_path, card("../../etc/päss wd", "2026-01-01T00:00:00Z"))
    assert re.fullmatch(r"20260101T000000Z-etc-p-ss-wd-[0-9a-f]{6}", name)
    assert read_cards(tmp_path).cards[0].id == name


def test_a_damaged_card_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    keep_card(tmp_path, card("one", "2026-01-01T00:00:00Z"))
    (tmp_path / ".judges" / "torn.json").write_bytes(b"{")
    found = read_cards(tmp_path)
    assert (len(found.cards), found.damaged) == (1, ("torn.json",))
