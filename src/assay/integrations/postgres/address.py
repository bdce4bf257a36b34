"""Addresses of PostgreSQL: parsed, checked, and without secrets. No message quotes one, since it may hold a mistyped password."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from assay.core.errors import UsageProblem

SECRETS = ("password", "sslpassword", "oauth_client_secret")
"""Connection parameters that must not be stored."""
_EXAMPLE = "an address looks like postgresql://user@host:5432/database"
_ESCAPE = "a sign of a password that is no letter or digit is written as %XX, such as %2F for a slash"


def shown_address(address: str) -> str:
    """Return host and database of an address, for messages; user and password are left out."""
    try:
        known = parameters_of(address)
    except UsageProblem:
        return "an address that cannot be read"
    hosts, ports = known.get("host", "localhost").split(","), known.get("port", "5432").split(",")
    locations = [f"{host}:{ports[min(number, len(ports) - 1)]}" for number, host in enumerate(hosts)]
    return f"postgresql://{','.join(locations)}/{known.get('dbname', '')}"


def parameters_of(address: str) -> dict[str, str]:
    """Parse an address into libpq's parameters; raises UsageProblem for an invalid one."""
    try:
        known = {name: str(value) for name, value in conninfo_to_dict(address).items() if value}
    except psycopg.ProgrammingError:
        # The library would quote the address, and with it a password.
        raise UsageProblem("this is no address of PostgreSQL", hint=_EXAMPLE) from None
    # In a URL, an unescaped slash ends the password: the rest of it would be taken for the database's name.
    if not all(port.isdigit() for port in known.get("port", "").split(",") if port) or "@" in known.get("dbname", ""):
        raise UsageProblem("the address of the ledger cannot be read", hint=_ESCAPE)
    return known


def address_without_password(address: str) -> str:
    """Return the address as it may be stored; raises UsageProblem for an invalid one, or when its secret cannot be removed."""
    if not any(name in parameters_of(address) for name in SECRETS):
        return address
    try:
        parts = urlsplit(address)
    except ValueError:
        raise UsageProblem("the address of the ledger cannot be read", hint=_ESCAPE) from None
    user, _, locations = parts.netloc.rpartition("@")
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in SECRETS]
    netloc = f"{user.partition(':')[0]}@{locations}" if user else locations
    stored = urlunsplit(parts._replace(netloc=netloc, query=urlencode(query)))
    if any(name in parameters_of(stored) for name in SECRETS):
        raise UsageProblem("the password of the ledger stands where it cannot be left out", hint=_EXAMPLE)
    return stored
