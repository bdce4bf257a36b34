"""Cost of a reply in US dollars, from the price list of genai-prices; no network. An unknown price is None, never 0."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from assay.core.model_call import Reply, Usage
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS
from assay.core.settings import TokenPrice
from assay.models.endpoint import endpoint_problems, resolve_endpoint

PRICE_SECONDS = 900
"""Seconds for which a looked-up price is used: some providers change prices at night, on a quarter of an hour."""
BATCH_CONTEXT = {"processing": "batch"}
"""Price list's name for batch requests."""
_PROBE = 1000
_MILLION = 1_000_000


class TokenRates(msgspec.Struct, frozen=True):
    """Dollars per token for requests with more input than a threshold."""

    above: int
    input: float
    cached: float
    output: float
    reasoning: float
    """Price of the output tokens that are reasoning."""


class Tariff(msgspec.Struct, frozen=True):
    """Prices of one model at one time."""

    rates: tuple[TokenRates, ...]
    """By falling threshold; the last one applies to every request."""
    per_request: float = 0.0
    is_assumed: bool = False
    """True when no batch price is listed and half of the usual price is assumed."""


def pricing(
    provider: ProviderPlan,
    model: ModelPlan,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], float] = time.time,
    is_batch: bool = False,
) -> Callable[[Reply], float | None]:
    """Build the function that prices replies; the price list is loaded here, so that no reply waits for it."""
    if not is_paid(provider):
        return _nothing
    if model.price is not msgspec.UNSET:
        # The user knows the contract with the provider better than any list, and it needs no extra.
        own = _own_tariff(model.price, is_batch=is_batch)
        return lambda reply: usage_cost(own, reply.usage)
    url = _priced_url(provider, environ)
    if url is None:
        return _unknown

    def look_up(period: int) -> Tariff | None:
        return find_tariff(url, model.model, at=datetime.fromtimestamp(period * PRICE_SECONDS, UTC), is_batch=is_batch)

    known = int(clock() // PRICE_SECONDS)
    tariff = look_up(known)

    def cost(reply: Reply) -> float | None:
        nonlocal known, tariff
        period = int(clock() // PRICE_SECONDS)
        if period != known:
            known, tariff = period, look_up(period)
        # Still None where the list has lost the model meanwhile: an old price would be a guess.
        return None if tariff is None else usage_cost(tariff, reply.usage)

    return cost


def is_paid(provider: ProviderPlan) -> bool:
    """Return whether calls to a provider may cost money."""
    return not PROVIDERS[provider.kind].is_free


def has_price(provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str]) -> bool:
    """Return whether the model's price is known."""
    return tariff_of(provider, model, environ=environ, at=datetime.now(UTC)) is not None


def tariff_of(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str], at: datetime, is_batch: bool = False
) -> Tariff | None:
    """Find the model's prices at a time, those that the plan sets before those of the list; None when they are unknown."""
    if model.price is not msgspec.UNSET:
        return _own_tariff(model.price, is_batch=is_batch)
    url = _priced_url(provider, environ)
    return None if url is None else find_tariff(url, model.model, at=at, is_batch=is_batch)


def _own_tariff(price: TokenPrice, *, is_batch: bool) -> Tariff:
    """Build the tariff of a price that the user set."""
    # Without a price of its own a cached token costs what others cost, so that no cost is too low.
    cached = price.input if price.cached is None else price.cached
    rates = TokenRates(-1, price.input / _MILLION, cached / _MILLION, price.output / _MILLION, price.output / _MILLION)
    tariff = Tariff((rates,))
    return _halved(tariff) if is_batch and (price.input or price.output) else tariff


def _unknown(_: Reply) -> None:
    return None


def _nothing(_: Reply) -> float:
    """Return 0: scripted, recorded and local models are free, which is different from an unknown price."""
    return 0.0


