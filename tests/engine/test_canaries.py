"""A thousand secrets and personal numbers go through a run from all sides, and none of them is in anything that stays."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.crash.job import write_job
from tests.crash.provider import Answer, CountingProvider, completion, error
from tests.store.canaries import CANARIES, CONTEXTS, variants

RECORDS = 100
EMPLOYEES = [f"EMP-{number:05d}" for number in range(RECORDS)]
"""What only a custom rule of the run file recognises."""
KEY = "tk-Zq81LmW0vRk3TnB7yHs5"
HEADER = "hk-Pw42XcV9dFj6GmQ1aKe8"


class Planted(msgspec.Struct):
    """Texts with secrets in them, and the secrets."""

    secrets: dict[str, str] = {}
    """Each with the name of its kind."""

    def text(self, place: int) -> str:
        """A text with a secret that is nowhere else."""
        chance = random.Random(place)
        name = list(CANARIES)[place % len(CANARIES)]
        text, secret = CANARIES[name](chance)
        assert secret not in self.secrets
        self.secrets[secret] = name
        return CONTEXTS[place % len(CONTEXTS)](text)

    def name(self) -> str:
        """An address that is nowhere else, where no more than a name fits."""
        secret = f"person{len(self.secrets)}.doe@mail{len(self.secrets)}.example.org"
        self.secrets[secret] = "name"
        return secret


def dataset(planted: Planted) -> dict[str, Any]:
    head = {"schema_version": "1.0", "dataset_id": "canaries", "created_at": "2026-01-01T00:00:00Z"}
    head |= {"dataset_version": planted.name(), "metadata": {"owner": planted.name()}, planted.name(): "unknown"}
    return {**head, "records": [record(number, planted) for number in range(RECORDS)]}


def record(number: int, planted: Planted) -> dict[str, Any]:
    def text(place: int) -> str:
        return planted.text(place * RECORDS + number)

    return {
        "record_id": " ".join(f"r{number} {text(0)}".split())[:128],
        "input": {"prompt": f"[case {number}] {text(1)}", "history": [{"role": "user", "content": text(2)}]},
        "reference": {"answer": text(3)},
        "expected": {"required_criteria": ["overall"]},
        "metadata": {"note": text(4), "more": [text(5)], "clerk": EMPLOYEES[number]},
    }


class Provider:
    """Answers, judges, fails and names its requests, each time with another secret."""

    def __init__(self, planted: Planted) -> None:
        self.texts = {
            (model, str(number)): [planted.text((place + turn) * RECORDS + number) for turn in range(2)]
            for model, place in (("candidate", 6), ("judge", 8))
            for number in range(RECORDS)
        }

    def __call__(self, model: str, case: str, time: int) -> Answer:
        model, _, _ = model.partition(":")
        said, named = self.texts[model, case]
        headers = {"x-request-id": named.replace("\n", " ").encode("latin-1", "replace").decode("latin-1")}
        number = int(case)
        if model == "candidate" and number % 5 == 1:
            return 400, error(f"refused: {said}", kind="invalid_request_error"), headers
        if model == "candidate" and number % 5 == 2 and time == 1:
            return 503, error(f"key {KEY}, header {HEADER}, {named}"), headers
        answer = f"{said} [case {case}] with {KEY} for {EMPLOYEES[number]}"
        body = completion(said if number % 7 == 0 else model, verdict(said, number) if model == "judge" else answer)
        return 200, body, headers


def named_model(role: str, planted: Planted) -> dict[str, Any]:
    """A model with a secret in each of its texts."""
    body = {"user": planted.name(), planted.name(): [planted.name()]}
    return {"model": f"stub/{role}:{planted.name()}", "name": f"{role} of {planted.name()}", "extra_body": body}


def verdict(said: str, number: int) -> str:
    return f"nothing but {said}" if number % 9 == 0 else json.dumps({"score": number % 5 + 1, "justification": said, "label": ""})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Planted, Path, str]:
    """What was planted, the folder of all runs, and everything that was said on both streams."""
    folder, planted = tmp_path_factory.mktemp("canaries"), Planted()
    with CountingProvider(Provider(planted)) as provider:
        stub = {
            "name": "stub",
            "base_url": provider.base_url,
            "key_variable": "STUB_KEY",
            "headers": {"X-Team-Key": "$STUB_HEADER"},
        }
        section = {"concurrency": 8, "keep_raw": True, "system_prompt": planted.text(10 * RECORDS)}
        models = {f"{role}s": [named_model(role, planted)] for role in ("candidate", "judge")}
        path = folder / f"{planted.name()}.json"
        rules = [{"name": "employee", "pattern": r"EMP-\d{5}"}]
        members = {
            "redact": rules,
            "cache": {"folder": "cache"},
            "datasets": [path.name],
            "providers": [stub],
            "run": section,
            "slices": ["tags", "metadata.note"],
            **models,
        }
        write_job(folder, provider.base_url, records=1, **members)
        path.write_text(json.dumps(dataset(planted)))
        command = [sys.executable, "-m", "assay", "run", "run.json", "--run-id", "x", "--runs-dir", "runs", "--verbose"]
        environ = {"STUB_KEY": KEY, "STUB_HEADER": HEADER}
        done = subprocess.run(command, cwd=folder, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
        shown = subprocess.run(
            [sys.executable, "-m", "assay", "show", "x"], cwd=folder, capture_output=True, text=True, check=False
        )
    assert (done.returncode, shown.returncode) == (0, 0), done.stderr
    return planted, folder / "runs", done.stdout + done.stderr + shown.stdout


def leaks(planted: Planted, content: str) -> Counter[str]:
    """Secrets in a text by their kind."""
    return Counter(name for secret, name in planted.secrets.items() if any(form in content for form in variants(secret)))


def test_a_thousand_secrets_are_planted(run: tuple[Planted, Path, str]) -> None:
    assert len(run[0].secrets) >= 1_000


def test_no_file_of_a_sealed_run_holds_a_secret(run: tuple[Planted, Path, str]) -> None:
    planted, runs, _ = run
    files = [path for path in runs.rglob("*") if path.is_file()]
    found = {path.name: leaks(planted, path.read_text()) for path in files}
    assert {name: dict(kinds) for name, kinds in found.items() if kinds} == {}
    assert [path.name for path in files if holds_own_secret(path.read_text())] == []


def holds_own_secret(content: str) -> bool:
    return any(secret in content for secret in (KEY, HEADER, *EMPLOYEES))


def test_the_reply_cache_holds_no_secret(run: tuple[Planted, Path, str]) -> None:
    planted, runs, _ = run
    files = [path for path in (runs.parent / "cache").iterdir() if path.is_file()]
    assert [path.name for path in files] == ["replies.sqlite"]
    contents = files[0].read_bytes().decode("utf-8", "replace")
    assert (leaks(planted, contents), holds_own_secret(contents)) == (Counter(), False)


def test_a_reply_that_is_not_cached_is_flagged(run: tuple[Planted, Path, str]) -> None:
    lines = (run[1] / "x" / "attempt_logs.jsonl").read_text().splitlines()
    flags = Counter(flag for line in lines for flag in json.loads(line).get("flags", ()))
    assert flags["not_cached"] >= RECORDS / 2


def test_nothing_that_a_run_says_holds_a_secret(run: tuple[Planted, Path, str]) -> None:
    planted, _, said = run
    # Progress calls files and models by the names that the run file gives them.
    assert set(leaks(planted, said)) <= {"name"}
    assert not holds_own_secret(said)


def test_only_the_sealed_artifacts_are_left(run: tuple[Planted, Path, str]) -> None:
    assert {path.parent.name for path in run[1].rglob("*") if path.is_file()} == {"x"}


def test_the_manifest_counts_what_was_redacted_by_rule(run: tuple[Planted, Path, str]) -> None:
    counts = json.loads((run[1] / "x" / "run_manifest.json").read_text())["redactions"]
    assert sum(counts.values()) >= 1_000
    assert len(counts) > 10
    assert counts["employee"] >= RECORDS
