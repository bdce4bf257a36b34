"""Which checks of promptfoo came to no verdict; tests/integrations/importers/test_honesty.py has what a run makes of them."""

from assay.integrations.importers.promptfoo_verdicts import first_line, without_verdict


def test_checks_without_a_verdict_are_found_in_groups_too() -> None:
    broken = {"reason": "API error: 500\nmore", "assertion": {"type": "llm-rubric", "metric": "tone"}}
    group = {"reason": "1 of 2 failed", "assertion": {"type": "assert-set"}, "componentResults": [broken]}
    told = {"reason": "whatever", "assertion": {"type": "pi"}, "metadata": {"graderError": True}}
    assert list(without_verdict([group, told])) == [("tone", "API error: 500"), ("", "whatever")]


def test_a_reason_that_looks_like_an_error_counts_only_where_a_judge_was_asked() -> None:
    assert list(without_verdict([{"reason": "Error: no", "assertion": {"type": "contains"}}])) == []


def test_a_reason_is_its_first_line() -> None:
    assert (first_line("a\nb"), first_line(None)) == ("a", "")
