"""Nothing but the calls: aiohttp, uvloop and orjson, and a line in a file for every case. What a run must at least cost.

`python bare_loop.py DATASET BASE_URL CONCURRENCY FOLDER SHAPE`: SHAPE holds the request bodies that assay sends for one case, with
`<<prompt>>`, `<<reference>>` and `<<answer>>` where its texts stood, so that both send the same number of bytes.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import orjson
import uvloop

Body = dict[str, Any]


def filled(shape: Body, texts: dict[str, str]) -> bytes:
    """The request for one case."""
    messages = []
    for message in shape["messages"]:
        content = message["content"]
        for name, text in texts.items():
            content = content.replace(f"<<{name}>>", text)
        messages.append({**message, "content": content})
    return orjson.dumps({**shape, "messages": messages})


async def ask_all(records: Iterator[Any], shapes: dict[str, Body], results: BinaryIO, *, url: str, concurrency: int) -> None:
    """Ask the candidate, then the judge, for every record; so many at once."""
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector, headers={"Content-Type": "application/json"}) as session:

        async def asked(body: bytes) -> Any:
            async with session.post(url, data=body) as response:
                response.raise_for_status()
                return orjson.loads(await response.read())

        async def work() -> None:
            for record in records:
                texts = {"prompt": record["input"]["prompt"], "reference": record["reference"]["answer"]}
                first = await asked(filled(shapes["candidate"], texts))
                texts["answer"] = first["choices"][0]["message"]["content"]
                second = await asked(filled(shapes["judge"], texts))
                verdict = orjson.loads(second["choices"][0]["message"]["content"])
                line = {"id": record["record_id"], **texts, **verdict, "usage": [first["usage"], second["usage"]]}
                results.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

        await asyncio.gather(*(work() for _ in range(concurrency)))


def main(dataset: str, base_url: str, concurrency: str, folder: str, shape: str) -> None:
    """The whole job."""
    records = iter(orjson.loads(Path(dataset).read_bytes())["records"])
    shapes = orjson.loads(Path(shape).read_bytes())
    with Path(folder, "results.jsonl").open("wb") as results:
        uvloop.run(ask_all(records, shapes, results, url=f"{base_url}/chat/completions", concurrency=int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
