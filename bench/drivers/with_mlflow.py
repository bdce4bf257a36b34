"""The same job with MLflow: `genai.evaluate` over a call of the OpenAI SDK and a judge, into a new SQLite store in FOLDER.

`python with_mlflow.py DATASET BASE_URL CONCURRENCY FOLDER`
"""

import json
import os
import sys
from pathlib import Path

_, DATASET, BASE_URL, CONCURRENCY, FOLDER = sys.argv
os.environ.update(
    MLFLOW_TRACKING_URI=f"sqlite:///{Path(FOLDER).absolute()}/mlflow.db",
    MLFLOW_DISABLE_TELEMETRY="true",
    DO_NOT_TRACK="true",
    LITELLM_LOCAL_MODEL_COST_MAP="True",
    OPENAI_API_KEY="bench",
    OPENAI_BASE_URL=BASE_URL,
    MLFLOW_GENAI_EVAL_MAX_WORKERS=CONCURRENCY,
    MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT="0",
    MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT="0",
    MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION="true",
    # Otherwise more results are missing at the end.
    MLFLOW_ENABLE_ASYNC_TRACE_LOGGING="false",
    # With fewer connections to the store than threads, those wait for each other, half a minute at a time.
    MLFLOW_SQLALCHEMYSTORE_POOL_SIZE=str(4 * int(CONCURRENCY)),
    MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW=CONCURRENCY,
)
# It writes to the folder that it is started in.
os.chdir(FOLDER)

import mlflow  # noqa: E402  # it reads its settings when it is imported
from mlflow.genai.judges import make_judge  # noqa: E402
from openai import OpenAI  # noqa: E402


def main() -> None:
    """Run, and print how many cases have a result: with many threads it loses some of them without a word."""
    records = json.loads(Path(DATASET).read_bytes())["records"]
    client = OpenAI(api_key="bench", base_url=BASE_URL)

    def predict(question: str) -> str:
        reply = client.chat.completions.create(
            model="bench-candidate", messages=[{"role": "user", "content": question}], temperature=0.0
        )
        return reply.choices[0].message.content or ""

    rubric = f"Score from 1 to 5 how well the answer agrees with: {records[0]['reference']['answer']}"
    judge = make_judge(
        name="correct",
        model="openai:/bench-judge",
        base_url=BASE_URL,
        feedback_value_type=int,
        instructions=f"{rubric}\nQuestion: {{{{ inputs }}}}\nAnswer: {{{{ outputs }}}}",
    )
    mlflow.set_experiment("bench")
    rows = [{"inputs": {"question": record["input"]["prompt"]}} for record in records]
    result = mlflow.genai.evaluate(data=rows, predict_fn=predict, scorers=[judge])
    print(result.result_df["correct/value"].notna().sum())


if __name__ == "__main__":
    main()
