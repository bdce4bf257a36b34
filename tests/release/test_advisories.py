"""Lock files are held against advisories by a real pip-audit and a service on this machine that knows what it is told."""

import datetime
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("pip_audit")

from release.advisories import ACCEPTED, Audit, Finding, audit, count, not_proven_by, proven_by, refuse
from release.commands import ReleaseProblem

TODAY = datetime.date(2026, 11, 16)
OLD_HOLE = {"jinja2": "PYSEC-2019-217"}
LOCK = f"""\
click==8.5.1 \\
    --hash=sha256:{"0" * 64}
orjson==3.13.0 \\
    --hash=sha256:{"1" * 64}
"""
FOUND = Finding(package="click", version="8.5.1", ids=("PYSEC-2026-7", "CVE-2026-1"), fixed_in=("99.1",))


@contextmanager
def advisories(known: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A service in the manner of OSV that knows an advisory for each of these packages."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
            fixed = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}
            affected = {"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [fixed]}
            found = (
                [{"id": known[name], "aliases": ["CVE-2026-1"], "summary": "A hole.", "affected": [affected]}]
                if name in known
                else []
            )
            body = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"http://127.0.0.1:{server.server_port}/v1/query")
    yield
    server.shutdown()
    server.server_close()


def audit_locks(tmp_path: Path) -> Audit:
    """Two lock files that hold the same."""
    (tmp_path / "core.txt").write_text(LOCK, encoding="utf-8")
    (tmp_path / "dev.txt").write_text(LOCK, encoding="utf-8")
    return audit([tmp_path / "core.txt", tmp_path / "dev.txt"], today=TODAY)


def accept(folder: Path, **entry: object) -> Path:
    """A list with one accepted advisory."""
    lines = [f"{name} = {value if isinstance(value, datetime.date) else json.dumps(value)}" for name, value in entry.items()]
    (folder / "accepted.toml").write_text("\n".join(["[[accepted]]", *lines]), encoding="utf-8")
    return folder / "accepted.toml"


def test_locks_that_no_advisory_is_about_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with advisories(OLD_HOLE, monkeypatch):
        result = audit_locks(tmp_path)
    assert result == Audit(audited=2)
    assert proven_by(result) == ["No advisory is about any of the 2 locked packages, or it is accepted."]
    assert not_proven_by(result) == []


def test_a_locked_package_for_another_system_is_audited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dev.txt").write_text(LOCK.replace("click==8.5.1", "click==8.5.1 ; sys_platform == 'vms'"), encoding="utf-8")
    with advisories(OLD_HOLE | {"click": "PYSEC-2026-7"}, monkeypatch), pytest.raises(ReleaseProblem, match=r"click 8\.5\.1"):
        audit([tmp_path / "dev.txt"], today=TODAY)


def test_what_pip_audit_skips_is_not_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"https://example.org/own-1.0-py3-none-any.whl --hash=sha256:{'2' * 64}\n"
    (tmp_path / "core.txt").write_text(LOCK + address, encoding="utf-8")
    with advisories(OLD_HOLE, monkeypatch):
        result = audit([tmp_path / "core.txt"], today=TODAY)
    assert proven_by(result) == ["No advisory is about 2 of the 3 locked packages, or it is accepted."]
    assert not_proven_by(result)[1:] == ["  own"]


@pytest.mark.parametrize("found", [[], [{"name": name, "skip_reason": "Not found."} for name in ("click", "orjson")]])
def test_an_audit_of_no_locked_package_proves_nothing(found: list[dict[str, str]], tmp_path: Path) -> None:
    (tmp_path / "core.txt").write_text(LOCK, encoding="utf-8")
    result = count(found, [tmp_path / "core.txt"])
    assert result == Audit(skipped=("click 8.5.1", "orjson 3.13.0"))
    assert proven_by(result) == []
    assert not_proven_by(result)[1] == "  click 8.5.1, orjson 3.13.0"


def test_a_vulnerable_pin_ends_the_release_with_what_mends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with advisories(OLD_HOLE | {"click": "PYSEC-2026-7"}, monkeypatch), pytest.raises(ReleaseProblem) as problem:
        audit_locks(tmp_path)
    assert "  click 8.5.1: PYSEC-2026-7, CVE-2026-1; fixed in 99.1\n" in str(problem.value)


@pytest.mark.parametrize("name", ["PYSEC-2026-7", "CVE-2026-1"])
def test_an_advisory_may_be_accepted_under_any_of_its_names(name: str, tmp_path: Path) -> None:
    refuse([FOUND], accept(tmp_path, package="click", id=name, reason="Not called.", until=TODAY), today=TODAY)


@pytest.mark.parametrize(
    ("package", "until"),
    [("click", TODAY - datetime.timedelta(1)), ("orjson", TODAY)],
    ids=["its time is over", "it is for another package"],
)
def test_an_advisory_is_not_accepted_when(package: str, until: datetime.date, tmp_path: Path) -> None:
    accepted = accept(tmp_path, package=package, id="CVE-2026-1", reason="Not called.", until=until)
    with pytest.raises(ReleaseProblem, match="click"):
        refuse([FOUND], accepted, today=TODAY)


@pytest.mark.parametrize("lacking", [{"reason": "Not called."}, {"until": TODAY}, {"reason": "", "until": TODAY}])
def test_an_advisory_is_not_accepted_without_a_reason_and_a_date(lacking: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(ReleaseProblem, match="CVE-2026-1 needs a reason and a date"):
        refuse([FOUND], accept(tmp_path, package="click", id="CVE-2026-1", **lacking), today=TODAY)


def test_the_accepted_advisories_of_the_repository_have_reasons_and_dates() -> None:
    refuse([], ACCEPTED, today=TODAY)


def test_a_service_out_of_reach_is_told_and_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with advisories({}, monkeypatch):
        pass
    result = audit_locks(tmp_path)
    assert "ConnectionError" in result.reason
    assert proven_by(result) == []
    assert not_proven_by(result)[0].endswith("pip-audit could not be run, since no server answers.")


def test_a_service_that_knows_nothing_at_all_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with advisories({}, monkeypatch):
        result = audit_locks(tmp_path)
    assert result == Audit(reason="the service answers, and knows of nothing wrong with jinja2==2.4.1")


def test_a_lock_that_cannot_be_read_is_no_silence_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core.txt").write_text("click>=8\n", encoding="utf-8")
    with advisories(OLD_HOLE, monkeypatch), pytest.raises(ReleaseProblem, match="could not read the lock files"):
        audit([tmp_path / "core.txt"], today=TODAY)
