"""A real PostgreSQL of one's own on loopback, which tests may stop, kill and start again."""

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
import pytest

from assay.integrations.postgres import PostgresLedger, PostgresLedgers
from tests.surfaces.server.serving import free_port

INSTALL = "no PostgreSQL: install Debian's postgresql, or put initdb and pg_ctl on the path"
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs; skips the test without it, but never where tests must not be skipped."""
    path = os.pathsep.join([*map(str, _PLACES), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(INSTALL)
    return str(Path(found).resolve())


class Database:
    """A cluster in a folder, run by an ordinary user: PostgreSQL refuses to be run by root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self._as = _ordinary_user()
        if self._as:
            shutil.chown(folder, "postgres", "postgres")
        self._call("initdb", "-D", str(folder / "cluster"), "-U", "assay", "-A", "trust", "--no-sync")
        self.start()

    @property
    def address(self) -> str:
        return f"postgresql://assay@127.0.0.1:{self.port}/postgres"

    def another(self) -> str:
        """The address of a new database of the same server, in which no test has left anything."""
        name = f"assay_{uuid4().hex}"
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address.replace("/postgres", f"/{name}")

    def start(self) -> None:
        # What was written survives the server without fsync, and only the machine could lose it.
        options = f"-p {self.port} -c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        self._control("start", "-w", "-o", options, "-l", str(self.folder / "log"))

    def restart_at_once(self) -> None:
        """As after a power cut."""
        self._control("stop", "-m", "immediate", "-w")
        self.start()

    def stop(self) -> None:
        self._control("stop", "-m", "immediate", "-w")

    def kill(self) -> None:
        """kill -9 of the server; the next start recovers."""
        pid = int((self.folder / "cluster" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 60
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.02)

    def _control(self, *arguments: str) -> None:
        self._call("pg_ctl", "-D", str(self.folder / "cluster"), *arguments)

    def _call(self, name: str, *arguments: str) -> None:
        with (self.folder / "calls").open("ab") as log:
            subprocess.run(
                [*self._as, program(name), *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                check=True,
                timeout=120,
            )


def _ordinary_user() -> tuple[str, ...]:
    """What to put before a command so that root runs it as the user that Debian's package has made."""
    if os.geteuid() != 0:
        return ()
    account = pwd.getpwnam("postgres")
    return ("setpriv", "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups")


@contextmanager
def running_database() -> Iterator[Database]:
    """A new one, in a folder of its own: another user could not reach those of pytest."""
    program("initdb")
    with TemporaryDirectory(prefix="assay-postgres-") as folder:
        database = Database(Path(folder))
        try:
            yield database
        finally:
            database.stop()


@contextmanager
def run_in(database: Database) -> Iterator[PostgresLedger]:
    """A run of its own in a database that others may use too."""
    runs = PostgresLedgers(database.address)
    ledger = runs.create(uuid4().hex, plan=b"{}", plan_sha256="ab", at=1.0)
    yield ledger
    ledger.close()
    runs.close()
