"""Storage and execution backend of runs; not part of their plans, since it changes no result."""

import msgspec

RUNS_DIR = "runs"
"""Default folder of the runs."""


class TemporalServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Connection to the Temporal server whose workers execute runs; holds no secrets."""

    address: str
    """`host:port`."""
    namespace: str = "default"
    task_queue: str = "assay"
    tls: bool = False
    """Encrypt the connection; implied by a certificate or a key."""
    server_ca: str = ""
    """File with the CA of the server's certificate; empty for those that the machine trusts."""
    server_name: str = ""
    """Name in the server's certificate, if it is not the host's."""
    client_certificate: str = ""
    """File with our client certificate (mTLS)."""
    client_key: str = ""
    """File with the key of that certificate."""
    api_key_variable: str = ""
    """Environment variable that holds the API key."""


class RunBackend(msgspec.Struct, frozen=True, kw_only=True):
    """Where new runs are stored and executed: on this machine by default."""

    ledger: str = ""
    """Address of a PostgreSQL for the ledgers of runs; without one, each ledger is a file."""
    store: str = ""
    """Address in an object store, such as s3://bucket/runs, where artifacts must be published before a run ends."""
    temporal: TemporalServer | None = None
    """The server whose workers evaluate the records; None evaluates them in this process."""


LOCAL_BACKEND = RunBackend()
