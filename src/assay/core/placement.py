"""Where runs are kept and worked on; no part of their plans, since it changes no result."""

import msgspec

RUNS_DIR = "runs"
"""The folder of the runs, unless another one is named."""


class TemporalServer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Temporal server whose workers work on runs, and how it is reached; nothing in it is a secret."""

    address: str
    """`host:port`."""
    namespace: str = "default"
    task_queue: str = "assay"
    tls: bool = False
    """Encrypt the connection; a certificate or a key says so too."""
    server_ca: str = ""
    """File of the certificate that signs the server's; empty for those that the machine trusts."""
    server_name: str = ""
    """The name in the server's certificate, where it is not the host's."""
    client_certificate: str = ""
    """File of the certificate that the server knows us by (mTLS)."""
    client_key: str = ""
    """File of the key of that certificate."""
    api_key_variable: str = ""
    """Name of the environment variable that holds the API key."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where new runs are kept and worked on: on this machine, unless it says otherwise."""

    ledger: str = ""
    """Address of a PostgreSQL that keeps the ledgers of runs; each has a file of its own without one."""
    store: str = ""
    """Address in an object store, such as s3://bucket/runs, where artifacts are published too before a run counts as ended."""
    temporal: TemporalServer | None = None
    """Whose workers evaluate the records; None evaluates them in this process."""


HERE = Placement()
