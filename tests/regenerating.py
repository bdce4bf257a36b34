"""Files that tests compare with what the code makes: with the variable set they are written, for people to read the difference."""

import os
from pathlib import Path

REGENERATE = "ASSAY_REGENERATE"


def is_regenerating() -> bool:
    """Whether the files are to be written first."""
    return bool(os.environ.get(REGENERATE))


def check_file(path: Path, made: str) -> None:
    """A kept file holds what the code makes."""
    if is_regenerating():
        path.write_text(made, encoding="utf-8", newline="")
    assert made == path.read_bytes().decode(), f"{REGENERATE}=1 rewrites {path.name}"
