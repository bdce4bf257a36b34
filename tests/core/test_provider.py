"""The one table of providers: whatever depends on a kind follows from its row, for every kind."""

import inspect
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from assay.core.errors import UsageProblem
from assay.core.model_call import ModelFailure
from assay.core.plan import ProviderPlan
from assay.core.provider import PROVIDER_KINDS, PROVIDERS, ProviderKind, Vendor
from assay.core.settings import ModelParameters, ProviderEntry
from assay.engine.planning.doctor import examine_keys, keyed_providers
from assay.engine.planning.providers import provider_plan
from assay.models import check_models, load_provider
from assay.models.endpoint import provider_secrets, resolve_endpoint
from assay.models.provider_protocol import Maker, ProviderContext
from assay.models.requests import request_addressing
from assay.testing import StubProvider, StubReply
from tests.models.asking import KEY, ask_of, plan_of, provider_of, reply_to

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "run-file.md"
VENDORS = {kind: row.vendor for kind, row in PROVIDERS.items() if row.vendor is not None}
each_kind = pytest.mark.parametrize("kind", PROVIDER_KINDS)
each_vendor = pytest.mark.parametrize(("kind", "vendor"), VENDORS.items())
each_keyed = pytest.mark.parametrize(
    ("kind", "vendor"), [(kind, vendor) for kind, vendor in VENDORS.items() if not vendor.is_keyless]
)
each_paid = pytest.mark.parametrize("kind", [kind for kind, row in PROVIDERS.items() if not row.is_free])


ADDRESSES: dict[str, dict[str, str]] = {
    "azure": {"AZURE_OPENAI_ENDPOINT": "https://house.openai.azure.com"},
    "bedrock": {"AWS_REGION": "eu-central-1"},
}
"""What the environment must say of a provider that has no address of its own."""


def planned(kind: ProviderKind, **environ: str) -> ProviderPlan:
    """A provider as planning makes it of an entry that says nothing but the kind."""
    return provider_plan(ProviderEntry(name="p", kind=kind), {**ADDRESSES.get(kind, {}), **environ})


def address(provider: ProviderPlan, environ: Mapping[str, str]) -> str:
    return request_addressing(provider, plan_of(provider).candidate, environ=environ)(ask_of())


def test_every_kind_has_a_row() -> None:
    assert set(PROVIDERS) == set(PROVIDER_KINDS)


def test_only_what_never_leaves_this_machine_is_free() -> None:
    assert {kind for kind, row in PROVIDERS.items() if row.is_free} == {"local", "replay", "scripted"}


@each_kind
def test_its_home_opens_it(kind: ProviderKind) -> None:
    annotations = inspect.get_annotations(load_provider(kind).open_provider)
    assert annotations == {"context": ProviderContext, "return": AsyncIterator[Maker]}


@each_kind
def test_the_reference_lists_it(kind: ProviderKind) -> None:
    assert f"| **`{kind}`** | {PROVIDERS[kind].words} |" in PAGE.read_text(encoding="utf-8"), "run `make schema`"


@each_paid
def test_a_budget_is_refused_where_no_price_is_known(kind: ProviderKind) -> None:
    plan = plan_of(provider_of(kind, "http://127.0.0.1:9/v1"), "no/such-model", max_cost=1.0)
    assert "max_cost cannot be kept: the price of 'm' is not known" in " ".join(check_models(plan, environ={}))


@each_keyed
def test_the_vendors_host_needs_its_key(kind: ProviderKind, vendor: Vendor) -> None:
    plan = plan_of(planned(kind))
    assert check_models(plan, environ={vendor.key_variable: KEY}) == []
    assert check_models(plan, environ={vendor.key_variable: " "}) == [
        f"the environment variable {vendor.key_variable} with the key of provider 'p' is not set"
    ]


@each_vendor
def test_a_key_is_sent_in_its_header_and_kept_nowhere(kind: ProviderKind, vendor: Vendor) -> None:
    # The key of a vendor whose servers stand elsewhere is sent to the vendor's own host alone.
    environ = {vendor.key_variable: KEY, **({vendor.url_variable: f"https://{vendor.key_host}"} if vendor.key_host else {})}
    endpoint = resolve_endpoint(planned(kind, **environ), environ)
    assert [name for name, value in endpoint.headers.items() if KEY in value] != []
    assert KEY in provider_secrets(planned(kind), environ)


@each_vendor
def test_replies_are_kept_under_the_host_that_is_asked(kind: ProviderKind, vendor: Vendor) -> None:
    urls = [{vendor.url_variable: f"http://{host}/v1"} for host in ("one", "two")]
    providers = [planned(kind, **environ) for environ in urls]
    keyed = {vendor.key_variable: KEY}
    assert [urlsplit(resolve_endpoint(provider, keyed).url).hostname for provider in providers] == ["one", "two"]
    assert len({address(provider, {}) for provider in (*providers, planned(kind))}) == 3


