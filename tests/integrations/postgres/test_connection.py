"""Addresses of PostgreSQL: a password is kept nowhere and repeated by no message, wherever somebody has put it."""

import pytest

from assay.core.errors import StoreUnavailable, UsageProblem
from assay.integrations.postgres import PostgresLedgers
from assay.integrations.postgres.connection import ReconnectingConnection, address_without_password, connect, shown_address
from tests.store.databases import Database

SECRET = "hush1hush"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        (f"postgresql://u:{SECRET}@h:5433/db", "postgresql://u@h:5433/db"),
        (f"postgresql://u:{SECRET}@h/db?password={SECRET}&sslmode=require", "postgresql://u@h/db?sslmode=require"),
        (f"postgresql://u@h/db?sslpassword={SECRET}", "postgresql://u@h/db"),
        (f"postgresql://h/db?user=u&password={SECRET}", "postgresql://h/db?user=u"),
    ],
)
def test_an_address_is_kept_without_its_secrets(given: str, kept: str) -> None:
    assert address_without_password(given) == kept


@pytest.mark.parametrize(
    "given",
    [
        f"postgres+psycopg://u:{SECRET}@h/db",
        f" postgresql://u:{SECRET}@h/db",
        f"postgresql://u:{SECRET} x@h/db",
        f"postgresql://u:{SECRET}%zz@h/db",
        f"postgresql://u:{SECRET}/x@h/db",
        f"postgresql://u:12/{SECRET}@h/db",
        f"postgresql://u:[{SECRET}@h/db",
        f"host=h password={SECRET}",
    ],
)
def test_what_cannot_be_kept_is_refused_and_not_repeated(given: str) -> None:
    with pytest.raises(UsageProblem) as refused:
        address_without_password(given)
    assert SECRET not in f"{refused.value.message} {refused.value.hint}"
    assert SECRET not in shown_address(given)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    link = ReconnectingConnection("postgresql://assay:hush-hush@127.0.0.1:1/runs", patience=0.2)
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/runs") as problem:
        link.transact(lambda _: None)
    assert "hush" not in problem.value.message
    assert "PostgreSQL runs" in problem.value.hint


def test_a_database_that_is_not_there_is_said_at_once(database: Database) -> None:
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        PostgresLedgers(database.address.replace("/postgres", "/nowhere"))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@db.example:5433/runs", "postgresql://db.example:5433/runs"),
        ("postgresql:///runs", "postgresql://localhost:5432/runs"),
        ("postgresql://me:secret@one:1,two:2/runs", "postgresql://one:1,two:2/runs"),
        ("host=db.example user=me password=secret", "postgresql://db.example:5432/"),
        ("postgresql://[broken", "an address that cannot be read"),
    ],
)
def test_an_address_is_shown_without_who_uses_it(address: str, shown: str) -> None:
    assert shown_address(address) == shown


@pytest.mark.parametrize(("query", "expected"), [("", "12000"), ("?tcp_user_timeout=3000", "3000")])
def test_a_connection_that_is_cut_off_without_a_word_is_given_up(database: Database, query: str, expected: str) -> None:
    with connect(database.address + query) as connection:
        said = connection.info.get_parameters()
    assert (said["tcp_user_timeout"], said["keepalives_idle"]) == (expected, "5")
