"""Addresses of PostgreSQL: a password is kept nowhere and repeated by no message, wherever somebody has put it."""

import pytest

from assay.core.errors import UsageProblem
from assay.integrations.postgres.connection import address_without_password, shown_address

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
