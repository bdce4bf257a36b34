"""The models that docs, examples and help name: replaced in all of them by one line of `models.toml`."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "docs" / "models.toml"
RECORDED = "recorded"
"""Line of the names that are never replaced."""
_FOLDERS = ("docs", "examples", "src")
_ENDINGS = frozenset({".md", ".py", ".html", ".yaml", ".yml", ".sh", ".json", ".jsonl", ".ipynb", ".txt"})
_HISTORY = ("docs/decisions/", "src/assay/schemas/", "docs/models.py")
"""Texts of their time, and what is generated otherwise."""
_MODEL = re.compile(
    r"(?<![\w.-])(?:gpt|claude|gemini|mistral|magistral|grok|deepseek|llama|qwen)-(?:[a-z0-9.]+-)*?[a-z]*\d(?:[\w.-]*\w)?(?![\w*-])"
    r"|(?<![\w.-])o\d-(?:mini|pro)\b"
)
"""Names of models with a version, which ends one day."""


def lines() -> dict[str, list[str]]:
    """The names by line, the current one first."""
    found: dict[str, list[str]] = tomllib.loads(NAMES.read_text("utf-8"))
    return found


def texts() -> Iterator[Path]:
    """Yield the files that may name a model."""
    yield ROOT / "README.md"
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in _ENDINGS and path.is_file() and not name.startswith(_HISTORY):
                yield path


def named(text: str) -> set[str]:
    """The models that a text names."""
    return {match[0] for match in _MODEL.finditer(text)}


def current(text: str) -> str:
    """A text with the current name of each model."""
    successors = {name: names[0] for line, names in lines().items() if line != RECORDED for name in names[1:]}
    return _MODEL.sub(lambda match: successors.get(match[0], match[0]), text)


def outdated() -> dict[Path, str]:
    """The files that name a former model, with what they ought to hold."""
    found = {path: path.read_text("utf-8") for path in texts()}
    return {path: current(text) for path, text in found.items() if current(text) != text}