@each_vendor
def test_a_plan_decides_alone_who_is_asked(kind: ProviderKind, vendor: Vendor) -> None:
    environ = {vendor.url_variable: "http://elsewhere/v1", vendor.key_variable: KEY}
    if vendor.has_no_address:
        with pytest.raises(
            UsageProblem, match=f"the provider 'p' has no address: set the environment variable .*{vendor.url_variable}"
        ):
            resolve_endpoint(provider_of(kind), environ)
    else:
        assert resolve_endpoint(provider_of(kind), environ).url == vendor.url


def test_replies_by_litellm_are_kept_under_the_hosts_that_its_environment_names() -> None:
    provider = planned("litellm")
    environs = ({}, {"OLLAMA_API_BASE": "http://one"}, {"OLLAMA_API_BASE": "http://two"}, {"AWS_REGION_NAME": "eu-west-1"})
    assert len({address(provider, environ) for environ in environs}) == 4
    assert address(provider, {"HOME": "/root", "SOME_API_KEY": "x"}) == address(provider, {})


@pytest.mark.parametrize("vendor", VENDORS.values())
def test_the_doctor_looks_for_its_key_and_asks_its_host(vendor: Vendor) -> None:
    assert vendor.key_variable in {check.name for check in examine_keys({vendor.key_variable: KEY})}
    assert vendor.key_variable in " ".join(f"{check.name} {check.says}" for check in examine_keys({}))
    if vendor.is_keyless:
        (found,) = keyed_providers({vendor.url_variable: "http://gpu:8000/v1"})
        assert (keyed_providers({vendor.key_variable: KEY}), found.base_url, found.key_variable) == ([], "http://gpu:8000/v1", "")
    else:
        assert vendor.key_variable in {provider.key_variable for provider in keyed_providers({vendor.key_variable: KEY})}


@pytest.mark.parametrize("vendor", VENDORS.values())
def test_no_test_has_a_developers_key(vendor: Vendor) -> None:
    assert {vendor.key_variable, vendor.url_variable} & set(os.environ) == set()


@each_vendor
def test_what_is_sent_is_known_by_the_names_of_a_plan(kind: ProviderKind, vendor: Vendor) -> None:
    wanted = {"temperature": 0.5, "top_p": 0.5, "max_tokens": 9}
    with StubProvider(lambda _: StubReply(status=400)) as stub:
        url = urlsplit(stub.base_url)._replace(path=urlsplit(vendor.url).path).geturl()
        plan = plan_of(provider_of(kind, url), parameters=ModelParameters(**wanted))
        with pytest.raises(ModelFailure):
            reply_to(plan)
    body = stub.requests[0].body
    sent = {**body, **body.get("generationConfig", {}), **body.get("inferenceConfig", {})}
    named = {PROVIDERS[kind].sent_names.get(name, name): value for name, value in sent.items()}
    assert wanted.items() <= named.items()


@pytest.mark.parametrize("vendor", VENDORS.values())
def test_the_example_of_a_deployment_has_a_line_for_its_key(vendor: Vendor) -> None:
    assert f"\n{vendor.key_variable}=\n" in (ROOT / "examples" / "deploy" / "providers.env.example").read_text(encoding="utf-8")


# Addresses and keys of the environment


@pytest.mark.parametrize(
    ("kind", "environ", "url", "key_variable"),
    [
        ("google", {"GOOGLE_API_KEY": KEY}, "https://generativelanguage.googleapis.com/v1beta", "GOOGLE_API_KEY"),
        (
            "google",
            {"GOOGLE_API_KEY": KEY, "GEMINI_API_KEY": KEY},
            "https://generativelanguage.googleapis.com/v1beta",
            "GEMINI_API_KEY",
        ),
        (
            "bedrock",
            {"AWS_DEFAULT_REGION": "us-west-2"},
            "https://bedrock-runtime.us-west-2.amazonaws.com",
            "AWS_BEARER_TOKEN_BEDROCK",
        ),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/"},
            "https://x.openai.azure.com/openai/v1",
            "AZURE_OPENAI_API_KEY",
        ),
        (
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/", "OPENAI_API_VERSION": "2024-10-21"},
            "https://x.openai.azure.com/openai/deployments/{model}?api-version=2024-10-21",
            "AZURE_OPENAI_API_KEY",
        ),
        ("cerebras", {"CEREBRAS_BASE_URL": "https://api.cerebras.ai"}, "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        ("ollama", {}, "http://localhost:11434/v1", ""),
        ("ollama", {"OLLAMA_API_KEY": KEY}, "http://localhost:11434/v1", ""),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1", ""),
        ("ollama", {"OLLAMA_HOST": "gpu:1234"}, "http://gpu:1234/v1", ""),
        ("ollama", {"OLLAMA_HOST": "https://ollama.com", "OLLAMA_API_KEY": KEY}, "https://ollama.com/v1", "OLLAMA_API_KEY"),
        ("vllm", {"VLLM_API_KEY": KEY}, "http://localhost:8000/v1", "VLLM_API_KEY"),
        ("lmstudio", {}, "http://localhost:1234/v1", ""),
    ],
)
def test_the_environment_gives_addresses_and_keys(kind: ProviderKind, environ: dict[str, str], url: str, key_variable: str) -> None:
    provider = provider_plan(ProviderEntry(name=kind), environ)
    endpoint = resolve_endpoint(provider, {**environ, key_variable: KEY} if key_variable else environ)
    assert (endpoint.url, provider.key_variable) == (url, key_variable)
    assert endpoint.key == (KEY if key_variable else "")


