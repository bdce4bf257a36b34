"""Which certificate authorities are trusted, over real connections."""

import subprocess
from pathlib import Path

import pytest

from assay.models.endpoint import endpoint_problems
from tests.models.asking import plan_of, provider_of, reply_to
from tests.models.faulty_provider import (
    CERTIFICATE,
    faulty_provider,
    send,
)
from tests.models.test_connections import OK


def test_a_certificate_of_requests_ca_bundle_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    with faulty_provider(send(OK), tls=True) as url:
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


def test_a_folder_of_certificates_in_requests_ca_bundle_is_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = ["openssl", "x509", "-subject_hash", "-noout", "-in", str(CERTIFICATE)]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (tmp_path / f"{name}.0").write_bytes(CERTIFICATE.read_bytes())
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path))
    with faulty_provider(send(OK), tls=True) as url:
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


@pytest.mark.parametrize("named_by", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_ssl_cert_file_and_requests_ca_bundle_are_both_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named_by: str
) -> None:
    other = tmp_path / "other.pem"
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=another CA"]
    command = ["openssl", "req", "-x509", *made, "-keyout", str(tmp_path / "other.key"), "-out", str(other)]
    subprocess.run(command, check=True, capture_output=True)
    for variable in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.setenv(variable, str(CERTIFICATE if variable == named_by else other))
    with faulty_provider(send(OK), tls=True) as url:
        assert reply_to(plan_of(provider_of("openai", url))).text == "4"


def test_a_bundle_that_cannot_be_used_is_a_problem_before_any_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    provider = provider_of("openai", "https://127.0.0.1:9/v1")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "missing.pem"))
    assert endpoint_problems(provider, {}) == [
        f"REQUESTS_CA_BUNDLE is '{tmp_path}/missing.pem', which cannot be used: no such file or directory"
    ]
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(empty))
    assert endpoint_problems(provider, {}) == [f"REQUESTS_CA_BUNDLE is '{empty}', which cannot be used: it holds no certificate"]
