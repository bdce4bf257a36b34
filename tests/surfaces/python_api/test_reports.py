"""Reports of validation that show themselves."""

from pathlib import Path

import assay
from assay import api
from tests.engine.graded_runs import question
from tests.surfaces.python_api.test_runs import HOSTILE

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_report_shows_every_issue_with_its_place_and_what_is_meant() -> None:
    report = assay.validate(EXAMPLES / "golden_v1" / "broken.json")
    html = report._repr_html_()  # type: ignore[attr-defined]
    assert html.count("<tr><td>") == len(report.issues)
    assert "<td>6:13</td>" in html
    assert '<code class="pointed">&#34;Unit_Conversion&#34;</code>' in html
    assert repr(report).endswith("golden_v1 rejected: 0 of 6 records accepted, 8 errors>")


def test_a_report_of_a_hostile_file_is_text() -> None:
    row = {**question("q"), HOSTILE: HOSTILE, "task_type": HOSTILE}
    html = assay.validate([row])._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;script&gt;alert(1)" in html
    assert not [bad for bad in ("<script", "<img", "\u202e") if bad in html]


def test_a_report_that_shows_itself_has_all_that_a_report_has() -> None:
    source = EXAMPLES / "legal_eval_v1" / "contract-law.jsonl"
    shown, plain = assay.validate(source), api.validate(source)
    assert shown.to_dict() == plain.to_dict()
    assert [case.id for case in shown.cases] == [case.id for case in plain.cases]
    assert list(shown.hashes) == list(plain.hashes)
    assert shown.head == plain.head
