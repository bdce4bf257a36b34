"""What models are sent by a run: a stub provider answers as the candidate and as the judge, and keeps every request."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from assay.api.runs import run
from assay.testing import StubProvider, StubRequest

VERDICT = json.dumps({"score": 5, "justification": "Good.", "criteria_met": True, "explanation": "Good."})


class Sent(NamedTuple):
    """All texts of a run's requests, each request as one text."""

    candidate: list[str]
    judge: list[str]


def texts_sent(dataset: Path, folder: Path, **settings: Any) -> Sent:
    """Run a dataset with a stub as candidate and judge, and return what each of them was sent, in the order of the texts."""

    def answer(request: StubRequest) -> str:
        return VERDICT if _model(request) == "judge" else "The answer is 4."

    with StubProvider(answer) as stub:
        document = {
            "datasets": [str(dataset)],
            "candidates": ["stub/candidate"],
            "judges": ["stub/judge"],
            "providers": [{"name": "stub", "base_url": stub.base_url}],
            "run": {"runs_dir": str(folder / "runs"), "id": "sent", "concurrency": 1},
            **settings,
        }
        path = folder / "sent.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        run(path)
        requests = stub.requests
    of = {name: sorted(_text(request) for request in requests if _model(request) == name) for name in ("candidate", "judge")}
    return Sent(of["candidate"], of["judge"])


def _model(request: StubRequest) -> str:
    return str(request.body["model"])


def _text(request: StubRequest) -> str:
    return "\n".join(f"[{message['role']}]\n{message['content']}" for message in request.body["messages"])
