"""Errors of the disk and of the database, each as one clear line."""

from pathlib import Path

import pytest

from assay.core.errors import StoreUnavailable
from assay.store.sqlite import create_ledger, open_ledger
from tests.store.samples import done, full_disk, new_ledger, run_python

FULL_DISK = """
import resource, sys
from pathlib import Path
from assay.core.errors import StoreUnavailable
from assay.store.sqlite import open_ledger
from tests.store.samples import rows
ledger = open_ledger(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
try:
    ledger.replace_records(rows(20_000))
except StoreUnavailable as problem:
    print(ledger.counts(), problem.message.count("\\n"), problem.hint != "")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(ledger.replace_records(rows(20_000)))
"""


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="Not a directory") as problem:
        create_ledger(tmp_path / "file" / "ledger", plan=b"{}", plan_sha256="ab", at=1.0)
    assert problem.value.hint


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(b"not a database, but long enough to be taken for one" * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database") as problem:
        open_ledger(tmp_path / "ledger")
    assert "damaged" in problem.value.hint


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    new_ledger(tmp_path, records=500).close()
    content = path.read_bytes()
    path.write_bytes(content[:8192] + b"\xff" * (len(content) - 8192))
    ledger = open_ledger(path)
    with pytest.raises(StoreUnavailable, match="malformed"):
        list(ledger.finished())
    with pytest.raises(StoreUnavailable, match="malformed"):
        ledger.run()
    ledger.close()


def test_an_append_on_a_full_disk_is_all_or_nothing(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path)
    claim = ledger.claim(0, owner="a")
    with full_disk(), pytest.raises(StoreUnavailable, match="cannot use"):
        ledger.append(claim, [done(0), done(1)])
    assert ledger.counts() == {"open": 3}
    ledger.append(claim, [done(0), done(1)])
    assert ledger.counts() == {"evaluated": 2, "open": 1}
    ledger.close()


def test_a_full_disk_changes_nothing_and_the_same_call_works_later(tmp_path: Path) -> None:
    new_ledger(tmp_path).close()
    assert run_python(FULL_DISK, str(tmp_path / "ledger.sqlite")).splitlines() == ["{'open': 3} 0 True", "20000"]
