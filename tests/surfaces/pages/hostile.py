"""Runs in which everything that others can write is hostile: dataset, file name, models, answers, verdicts, errors, labels."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from assay import api
from tests.crash.job import write_job
from tests.crash.provider import Answer, CountingProvider, completion, error
from tests.surfaces.pages.browsing import HOSTILE, aside

MEGABYTE = "w\u0336ord<b>" * 120_000
"""One line without a space."""
FORGED = "\r\nassay: error: FORGED\nFORGED 200 GET /runs\r"
EVIL = " ".join((*HOSTILE, "\x7f\x9b2J\u2028\u2029\u200f", "<!--", "]]>", "<iframe src=//evil.example>", "W" * 400, FORGED))
"""Every trick in one text."""
SAID = f"{EVIL} \x00 \ud800"
"""What a provider may say on top of it: datasets refuse both."""
RUNS = ("x", "y")


def build(folder: Path) -> list[str]:
    """Two runs over the same hostile dataset; the pieces of output that commands made of them."""
    with CountingProvider(answered) as provider:
        (folder / "sub").mkdir(parents=True)
        for run_id in RUNS:
            write_job(folder, provider.base_url, records=1, **members())
            (folder / DATASET).write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
            (folder / TALK).write_text(json.dumps(turns()), encoding="utf-8")
            said = assay(
                folder,
                "run",
                "run.json",
                "--run-id",
                run_id,
                "--group",
                "both",
                "--runs-dir",
                "runs",
                "--verbose",
                "--on-invalid",
                "skip",
            )
    run = api.open_run("x", runs_dir=folder / "runs")
    opinion = api.LabelInput(rater=EVIL[:100], passed=True, score=1.0, note=EVIL[:4000])
    aside(api.keep_label, run, next(line.index for line in run.predictions() if line.passed is not None), opinion)
    return [said, *(assay(folder, *words, "--runs-dir", "runs") for words in COMMANDS)]


def hostile_card(runs_dir: Path) -> str:
    """The id of a judge's card whose every text is hostile."""
    card = aside(api.probe, api.ProbeRequest(judge="scripted/judge-gullible"))
    probes = tuple(msgspec.structs.replace(probe, words=EVIL, expectation=EVIL) for probe in card.probes)
    texts = {"judge": EVIL, "candidate": EVIL, "source": EVIL, "parameters": {EVIL: EVIL}, "templates": {EVIL: EVIL}}
    api.keep_card(msgspec.structs.replace(card, probes=probes, **texts), runs_dir)
    return api.kept_cards(runs_dir).cards[0].id


COMMANDS = (("runs",), ("show", "x"), ("show", "x", "-v"), ("compare", "x", "y"), ("report", "x"), ("trend",))
DATASET = '"><img src=x onerror=hacked=1> \u202e\x1b[31m.jsonl'
TALK = "<script>hacked=1<\u2215script>.json"


def assay(folder: Path, *words: str) -> str:
    """What a command says on both streams."""
    done = subprocess.run([sys.executable, "-m", "assay", *words], cwd=folder, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode()


def members() -> dict[str, Any]:
    """The run file: models with names that nobody should trust."""
    return {
        "datasets": [DATASET, TALK],
        "candidates": [{"model": "stub/candidate", "name": f"candidate {EVIL}"}],
        "judges": [{"model": "stub/judge", "name": f"judge {EVIL}"}],
        "run": {"keep_raw": True, "system_prompt": EVIL},
        "slices": ["tags", "metadata.source", "dataset"],
    }


def rows() -> list[dict[str, Any]]:
    """Rows of legal_eval_v1 of each task, a conversation before one, and two that break the contract."""
    same = {"schema_version": "legal_eval_v1", "dataset": f"law {EVIL}", "metadata": {"source": EVIL, EVIL: [EVIL]}}
    rubric = [{"id": f"c1 {EVIL}", "title": EVIL, "description": EVIL, "weight": 2}, {"id": "c2", "title": EVIL}]
    open_row = {**same, "task_type": "rubric_qa", "context": EVIL, "rubric": rubric}
    messages = [{"role": "user", "content": EVIL}, {"role": "assistant", "content": EVIL}, {"role": "user", "content": "[case m]"}]
    choices = [{"id": EVIL, "text": EVIL}, {"id": "B", "text": EVIL}]
    return [
        {**open_row, "id": f"rubric {EVIL}", "prompt": f"[case a] {EVIL}"},
        {**open_row, "id": f"long {EVIL}", "prompt": f"[case long] {EVIL}", "reference_answers": [EVIL, EVIL]},
        {**open_row, "id": f"refused {EVIL}", "prompt": f"[case refused] {EVIL}"},
        {**open_row, "id": f"mumbled {EVIL}", "prompt": f"[case mumbled] {EVIL}"},
        {**same, "id": EVIL, "task_type": "reference_qa", "prompt": f"[case r] {EVIL}", "reference_answers": [EVIL]},
        {
            **same,
            "id": f"mcq {EVIL}",
            "task_type": "mcq",
            "prompt": f"[case c] {EVIL}",
            "choices": choices,
            "correct_choice_ids": [EVIL],
        },
        {**open_row, "id": f"talk {EVIL}", "prompt": "[case m]", "messages": messages},
        {**same, "id": f"broken {EVIL}", "task_type": EVIL, "prompt": SAID, EVIL: EVIL},
        {**same, "id": f"empty {EVIL}", "task_type": "mcq", "prompt": "", "rubric": EVIL},
    ]


def turns() -> list[dict[str, Any]]:
    """A recorded conversation whose tool gives back markup."""
    tool = {"tool_used": EVIL, "tool_input": {EVIL: EVIL}, "tool_output": [EVIL, {EVIL: EVIL}]}
    return [
        {"turn_id": 1, "speaker": "user", "message": f"[case t] {EVIL}"},
        {"turn_id": 2, "speaker": "assistant", "assistant_reply": EVIL, "metadata": {EVIL: EVIL}, **tool},
    ]


def answered(model: str, case: str, time: int) -> Answer:
    """What a hostile provider says: its models, its errors and its request ids lie too."""
    headers = {"x-request-id": "<img src=x onerror=hacked=1>"}
    if case == "refused":
        return 400, error(SAID, kind=EVIL), headers
    # The second run asks the same again, and is told that nothing is right: every record flips.
    is_first = time <= (1 if case == "r" else 2)
    words = {"justification": SAID, "explanation": SAID, "label": EVIL}
    verdict = json.dumps({"score": int(is_first), "criteria_met": is_first, **words})
    is_judge, is_mumbled = model.startswith("judge"), case == "mumbled"
    # Said once, a megabyte stands in several places of its record: in an answer, and in what a judge says that is no verdict.
    is_long = is_mumbled and time == 1 if is_judge else case == "long"
    said = MEGABYTE if is_long else verdict if is_judge and not is_mumbled else f"{time} {SAID}"
    return 200, completion(f"{model} {EVIL}", said), headers
