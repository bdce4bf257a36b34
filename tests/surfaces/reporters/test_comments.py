"""Runs as comments on pull requests: what others wrote stays text."""

import msgspec
import pytest

from assay.presentation.run_report import RunReport
from assay.surfaces.reporters.comments import run_markdown
from assay.surfaces.reporters.markdown import inert
from tests.surfaces.cli.test_run_reports import PLAIN
from tests.surfaces.conftest import Snapshot
from tests.surfaces.run_views import (
    golden_view,
    hostile_view,
    manifest,
    other_view,
    result,
    unfinished_view,
)


def test_the_comment_on_several_candidates_matches_its_golden_file(snapshot: Snapshot) -> None:
    views = [golden_view(), other_view(), unfinished_view()]
    snapshot("run.md", "".join(run_markdown(views, PLAIN, waiting=["huge"], folder="..")))


def test_the_comment_on_hostile_text_matches_its_golden_file(snapshot: Snapshot) -> None:
    snapshot("run-hostile.md", "".join(run_markdown([hostile_view()], PLAIN)))


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("ask @octocat, a@b.example", "ask @&#8203;octocat, a@&#8203;b.example"),
        ("fixes #12, GH-12, !7", "fixes #&#8203;12, GH-&#8203;12, !&#8203;7"),
        ("see https://x.example or www.x.example", "see https:&#8203;//x.example or www&#8203;.x.example"),
        ("[a](javascript:b) ![c](d)", r"\[a\](javascript:b) !\[c\](d)"),
        ("a | b\n\n# c", r"a \| b # c"),
        ("<img src=x> &lt; `code` <!--", r"&lt;img src=x&gt; &amp;lt; \`code\` &lt;!--"),
    ],
)
def test_what_a_model_says_is_no_markup_mention_reference_or_address(said: str, written: str) -> None:
    assert inert(said) == written


def test_a_comment_without_gates_or_failures_says_so() -> None:
    counts = msgspec.structs.replace(golden_view().result.counts, failed_records=0, invalid_records=0)
    plain = RunReport(result=result("r", counts=counts), manifest=manifest(gates={}))
    text = "".join(run_markdown([plain], PLAIN))
    assert text.startswith("## Evaluation: no gates\n\n- **no gates** · small: ")
    assert "<details>" not in text
