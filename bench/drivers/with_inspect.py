"""The same job with Inspect AI: generate, then a model grades; its log goes to FOLDER.

`python with_inspect.py DATASET BASE_URL CONCURRENCY FOLDER`
"""

import json
import os
import sys
from pathlib import Path

_, DATASET, BASE_URL, CONCURRENCY, FOLDER = sys.argv
os.environ.update(
    BENCH_API_KEY="bench", BENCH_BASE_URL=BASE_URL, INSPECT_DISPLAY="none", XDG_DATA_HOME=str(Path(FOLDER, "state").absolute())
)

from inspect_ai import Task, eval  # noqa: A004, E402  # its name; it reads its settings when it is imported
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.model import GenerateConfig, get_model  # noqa: E402
from inspect_ai.scorer import model_graded_qa  # noqa: E402
from inspect_ai.solver import generate  # noqa: E402


def main() -> None:
    """Run, and say so when not everything was scored."""
    records = json.loads(Path(DATASET).read_bytes())["records"]
    samples = [
        Sample(id=record["record_id"], input=record["input"]["prompt"], target=record["reference"]["answer"]) for record in records
    ]
    calls = int(CONCURRENCY)
    judge = get_model("openai-api/bench/bench-judge", config=GenerateConfig(max_connections=calls, temperature=0.0))
    (log,) = eval(
        Task(dataset=MemoryDataset(samples), solver=generate(), scorer=model_graded_qa(model=judge)),
        model="openai-api/bench/bench-candidate",
        temperature=0.0,
        max_connections=calls,
        max_samples=calls,
        display="none",
        log_dir=FOLDER,
        log_level="warning",
        # What a live view shows and nobody looks at here: a copy of each sample in a database, and running scores.
        log_realtime=False,
        score_display=False,
    )
    if log.status != "success" or log.results is None or log.results.completed_samples != len(records):
        sys.exit(f"{log.status}: {log.error}")


if __name__ == "__main__":
    main()
