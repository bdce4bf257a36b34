"""A dataset in a real browser: dropped, validated with the places of its faults, priced, and run."""

import gzip
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.surfaces.pages.browsing import SETTLED, Visit, barriers
from tests.surfaces.server.serving import Serving, dataset

EXAMPLES = Path(__file__).parents[3] / "examples"
HOSTILE = "<script>alert(1)</script><img src=http://elsewhere.invalid/x onerror=alert(1)>\u202e"
SETTINGS = """\
requests_per_minute: 100000
max_bytes: 300000
models: [scripted/echo, openai/nobody, openai/gpt-4o-mini]
judges: [scripted/judge-4]
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that offers three candidates and one judge, and takes small files."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OPENAI_API_KEY", "a key that is never used")
        with Serving(tmp_path_factory.mktemp("validated"), settings=SETTINGS) as serving:
            yield serving


def validated(page: Page, file: Path) -> None:
    """Choose a file and wait for the report on it."""
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("button", name="Validate").click()
    expect(page.get_by_role("region", name="Result")).to_be_visible()


def written(path: Path, **members: Any) -> Path:
    path.write_text(json.dumps({**dataset(3), **members}), encoding="utf-8")
    return path


def test_the_report_lists_who_is_sent_open_fields(served: Serving, visit: Visit, tmp_path: Path) -> None:
    page = visit(served, "/validate").page
    record = {"record_id": "a", "input": {"prompt": "p", HOSTILE: "x"}, "reference": {"rubric": "r"}, "metadata": {"m": 1}}
    validated(page, written(tmp_path / "open.json", records=[record]))
    sent = page.get_by_role("region", name="Sent to models")
    expect(sent).to_contain_text("metadata (1 record)")
    expect(sent).to_contain_text("reference.rubric (1 record)")
    expect(sent).to_contain_text("<script>alert(1)</script>")


@pytest.mark.parametrize(
    ("file", "contract", "verdict"),
    [
        ("batch_v1/broken.json", "batch_v1", "accepted with record errors"),
        ("batch_v1/broken-syntax.json", "batch_v1", "rejected"),
        ("legal_eval_v1/contract-law.jsonl", "legal_eval_v1", "accepted"),
        ("golden_v1/broken.json", "golden_v1", "rejected"),
        ("conversation_v1/travel-agent.yaml", "conversation_v1", "accepted"),
    ],
)
def test_every_contract_is_recognised_and_judged(served: Serving, visit: Visit, file: str, contract: str, verdict: str) -> None:
    page = visit(served, "/validate").page
    validated(page, EXAMPLES / file)
    expect(page.get_by_role("region", name="Result")).to_contain_text(verdict, ignore_case=True)
    expect(page.locator(".keys")).to_contain_text(contract)


def test_a_fault_is_shown_with_its_place_in_the_file(served: Serving, visit: Visit) -> None:
    page = visit(served, "/validate").page
    validated(page, EXAMPLES / "batch_v1" / "broken.json")
    finding = page.locator(".finding").filter(has_text="expected.max_latency_ms is 0")
    expect(finding).to_contain_text("line 68, column 27")
    expect(finding.locator("mark")).to_have_text("0")
    expect(finding.locator(".excerpt")).to_have_text(re.compile(r"^\s*68"))


def test_a_report_fits_a_small_phone(served: Serving, visit: Visit) -> None:
    page = visit(served, "/validate", viewport={"width": 320, "height": 640}).page
    validated(page, EXAMPLES / "batch_v1" / "broken.json")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_look_alikes_are_counted_instead_of_listed(served: Serving, visit: Visit, tmp_path: Path) -> None:
    page = visit(served, "/validate").page
    records = [{"record_id": f"q{number}", "input": {"prompt": 7}} for number in range(50)]
    validated(page, written(tmp_path / "alike.json", records=[*records, *dataset(1)["records"]]))
    expect(page.locator(".finding")).to_have_count(3)
    expect(page.get_by_text("… and 47 more like this")).to_be_visible()


def test_the_box_for_golden_sizes_is_small_and_next_to_its_label(served: Serving, visit: Visit) -> None:
    page = visit(served, "/validate").page
    box = page.get_by_role("checkbox", name="Accept golden datasets with fewer than 5 or more than 20 cases")
    label, contract = page.locator("label.tick span"), page.locator("select[name=contract]")
    ticked, words, above = box.bounding_box(), label.bounding_box(), contract.bounding_box()
    assert ticked is not None
    assert words is not None
    assert above is not None
    assert max(ticked["width"], ticked["height"]) < above["height"] / 2
    assert abs(ticked["x"] - above["x"]) < 1
    assert words["x"] - (ticked["x"] + ticked["width"]) < ticked["width"]


def test_a_file_that_is_dropped_is_validated(served: Serving, visit: Visit) -> None:
    page = visit(served, "/validate").page
    page.evaluate(
        """text => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], "dropped.json"));
          document.querySelector("form[data-drop]").dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true}));
        }""",
        json.dumps(dataset(3)),
    )
    expect(page.get_by_role("heading", name="dropped.json")).to_be_visible()
    expect(page.get_by_role("region", name="Result")).to_contain_text("All 3 records")


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(served: Serving, visit: Visit, tmp_path: Path) -> None:
    page = visit(served, "/validate").page
    page.locator("input[type=file]").set_input_files(written(tmp_path / "large.json", metadata={"note": "x" * 400_000}))
    expect(page.get_by_role("alert")).to_contain_text("too large: this server takes up to 293.0 KB")
    page.get_by_role("button", name="Validate").click()
    assert page.locator("input[type=file]").evaluate("field => field.validationMessage") == "too large"
    assert page.url.endswith("/validate")


@pytest.mark.parametrize("name", ["large.json", "bomb.json.gz"])
def test_a_file_that_is_too_large_is_told_so_without_a_script(served: Serving, visit: Visit, tmp_path: Path, name: str) -> None:
    text = json.dumps({**dataset(3), "metadata": {"note": "x" * 400_000}}).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    kept = served.left_over()
    visitor = visit(served, "/validate", java_script_enabled=False)
    visitor.page.locator("input[type=file]").set_input_files(path)
    visitor.page.get_by_role("button", name="Validate").click()
    visitor.expect_status(413)
    alert = visitor.page.get_by_role("alert").first
    expect(alert).to_contain_text("exceeds 300,000 bytes")
    expect(alert).to_contain_text("Split the file")
    assert served.left_over() == kept


def test_what_is_no_dataset_is_told_which_endings_are(served: Serving, visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    visitor = visit(served, "/validate", java_script_enabled=False)
    visitor.page.locator("input[type=file]").set_input_files(tmp_path / "notes.txt")
    visitor.page.get_by_role("button", name="Validate").click()
    visitor.expect_status(415)
    expect(visitor.page.get_by_role("alert").first).to_contain_text("must end in .json, .jsonl")


def test_a_packed_file_is_unpacked(served: Serving, visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(json.dumps(dataset(3)).encode()))
    page = visit(served, "/validate").page
    validated(page, tmp_path / "packed.json.gz")
    expect(page.get_by_role("region", name="Result")).to_contain_text("All 3 records")


def test_the_cost_is_told_before_the_run_and_no_price_is_invented(served: Serving, visit: Visit, tmp_path: Path) -> None:
    pytest.importorskip("genai_prices")
    page = visit(served, "/validate").page
    validated(page, written(tmp_path / "sums.json"))
    page.locator("[name=model]").select_option("openai/gpt-4o-mini")
    page.get_by_role("button", name="Estimate the cost").click()
    page.wait_for_url("**model=openai%2Fgpt-4o-mini*")
    expect(page.locator(".cost")).to_contain_text("Estimated cost about $0.00")
    page.locator("[name=model]").select_option("openai/nobody")
    page.get_by_role("button", name="Estimate the cost").click()
    page.wait_for_url("**model=openai%2Fnobody*")
    expect(page.locator(".cost")).to_contain_text("unknown for 6 calls: no price is listed for openai/nobody")
    expect(page.get_by_role("row", name="openai/nobody")).to_contain_text("unknown price")


def test_notes_on_the_run_name_the_file_as_its_owner_does(served: Serving, visit: Visit) -> None:
    page = visit(served, "/validate").page
    validated(page, EXAMPLES / "batch_v1" / "broken.json")
    expect(page.locator("#estimate")).to_contain_text("see: assay validate broken.json.")
    assert str(served.runs_dir) not in page.content()


def test_a_run_is_started_from_the_report(served: Serving, visit: Visit, tmp_path: Path) -> None:
    page = visit(served, "/validate").page
    validated(page, written(tmp_path / "sums.json"))
    page.locator("[name=model]").select_option("scripted/echo")
    page.locator("[name=limit]").fill("2")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url("**/runs/run_*")
    run = served.ended(page.url.rsplit("/", 1)[1])
    assert (run["model"], run["counts"]["evaluated_records"], run["state"]) == ("scripted/echo", 2, "completed")


def test_a_run_that_is_started_several_times_at_once_is_one(served: Serving) -> None:
    own = {"Origin": f"http://127.0.0.1:{served.port}"}
    part = f'--x\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n\r\n{json.dumps(dataset(2))}\r\n--x--\r\n'
    sent = served.ask("POST", "/validate", part.encode(), {**own, "Content-Type": "multipart/form-data; boundary=x"})
    address, form = f"{sent.headers['location']}/run", {**own, "Content-Type": "application/x-www-form-urlencoded"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: served.ask("POST", address, b"model=scripted/echo", form), range(4)))
    run_id = address.split("/")[2]
    assert {(answer.status, answer.headers.get("location")) for answer in answers} == {(303, f"/runs/{run_id}")}
    entries = served.ask("GET", "/v1/audit?limit=1000").json["entries"]
    assert [entry["action"] for entry in entries if entry.get("run_id") == run_id].count("run_submitted") == 1


def test_settings_that_make_no_run_are_told_and_stay_in_the_form(served: Serving, visit: Visit) -> None:
    visitor = visit(served, "/validate")
    validated(visitor.page, EXAMPLES / "legal_eval_v1" / "broken.jsonl")
    visitor.page.locator("[name=limit]").fill("7")
    visitor.page.get_by_role("button", name="Start the run").click()
    visitor.expect_status(400)
    expect(visitor.page.get_by_role("alert")).to_contain_text("invalid records")
    expect(visitor.page.locator("[name=limit]")).to_have_value("7")
    visitor.page.locator("[name=on_invalid]").select_option("skip")
    visitor.page.get_by_role("button", name="Start the run").click()
    visitor.page.wait_for_url("**/runs/run_*")


def test_a_model_that_the_operator_does_not_offer_cannot_be_sent(served: Serving, visit: Visit, tmp_path: Path) -> None:
    visitor = visit(served, "/validate")
    validated(visitor.page, written(tmp_path / "sums.json"))
    visitor.page.evaluate("document.querySelector('[name=model]').append(new Option('x', 'openai/other', true, true))")
    visitor.page.get_by_role("button", name="Start the run").click()
    visitor.expect_status(403)
    expect(visitor.page.get_by_role("alert")).to_contain_text("the model 'openai/other' is not offered here")


def test_hostile_names_and_values_are_text(served: Serving, visit: Visit, tmp_path: Path) -> None:
    visitor = visit(served, "/validate")
    record = {"record_id": HOSTILE, "input": {"prompt": HOSTILE}, HOSTILE: HOSTILE}
    validated(visitor.page, written(tmp_path / "<b>bold.json", records=[record, *dataset(1)["records"]]))
    expect(visitor.page.locator(".finding").first).to_contain_text("<script>alert(1)</script>")
    expect(visitor.page.locator(SETTLED)).to_be_attached()
    assert visitor.page.locator("main img, main script, main b:has-text('bold')").count() == 0


def test_an_upload_that_is_gone_says_so(served: Serving, visit: Visit) -> None:
    visitor = visit(served, "/validate/run_nobody")
    visitor.expect_status(404)
    assert "is stored for an hour" in visitor.page.locator("main").inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_keeps_anybody_from_validating(served: Serving, visit: Visit, theme: str) -> None:
    page = visit(served, "/validate", color_scheme=theme, viewport={"width": 380, "height": 800}).page
    assert barriers(page) == []
    validated(page, EXAMPLES / "batch_v1" / "broken.json")
    expect(page.locator(".cost")).to_be_visible()
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