def usage_cost(tariff: Tariff, usage: Usage) -> float | None:
    """Price these tokens in dollars; None when the provider did not count them."""
    input_tokens, output_tokens = usage.input_tokens, usage.output_tokens
    if input_tokens is None or output_tokens is None:
        return None
    rates = tariff.rates[-1] if len(tariff.rates) == 1 else next(rates for rates in tariff.rates if input_tokens > rates.above)
    cost = input_tokens * rates.input + output_tokens * rates.output + tariff.per_request
    if usage.cached_tokens:
        # Cached tokens are part of the input; some servers report more of them than of all.
        cost += min(usage.cached_tokens, input_tokens) * (rates.cached - rates.input)
    if usage.reasoning_tokens:
        cost += min(usage.reasoning_tokens, output_tokens) * (rates.reasoning - rates.output)
    return cost


def find_tariff(url: str, model: str, *, at: datetime, is_batch: bool = False) -> Tariff | None:
    """Find the tariff of a model by the provider's URL or its name in the list."""
    usual = _listed_tariff(url, model, at=at)
    if usual is None or not is_batch:
        return usual
    listed = _listed_tariff(url, model, at=at, price_context=BATCH_CONTEXT)
    # The list returns the usual price when it has none for batches.
    return listed if listed not in (None, usual) else _halved(usual)


def _halved(tariff: Tariff) -> Tariff:
    rates = (TokenRates(rate.above, rate.input / 2, rate.cached / 2, rate.output / 2, rate.reasoning / 2) for rate in tariff.rates)
    return Tariff(tuple(rates), tariff.per_request / 2, is_assumed=True)


def _listed_tariff(url: str, model: str, *, at: datetime, **context: object) -> Tariff | None:
    try:
        # The extra takes longer to import than most commands run.
        library = import_module("genai_prices")
    except ImportError:
        return None
    provider_key = {"provider_api_url" if "/" in url else "provider_id": url}

    def price(**tokens: int) -> Any:
        return library.calc_price(library.Usage(**tokens), model, genai_request_timestamp=at, **provider_key, **context)

    try:
        listed = price(input_tokens=0, output_tokens=0)
    except LookupError:
        return None
    prices = listed.model_price
    # Without a price per token the list would price the request at 0.
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    rates = tuple(_rates(price, above) for above in sorted(_thresholds(prices), reverse=True))
    return Tariff(rates, float(listed.total_price))


def _priced_url(provider: ProviderPlan, environ: Mapping[str, str]) -> str | None:
    """Return the URL or name to look a price up by; None for unlisted providers, which saves loading the slow list."""
    row = PROVIDERS[provider.kind]
    if row.price_list:
        return row.price_list
    if row.vendor is None or endpoint_problems(provider, environ):
        return None
    # A gateway or a server of one's own has no list price, under any name of the model.
    url = resolve_endpoint(provider, environ).url
    return url if _is_public(urlsplit(url).hostname or "") else None


def _is_public(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return "." in host
    return False


def _thresholds(prices: object) -> set[int]:
    """List the numbers of input tokens above which another rate applies, and -1 for every request."""
    tiered = [value for value in vars(prices).values() if hasattr(value, "tiers")]
    return {-1, *(tier.start for value in tiered for tier in value.tiers)}


def _rates(price: Callable[..., Any], above: int) -> TokenRates:
    """Compute the rates of one tier from the prices of sample requests; the list uses decimals, so this is exact."""
    count = above + 1 or 1
    fixed: Decimal = price(input_tokens=0, output_tokens=0).total_price
    plain: Decimal = price(input_tokens=count, output_tokens=0).total_price

    def per_token(tokens: int, total: Decimal, without: Decimal) -> float:
        return float((total - without) / tokens)

    return TokenRates(
        above=above,
        input=per_token(count, plain, fixed),
        cached=per_token(count, price(input_tokens=count, cache_read_tokens=count, output_tokens=0).total_price, fixed),
        output=per_token(_PROBE, price(input_tokens=count, output_tokens=_PROBE).total_price, plain),
        reasoning=per_token(
            _PROBE, price(input_tokens=count, output_tokens=_PROBE, output_reasoning_tokens=_PROBE).total_price, plain
        ),
    )
