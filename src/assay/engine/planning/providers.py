"""Names of models and providers into the plans of both."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import FUNCTIONS, HTTP_ENDPOINT, PROVIDER_KINDS, PROVIDERS, ProviderKind, Vendor
from assay.core.settings import ModelEntry, ModelParameters, ProviderEntry, stated
from assay.datasets.parsing.checks import nearest
from assay.models import model_problems

_MODEL = re.compile(r"(?P<provider>[A-Za-z0-9_.-]+)(?P<mark>:/(?!/)|/|:)(?P<model>.+)", re.DOTALL)
_PARAMETERS = ModelParameters.__struct_fields__
_DEFAULTS = {name: getattr(ModelParameters(), name) for name in _PARAMETERS}
_FILE_KINDS = frozenset(kind for kind, row in PROVIDERS.items() if row.has_files)


class ModelName(NamedTuple):
    """Provider and model of `provider/model`."""

    provider: str
    model: str


class BadName(Exception):
    """A model string that names no known provider; the message says what is wrong."""


def split_model(text: str) -> ModelName:
    """Split `provider/model`, `provider:model` or `provider:/model` into provider and model; raises BadName."""
    match = _MODEL.fullmatch(text.strip())
    if match is None:
        hint = (
            f"did you mean openai/{text}?" if text and text not in PROVIDERS else "write provider/model, such as openai/gpt-6-sol"
        )
        raise BadName(f"'{text}' has no provider prefix; {hint}")
    # A recording is a file, whose path may begin with a slash.
    is_path = match["provider"] in _FILE_KINDS and match["mark"] == ":/"
    return ModelName(match["provider"], f"/{match['model']}" if is_path else match["model"])


def model_problem(text: str) -> str:
    """Return why the model's name cannot be used without declared providers, as `what; what to do`; empty if it can."""
    try:
        named = split_model(text)
        kind = provider_kind(find_provider(named.provider, {}))
    except BadName as problem:
        return str(problem)
    return next(iter(model_problems(kind, named.model)), "") if kind == "scripted" else ""


def find_provider(name: str, declared: Mapping[str, ProviderEntry]) -> ProviderEntry:
    """Return the declared provider of that name, or the well-known one; raises BadName."""
    if name in declared:
        return declared[name]
    if name == HTTP_ENDPOINT:
        raise BadName(
            "the provider 'http' needs an entry in providers, with kind: http and the url, body and answer of your endpoint"
        )
    if name in PROVIDER_KINDS:
        return ProviderEntry(name=name)
    known = sorted({*declared, *PROVIDER_KINDS} - {HTTP_ENDPOINT})
    others = f"for another server add an entry with its base_url to providers, use --base-url, or write litellm/{name}/MODEL"
    raise BadName(f"unknown provider '{name}'; {nearest(name, known) or 'known are ' + ', '.join(known) + ';'} {others}")


def provider_plan(entry: ProviderEntry, environ: Mapping[str, str]) -> ProviderPlan:
    """Return the plan of a provider, with its address from the environment; of its key only the variable's name."""
    kind = provider_kind(entry)
    url, key_variable = entry.base_url or "", entry.key_variable or ""
    vendor = PROVIDERS[kind].vendor
    if vendor is not None:
        url = url or vendor.address(environ)
        key_variable = key_variable or _key_variable(vendor, entry, url, environ)
    given = msgspec.structs.asdict(entry)
    if PROVIDERS[kind].is_described:
        url, given["url"] = entry.url or "", msgspec.UNSET
    return ProviderPlan(**{**given, "kind": kind, "base_url": url, "key_variable": key_variable})


def _key_variable(vendor: Vendor, entry: ProviderEntry, url: str, environ: Mapping[str, str]) -> str:
    """Return the variable of the key that is meant for an address; empty for a server of one's own, which often wants none."""
    chosen = vendor.chosen_key_variable(environ)
    host, is_set = _host(url), bool(environ.get(chosen, "").strip())
    if entry.base_url:
        # The plan's address decides later whether the vendor's usual key is sent there.
        is_meant = host == _host(vendor.address(environ)) if not vendor.url else vendor.is_own_host(host)
        return chosen if is_meant and (not vendor.url or chosen != vendor.key_variable) else ""
    if vendor.is_keyless:
        return chosen if is_set and vendor.key_host in ("", host) else ""
    is_vendor = vendor.is_own_host(host) or (not vendor.url and not entry.headers)
    return chosen if is_set or is_vendor else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def provider_kind(entry: ProviderEntry) -> ProviderKind:
    """Return the protocol of a provider: its declared kind, else the one of its name, else OpenAI's."""
    named: ProviderKind = next((kind for kind in PROVIDER_KINDS if kind == entry.name), "openai")
    return entry.kind or named


def is_file_model(text: str, declared: Mapping[str, ProviderEntry]) -> bool:
    """Return True for a model that is a file or a function of this machine; False for an invalid name."""
    try:
        return provider_kind(find_provider(named_model(text, declared).provider, declared)) in {*_FILE_KINDS, FUNCTIONS}
    except BadName:
        return False


def model_plan(entry: ModelEntry, declared: Mapping[str, ProviderEntry], *, folder: Path) -> ModelPlan:
    """Return the plan of a model; a recording's path is relative to `folder`. Raises BadName."""
    named = ModelName(entry.provider, entry.model) if entry.provider else named_model(entry.model, declared)
    provider = find_provider(named.provider, declared)
    is_recording = provider_kind(provider) in _FILE_KINDS
    parameters = stated(ModelParameters(**{name: getattr(entry, name) for name in _PARAMETERS}))
    return ModelPlan(
        name=entry.name or (named.provider if named.model == named.provider == entry.model else f"{named.provider}/{named.model}"),
        provider=named.provider,
        model=str((folder / named.model).absolute()) if is_recording else named.model,
        parameters=parameters,
        explicit=tuple(name for name in _PARAMETERS if is_set(entry, name)) or msgspec.UNSET,
    )


def named_model(text: str, declared: Mapping[str, ProviderEntry]) -> ModelName:
    """Split a model's name; an HTTP endpoint alone is a model of its own name."""
    entry = declared.get(text)
    return ModelName(text, text) if entry is not None and provider_kind(entry) == HTTP_ENDPOINT else split_model(text)


def is_set(entry: ModelEntry, name: str) -> bool:
    """Return whether a run file or a caller set a parameter, be it to the default.

    A number that was read is another object than the default, even if both are 0.
    """
    # Identity and not equality, on purpose: see above.
    return getattr(entry, name) is not _DEFAULTS[name] and name != "extra_body"


def used_providers(
    models: Sequence[ModelPlan], declared: Mapping[str, ProviderEntry], *, environ: Mapping[str, str]
) -> tuple[ProviderPlan, ...]:
    """Return the providers that the models name, each once, in their order."""
    names = dict.fromkeys(model.provider for model in models if model.provider)
    return tuple(provider_plan(find_provider(name, declared), environ) for name in names)
