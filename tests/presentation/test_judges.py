"""Judges in words: the verdict of a card, what a probe found, and what the probing cost."""

import msgspec

from assay.core.judge_card import ProbeResult
from assay.presentation.judges import asked_text, card_verdict, failed_text, rate_text, slips_text
from tests.core.test_judge_card import card

PROBE = ProbeResult(id="length", verdict="warn", words="", expectation="", n=16, slips=3, rate=0.1875, low=0.066, high=0.43)
SILENT = ProbeResult(id="empty", verdict="not_tried", words="", expectation="", failed={"timeout": 2, "refused": 1})
CARD = card("judge", "2026-01-01T00:00:00Z")


def test_a_probe_says_how_many_slips_and_their_rate_with_its_interval() -> None:
    assert (slips_text(PROBE), rate_text(PROBE), failed_text(PROBE)) == ("3/16", "18.8 % [6.6 %, 43.0 %]", "-")


def test_a_probe_without_a_verdict_has_no_rate_and_says_why() -> None:
    assert (slips_text(SILENT), rate_text(SILENT), failed_text(SILENT)) == ("-", "-", "refused 1, timeout 2")


def test_a_judge_is_sound_only_as_far_as_it_was_probed() -> None:
    assert card_verdict(CARD) == "SOUND"
    assert card_verdict(msgspec.structs.replace(CARD, probes=(PROBE, SILENT))) == "SOUND, as far as tried (1 probe not)"


def test_a_card_says_what_was_asked_and_what_it_cost() -> None:
    found = msgspec.structs.replace(CARD, records=16, records_left_out=2, calls=272, failed_calls=3, cost=0.5, unknown_costs=4)
    assert asked_text(CARD) == "0 records of shipped questions · 0 calls · $0.00"
    assert asked_text(found) == (
        "16 records of shipped questions (2 left out) · 272 calls, 3 without a reply · $0.5000 · price unknown for 4 calls"
    )
