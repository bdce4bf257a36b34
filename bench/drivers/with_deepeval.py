"""The same job with DeepEval, which asks no candidate: the OpenAI SDK does, then a GEval metric judges; its results go to FOLDER.

`python with_deepeval.py DATASET BASE_URL CONCURRENCY FOLDER`
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

_, DATASET, BASE_URL, CONCURRENCY, FOLDER = sys.argv
os.environ.update(
    DEEPEVAL_TELEMETRY_OPT_OUT="1", DEEPEVAL_UPDATE_WARNING_OPT_OUT="1", DEEPEVAL_DISABLE_DOTENV="1", ERROR_REPORTING="0"
)
# It writes to the folder that it is started in.
os.chdir(FOLDER)

import uvloop  # noqa: E402  # the settings above are read when deepeval is imported
from deepeval import evaluate  # noqa: E402
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig  # noqa: E402
from deepeval.metrics import GEval  # noqa: E402
from deepeval.models import OpenAIModel  # noqa: E402
from deepeval.test_case import LLMTestCase, SingleTurnParams  # noqa: E402
from openai import AsyncOpenAI, DefaultAioHttpClient  # noqa: E402


async def answers(prompts: list[str]) -> list[str]:
    """What the candidate says to each prompt, so many asked at once."""
    found = [""] * len(prompts)
    numbers = iter(range(len(prompts)))
    async with AsyncOpenAI(api_key="bench", base_url=BASE_URL, http_client=DefaultAioHttpClient()) as client:

        async def work() -> None:
            for number in numbers:
                message: Any = {"role": "user", "content": prompts[number]}
                reply = await client.chat.completions.create(model="bench-candidate", messages=[message], temperature=0.0)
                found[number] = reply.choices[0].message.content or ""

        await asyncio.gather(*(work() for _ in range(int(CONCURRENCY))))
    return found


def main() -> None:
    """Run, and say so when not everything was judged."""
    records = json.loads(Path(DATASET).read_bytes())["records"]
    prompts = [record["input"]["prompt"] for record in records]
    cases = [
        LLMTestCase(input=prompt, actual_output=answer)
        for prompt, answer in zip(prompts, uvloop.run(answers(prompts)), strict=True)
    ]
    judge = OpenAIModel(
        model="bench-judge",
        api_key="bench",
        base_url=BASE_URL,
        cost_per_input_token=0,
        cost_per_output_token=0,
        # Otherwise it makes a client, with a connection of its own, for every call.
        async_http_client=DefaultAioHttpClient(),
    )
    metric = GEval(
        name="correct",
        model=judge,
        evaluation_steps=[f"The answer agrees with: {records[0]['reference']['answer']}"],
        evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT],
    )
    result = evaluate(
        cases,
        [metric],
        async_config=AsyncConfig(max_concurrent=int(CONCURRENCY)),
        # Its cache is written anew after every case.
        cache_config=CacheConfig(write_cache=False),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False, results_folder="results"),
    )
    judged = [each for each in result.test_results if each.metrics_data and each.metrics_data[0].score is not None]
    if len(judged) != len(records):
        sys.exit(f"{len(judged)} of {len(records)} cases have a result")


if __name__ == "__main__":
    main()
