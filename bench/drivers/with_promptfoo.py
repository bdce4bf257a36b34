"""The same job with promptfoo: its OpenAI provider and an `llm-rubric`; its database and results.json go to FOLDER.

`python with_promptfoo.py DATASET BASE_URL CONCURRENCY FOLDER MODULES` writes the settings and becomes the node of MODULES.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def settings(records: list[Any], base_url: str) -> dict[str, Any]:
    """What its command is given."""

    def provider(model: str) -> dict[str, Any]:
        return {"id": f"openai:chat:{model}", "config": {"apiBaseUrl": base_url, "apiKey": "bench", "temperature": 0}}

    rubric = f"The answer agrees with: {records[0]['reference']['answer']}"
    judged = {"assert": [{"type": "llm-rubric", "value": rubric}], "options": {"provider": provider("bench-judge")}}
    return {
        "prompts": ["{{question}}"],
        "providers": [provider("bench-candidate")],
        "defaultTest": judged,
        "tests": [{"vars": {"question": record["input"]["prompt"]}} for record in records],
    }


def main(dataset: str, base_url: str, concurrency: str, folder: str, modules: str) -> None:
    """Run with everything off that would be kept, sent or shown."""
    given = Path(folder, "given", "promptfooconfig.json").absolute()
    given.parent.mkdir()
    given.write_text(json.dumps(settings(json.loads(Path(dataset).read_bytes())["records"], base_url)), encoding="utf-8")
    quiet = ("TELEMETRY", "UPDATE", "REMOTE_GENERATION", "SHARING", "ERROR_LOG", "DEBUG_LOG")
    environ = {f"PROMPTFOO_DISABLE_{name}": "true" for name in quiet}
    environ |= {
        "PROMPTFOO_CONFIG_DIR": str(Path(folder).absolute()),
        "PROMPTFOO_CACHE_ENABLED": "false",
        "CI": "1",
        "LOG_LEVEL": "warn",
    }
    command = [Path(modules, "node", "bin", "node"), Path(modules, "promptfoo", "dist", "src", "entrypoint.js")]
    options = ["--no-cache", "--no-progress-bar", "--no-table", "--no-share", "-j", concurrency, "-o", "results.json"]
    os.chdir(folder)
    words = [*map(str, command), "eval", "-c", str(given), *options]
    os.execve(command[0], words, {**os.environ, **environ})  # noqa: S606  # what a child has spent is unknown when it is stopped


if __name__ == "__main__":
    main(*sys.argv[1:])
