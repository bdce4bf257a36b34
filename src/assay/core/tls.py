"""TLS of our own connections: which certificate authorities are trusted."""

import os
import ssl
from pathlib import Path

from assay.core.errors import UsageProblem

BUNDLE_VARIABLE = "REQUESTS_CA_BUNDLE"
"""A file or folder of certificate authorities, as many Python programs accept; OpenSSL itself does not read it."""
FILE_VARIABLE, FOLDER_VARIABLE = "SSL_CERT_FILE", "SSL_CERT_DIR"
"""Variables that OpenSSL reads itself; the authorities of the bundle are trusted in addition."""


def client_context() -> ssl.SSLContext:
    """Return the TLS settings of a client: trusted authorities, and host names that must match; raises UsageProblem.

    The authorities are those of SSL_CERT_FILE, REQUESTS_CA_BUNDLE and SSL_CERT_DIR together, or the machine's.
    """
    bundle = os.environ.get(BUNDLE_VARIABLE, "")
    if not bundle:
        # Without the variable, OpenSSL reads SSL_CERT_FILE and SSL_CERT_DIR itself.
        return ssl.create_default_context()
    try:
        is_folder = Path(bundle).is_dir()
        context = ssl.create_default_context(capath=bundle if is_folder else None, cafile=None if is_folder else bundle)
    except OSError as problem:
        # SSLError is a subclass of OSError: the file holds no certificate.
        reason = "it holds no certificate" if isinstance(problem, ssl.SSLError) else (problem.strerror or str(problem)).lower()
        raise UsageProblem(
            f"{BUNDLE_VARIABLE} is '{bundle}', which cannot be used: {reason}",
            hint="name a file of certificates in PEM format or a folder of them, or unset the variable",
        ) from problem
    # A context with explicit authorities does not load those that OpenSSL reads from the environment.
    if os.environ.get(FILE_VARIABLE):
        context.set_default_verify_paths()
    elif os.environ.get(FOLDER_VARIABLE):
        context.load_verify_locations(capath=os.environ[FOLDER_VARIABLE])
    return context


def bundle_problem() -> UsageProblem | None:
    """Return why the authorities of REQUESTS_CA_BUNDLE cannot be used; None when they can, or none are set."""
    try:
        # Asked when an endpoint is checked, so that a broken bundle is one clear line and not a failed handshake in every record.
        client_context()
    except UsageProblem as problem:
        return problem
    return None
