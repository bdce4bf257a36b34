"""Files of a service onto this disk: whole and checked, or not at all."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path

from assay.api.client.http_transport import UNEXPECTED
from assay.api.client.uploads import BLOCK
from assay.core.errors import RunSealed, ServerProblem
from assay.core.http_answers import Artifact
from assay.core.input_document import MANIFEST
from assay.engine.storage.run_id import check_run_id
from assay.store.failures import disk_errors
from assay.store.verify import verify_run

DIFFERENT = "different_content"
"""The code of a file that is not what the service says it is."""


def save(answer: HTTPResponse, target: Path, *, sha256: str = "") -> None:
    """The body of an answer as a file that appears when it is whole; raises ServerProblem when it has another hash."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    expected, hashed = answer.length, hashlib.sha256()
    try:
        with disk_errors(target):
            file = partial.open("xb")
        with file:
            while piece := answer.read(BLOCK):
                hashed.update(piece)
                with disk_errors(target):
                    file.write(piece)
            with disk_errors(target):
                file.flush()
        # A body that ends too early is no error for the reader of pieces.
        if expected and answer.length:
            raise IncompleteRead(b"", answer.length)
        if sha256 and hashed.hexdigest() != sha256:
            raise ServerProblem(f"'{target.name}' does not have the SHA-256 that the server names", code=DIFFERENT)
        with disk_errors(target):
            partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def publish(entries: Sequence[Artifact], run_id: str, runs_dir: Path, *, fetch: Callable[[str, Path], object]) -> Path:
    """All files of a run in their folder, which appears when all is verified; one that is there already must be the same."""
    target = runs_dir / check_run_id(run_id)
    with disk_errors(runs_dir, is_new=True):
        runs_dir.mkdir(parents=True, exist_ok=True)
    staging = runs_dir / f".download-{secrets.token_hex(8)}"
    with disk_errors(staging, is_new=True):
        staging.mkdir(mode=0o755)
    try:
        for entry in entries:
            _check_name(entry.name)
            fetch(entry.name, staging / entry.name)
            with disk_errors(staging):
                (staging / entry.name).chmod(0o444)
        if problems := verify_run(staging):
            raise ServerProblem(f"the files of run '{run_id}' are not as they were published: {problems[0]}", code=DIFFERENT)
        _move(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _check_name(name: str) -> None:
    """Raises ServerProblem for a name that leads out of the folder."""
    if not name or name.startswith(".") or name != os.path.basename(name) or "\\" in name:  # noqa: PTH119  # of a name, not a path
        raise ServerProblem(f"the server names a file {name!r}", code=UNEXPECTED)


def _move(staging: Path, target: Path) -> None:
    with disk_errors(target):
        try:
            staging.rename(target)
        except OSError:
            if not os.path.lexists(target):
                raise
            manifest = target / MANIFEST
            if not manifest.is_file() or manifest.read_bytes() != (staging / MANIFEST).read_bytes():
                raise RunSealed(f"'{target}' exists already, and is another run", hint="choose another --runs-dir") from None
