"""Validation takes at most 200 MB of memory and twice the size of the file, whatever the file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.datasets.test_scaling import FLOODS

MB = 1_000_000
BASE = 200
"""MB of a process that validates, besides twice the size of the file."""
SIZE = 2 * MB
NAMES = (
    *("batch-keys", "batch-unknown-keys", "batch-metadata-of-the-document", "batch-duplicate-ids"),
    *("batch-records-with-lone-surrogates", "record-nested-metadata", "record-tags", "record-lone-surrogates"),
    *("legal-unknown-fields", "legal-attachments", "legal-choices", "legal-duplicate-criteria"),
    *("golden-tags", "golden-unknown-fields", "turns-that-are-numbers", "turns-on-lines-that-are-not-json"),
    *("turn-nested-objects", "turn-unknown-fields", "yaml-brackets", "yaml-unknown-fields"),
)
CHILD = """
import pathlib, re, sys
from assay.surfaces.cli.program import program
try:
    program(["validate", sys.argv[1], "--contract", sys.argv[2], "--format", "json", "--max-issues", "0"])
except SystemExit as end:
    code = end.code
# Not getrusage: after a fork it starts from the peak of the parent.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)
print(code, peak, file=sys.stderr)
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_flood_of_two_megabytes_stays_below_the_limit(tmp_path: Path, name: str) -> None:
    flood = FLOODS[name]
    count = SIZE // (len(flood.element) + len(flood.separator))
    path = tmp_path / f"flood.{'yaml' if name.startswith('yaml') else 'jsonl' if 'lines' in name else 'json'}"
    path.write_text(flood.text(count), encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", CHILD, str(path), flood.contract], capture_output=True, check=True)
    code, peak = map(int, ended.stderr.split()[-2:])
    (file,) = json.loads(ended.stdout)["files"]
    listed = sum(len(file[kind]) for kind in ("dataset_errors", "record_errors", "warnings"))
    assert (code, listed > 0) == (0 if file["outcome"] == "accepted" else 1, True)
    assert peak / 1024 < BASE + 2 * path.stat().st_size / MB
