"""The same job with pydantic-evals: its task is a call of the OpenAI SDK, its evaluator an LLMJudge; the report goes to FOLDER.

`python with_pydantic_evals.py DATASET BASE_URL CONCURRENCY FOLDER`
"""

import json
import sys
from pathlib import Path
from typing import Any

import uvloop
from openai import AsyncOpenAI, DefaultAioHttpClient
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import LLMJudge
from pydantic_evals.reporting import EvaluationReportAdapter


async def judged(records: list[Any], *, base_url: str, concurrency: int) -> Any:
    """The report on all records."""
    client = AsyncOpenAI(api_key="bench", base_url=base_url, http_client=DefaultAioHttpClient())
    judge = OpenAIChatModel("bench-judge", provider=OpenAIProvider(openai_client=client))

    async def answer(prompt: str) -> str:
        reply = await client.chat.completions.create(
            model="bench-candidate", messages=[{"role": "user", "content": prompt}], temperature=0.0
        )
        return reply.choices[0].message.content or ""

    rubric = f"The answer agrees with: {records[0]['reference']['answer']}"
    cases = [Case(name=record["record_id"], inputs=record["input"]["prompt"]) for record in records]
    dataset = Dataset(name="bench", cases=cases, evaluators=[LLMJudge(rubric=rubric, model=judge, include_input=True)])
    return await dataset.evaluate(answer, max_concurrency=concurrency, progress=False)


def main(dataset: str, base_url: str, concurrency: str, folder: str) -> None:
    """Run, and say so when not everything was judged."""
    records = json.loads(Path(dataset).read_bytes())["records"]
    report = uvloop.run(judged(records, base_url=base_url, concurrency=int(concurrency)))
    if len(report.cases) != len(records) or not all(each.assertions for each in report.cases):
        sys.exit(f"{len(report.cases)} of {len(records)} cases have a result")
    Path(folder, "report.json").write_bytes(EvaluationReportAdapter.dump_json(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
