"""What the checks of an installation find: keys, providers, the clock, limits of the machine."""

import asyncio
import json
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay import api
from assay.core.plan import ProviderPlan
from assay.core.setup_checks import DoctorCheck
from assay.engine.planning.doctor import examine_clock, examine_handles, examine_proxies
from assay.models.connectivity import ask_for_models
from assay.surfaces.cli.program import program
from tests.models.faulty_provider import faulty_provider, http, send, send_and_hang
from tests.surfaces.cli.test_doctor import doctor

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(result: Result, area: str) -> dict[str, Any]:
    return {check["name"]: check for check in json.loads(result.stdout)["checks"] if check["area"] == area}


def provider(url: str, **variables: str) -> DoctorCheck:
    """What is said of OpenAI at an address."""
    environ: Mapping[str, str] = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url, **variables}
    (check,) = [check for check in api.check_installation("runs", environ=environ) if check.area == "providers"]
    return check


def test_of_a_key_only_its_name_is_shown() -> None:
    with faulty_provider(send(http(KEY.encode(), status=401, headers=f"X-Request-Id: {KEY}\r\n"))) as url:
        result = doctor("--json", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=url)
    assert (result.exit_code, found(result, "keys")["OPENAI_API_KEY"]["says"]) == (1, "set")
    assert found(result, "providers")["openai"]["says"].endswith(": the key is refused (HTTP 401)")
    assert not any(part in result.output for part in (KEY, "canary", KEY[:6], str(len(KEY)) + " characters"))


def test_a_key_with_a_line_break_in_it_is_to_be_mended() -> None:
    result = doctor("--offline", "--json", OPENAI_API_KEY=f"{KEY}\n")
    assert (result.exit_code, found(result, "keys")["OPENAI_API_KEY"]["standing"]) == (1, "problem")
    assert KEY not in result.output


def test_a_provider_that_answers_is_well_and_tells_the_time() -> None:
    with faulty_provider(send(http(b"{}", headers=f"Date: {formatdate(usegmt=True)}\r\n"))) as url:
        result = doctor("--json", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=url)
    assert (result.exit_code, found(result, "providers")["openai"]["standing"]) == (0, "ok")
    assert found(result, "environment")["clock"]["says"].startswith("within ")


def test_an_untrusted_certificate_is_named_with_what_to_do() -> None:
    with faulty_provider(send(http(b"{}")), tls=True) as url:
        check = provider(url)
    assert (check.standing, "its certificate is not trusted" in check.says) == ("problem", True)
    assert "SSL_CERT_FILE" in check.hint


def test_a_provider_that_takes_no_connection_is_to_be_mended() -> None:
    assert provider("http://127.0.0.1:9").says == "127.0.0.1:9: no connection: connection refused"


def test_a_provider_without_an_address_names_the_variables_that_would_give_it_one() -> None:
    checks = api.check_installation("runs", environ={"AWS_BEARER_TOKEN_BEDROCK": KEY})
    (says,) = (check.says for check in checks if check.area == "providers")
    assert says.startswith("the provider 'bedrock' has no address: set the environment variable AWS_REGION")


def test_a_provider_that_never_answers_is_given_up() -> None:
    with faulty_provider(send_and_hang(b"", 2.0)) as url:
        plan = ProviderPlan(name="gpu", kind="openai", base_url=url)
        assert asyncio.run(ask_for_models(plan, environ={}, seconds=0.3)).problem == "no answer within 0.3 s"


def test_a_run_file_that_cannot_run_says_why() -> None:
    CliRunner().invoke(program, ["init", "--model", "anthropic/claude-sonnet-4-5"])
    result = doctor("evaluation.yaml", "--offline", "--json")
    assert (result.exit_code, "ANTHROPIC_API_KEY" in found(result, "run file")["evaluation.yaml"]["says"]) == (1, True)


def test_a_run_file_adds_its_own_providers() -> None:
    CliRunner().invoke(program, ["init", "--model", "openai/gpt-5-mini"])
    with faulty_provider(send(http(b"{}"))) as url:
        text = Path("evaluation.yaml").read_text(encoding="utf-8").replace("openai/gpt-5-mini", "gpu/house")
        Path("evaluation.yaml").write_text(f"{text}\nproviders:\n  - {{name: gpu, base_url: {url}}}\n", encoding="utf-8")
        assert list(found(doctor("evaluation.yaml", "--json"), "providers")) == ["gpu"]


def test_passwords_of_proxies_are_masked() -> None:
    checks = {
        check.name: check for check in examine_proxies({"HTTPS_PROXY": "http://me:s3cret@proxy:3128", "ALL_PROXY": "socks5://x"})
    }
    assert checks["HTTPS_PROXY"].says == "http://***@proxy:3128"
    assert (checks["ALL_PROXY"].standing, "x" in checks["ALL_PROXY"].says.split()) == ("problem", False)


@pytest.mark.parametrize(("now", "standing"), [(1_790_000_000.0, "ok"), (1_790_000_600.0, "problem"), (1_000_000_000.0, "problem")])
def test_a_clock_that_cannot_be_right_is_to_be_mended(now: float, standing: str) -> None:
    assert examine_clock(now, [formatdate(1_790_000_010, usegmt=True), "soon"]).standing == standing


def test_too_few_open_files_are_to_be_mended_and_the_hint_says_how() -> None:
    check = examine_handles(40, 40)
    assert (check.standing, check.hint) == ("problem", "raise the limit (ulimit -n 64), or run with --concurrency 8")
    assert examine_handles(40, 4096).standing == "ok"
