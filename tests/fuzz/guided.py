"""`python -m tests.fuzz.guided json|yaml [libFuzzer options]`: coverage-guided inputs for a door, with atheris."""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["assay"]):
    from assay import ValidationConfig
    from tests.fuzz.targets import TARGETS, fixtures

MAX_SEED = 4096
"""Bytes of a shipped dataset that is small enough to mutate."""


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    door = sys.argv[1]
    corpus = Path(tempfile.mkdtemp(prefix="assay-fuzz-"))
    for number, content in enumerate(fixtures(door)):
        if len(content) <= MAX_SEED:
            (corpus / str(number)).write_bytes(content)
    config = ValidationConfig()
    atheris.Setup([sys.argv[0], str(corpus), *sys.argv[2:]], lambda content: TARGETS[door](content, config))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