@pytest.mark.parametrize("kind", VENDORS)
@pytest.mark.parametrize(
    "url", ["https://elsewhere.example/v1", "https://generativelanguage.googleapis.com.evil.example", "http://127.0.0.1:9"]
)
def test_no_key_of_a_vendor_goes_to_a_host_that_a_run_file_names(kind: ProviderKind, url: str) -> None:
    environ = {name: KEY for vendor in VENDORS.values() for name in vendor.key_variables()} | {"AWS_REGION": "us-east-1"}
    provider = provider_plan(ProviderEntry(name=kind, base_url=url), environ)
    endpoint = resolve_endpoint(provider, environ)
    assert (provider.key_variable, endpoint.key) == ("", "")
    assert KEY not in str(endpoint.headers)


@pytest.mark.parametrize(
    ("kind", "url", "is_meant"),
    [
        ("google", "https://generativelanguage.googleapis.com/v1", True),
        ("bedrock", "https://bedrock-runtime.eu-west-3.amazonaws.com", True),
        ("bedrock", "https://bedrock-runtime.evil.example.amazonaws.com", False),
        ("bedrock", "https://bucket.s3.us-east-1.amazonaws.com", False),
        ("azure", "https://mine.openai.azure.com/openai/v1", True),
        ("azure", "https://yours.openai.azure.com/openai/v1", False),
        ("ollama", "https://ollama.com/v1", True),
        ("groq", "http://api.groq.com/openai/v1", False),
        ("groq", "https://api.groq.com/openai/v1", True),
    ],
)
def test_a_key_goes_to_the_hosts_that_it_is_meant_for(kind: ProviderKind, url: str, *, is_meant: bool) -> None:
    vendor = VENDORS[kind]
    environ = dict.fromkeys(vendor.key_variables(), KEY) | {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com"}
    endpoint = resolve_endpoint(provider_plan(ProviderEntry(name=kind, base_url=url), environ), environ)
    assert endpoint.key == (KEY if is_meant else "")


@pytest.mark.parametrize(
    ("kind", "missing"), [("azure", "AZURE_OPENAI_ENDPOINT"), ("bedrock", "AWS_REGION or AWS_ENDPOINT_URL_BEDROCK_RUNTIME")]
)
def test_a_provider_without_an_address_names_the_variable(kind: ProviderKind, missing: str) -> None:
    plan = plan_of(provider_plan(ProviderEntry(name="p", kind=kind), {}))
    problem = f"the provider 'p' has no address: set the environment variable {missing}, or its base_url"
    assert check_models(plan, environ={}) == [problem]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("openai", {"key_variable": "OPENAI_API_KEY"}),
        ("groq", {"key_variable": "OPENAI_API_KEY"}),
        ("openai", {"headers": {"Authorization": "Bearer ${OPENAI_API_KEY}"}}),
        ("http", {"headers": {"X-Key": "$OPENAI_API_KEY"}}),
        ("http", {"body": {"key": "${OPENAI_API_KEY}"}}),
    ],
)
def test_no_key_of_one_vendor_goes_to_another(kind: ProviderKind, settings: dict[str, Any]) -> None:
    plan = plan_of(provider_of(kind, "https://api.groq.com/openai/v1", **settings))
    problem = "OPENAI_API_KEY is the key of openai, and api.groq.com is the host of groq; name another variable"
    assert check_models(plan, environ={"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}) == [problem]


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("http://localhost:4000/v1", "OPENAI_API_KEY"),
        ("https://gateway.example/v1", "OPENAI_API_KEY"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY"),
    ],
)
def test_a_key_may_be_named_for_a_gateway_and_for_its_vendors_other_addresses(url: str, variable: str) -> None:
    assert check_models(plan_of(provider_of("openai", url, key_variable=variable)), environ={variable: KEY}) == []
