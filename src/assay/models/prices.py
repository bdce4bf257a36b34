"""What a reply cost, in US dollars, from the price list that genai-prices ships; no network. An unknown price is None, never 0."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import msgspec

from assay.core.ask import Reply, Usage
from assay.core.plan import ModelPlan, ProviderPlan
from assay.core.provider import PROVIDERS
from assay.models.endpoint import endpoint_problems, resolve_endpoint

PRICE_SECONDS = 900
"""Some providers are cheaper at night, from a quarter of an hour on; a price is looked up anew that often."""
BATCH_CONTEXT = {"processing": "batch"}
"""What the price list calls requests that are handed in together."""
_PROBE = 1000


class Rates(msgspec.Struct, frozen=True):
    """Dollars per token for requests with more input than a threshold."""

    above: int
    input: float
    cached: float
    output: float
    reasoning: float
    """Of the output tokens that were thought, not said."""


class Tariff(msgspec.Struct, frozen=True):
    """What one model costs at one time."""

    rates: tuple[Rates, ...]
    """By falling threshold; the last one is that of every request."""
    per_request: float = 0.0
    is_assumed: bool = False
    """The price of a batch that is not listed: half of the usual one is taken for granted."""


def pricing(
    provider: ProviderPlan,
    model: ModelPlan,
    *,
    environ: Mapping[str, str],
    clock: Callable[[], float] = time.time,
    is_batch: bool = False,
) -> Callable[[Reply], float | None]:
    """The cost of a reply as a function; the price list is read here, so that no reply waits for it."""
    if not is_paid(provider):
        return _nothing
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
        return None if tariff is None else usage_cost(tariff, reply.usage)

    return cost


def is_paid(provider: ProviderPlan) -> bool:
    """True when calls go to a provider that may want money for them."""
    return not PROVIDERS[provider.kind].is_free


def has_price(provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str]) -> bool:
    """True when what the model costs is known."""
    return tariff_of(provider, model, environ=environ, at=datetime.now(UTC)) is not None


def tariff_of(
    provider: ProviderPlan, model: ModelPlan, *, environ: Mapping[str, str], at: datetime, is_batch: bool = False
) -> Tariff | None:
    """What the model costs at a time; None where that is not known."""
    url = _priced_url(provider, environ)
    return None if url is None else find_tariff(url, model.model, at=at, is_batch=is_batch)


def _unknown(_: Reply) -> None:
    return None


def _nothing(_: Reply) -> float:
    """Scripted, recorded and local models want no money: that is known, and no unknown price."""
    return 0.0


def usage_cost(tariff: Tariff, usage: Usage) -> float | None:
    """Dollars for these tokens; None where the provider did not count them."""
    asked, said = usage.input_tokens, usage.output_tokens
    if asked is None or said is None:
        return None
    rates = tariff.rates[-1] if len(tariff.rates) == 1 else next(rates for rates in tariff.rates if asked > rates.above)
    cost = asked * rates.input + said * rates.output + tariff.per_request
    if usage.cached_tokens:
        cost += min(usage.cached_tokens, asked) * (rates.cached - rates.input)
    if usage.reasoning_tokens:
        cost += min(usage.reasoning_tokens, said) * (rates.reasoning - rates.output)
    return cost


def find_tariff(url: str, model: str, *, at: datetime, is_batch: bool = False) -> Tariff | None:
    """The tariff of a model behind an address, or of a provider by its name in the list."""
    usual = _listed_tariff(url, model, at=at)
    if usual is None or not is_batch:
        return usual
    listed = _listed_tariff(url, model, at=at, price_context=BATCH_CONTEXT)
    # The list answers with the usual price where it knows none for batches.
    return listed if listed not in (None, usual) else _halved(usual)


def _halved(tariff: Tariff) -> Tariff:
    rates = (Rates(one.above, one.input / 2, one.cached / 2, one.output / 2, one.reasoning / 2) for one in tariff.rates)
    return Tariff(tuple(rates), tariff.per_request / 2, is_assumed=True)


def _listed_tariff(url: str, model: str, *, at: datetime, **context: Any) -> Tariff | None:
    try:
        library = import_module("genai_prices")
    except ImportError:
        return None
    place = {"provider_api_url" if "/" in url else "provider_id": url}

    def ask(**tokens: int) -> Any:
        return library.calc_price(library.Usage(**tokens), model, genai_request_timestamp=at, **place, **context)

    try:
        listed = ask(input_tokens=0, output_tokens=0)
    except LookupError:
        return None
    prices = listed.model_price
    # Without a price per token the list would call the request free.
    if prices.input_mtok is None or prices.output_mtok is None:
        return None
    rates = tuple(_rates(ask, above) for above in sorted(_thresholds(prices), reverse=True))
    return Tariff(rates, float(listed.total_price))


def _priced_url(provider: ProviderPlan, environ: Mapping[str, str]) -> str | None:
    """The address to look a price up by, or None for what has no listed price: so the list, which is slow to load, is not."""
    row = PROVIDERS[provider.kind]
    if row.price_list:
        return row.price_list
    if row.vendor is None or endpoint_problems(provider, environ):
        return None
    url = resolve_endpoint(provider, environ).url
    return url if _is_public(urlsplit(url).hostname or "") else None


def _is_public(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return "." in host
    return False


def _thresholds(prices: Any) -> set[int]:
    """-1 for every request, and the numbers of input tokens above which another rate holds."""
    tiered = [value for value in vars(prices).values() if hasattr(value, "tiers")]
    return {-1, *(tier.start for value in tiered for tier in value.tiers)}


def _rates(ask: Callable[..., Any], above: int) -> Rates:
    """The rates of one tier, by asking what requests in it would cost; the list counts in decimals, so this is exact."""
    count = above + 1 or 1
    fixed: Decimal = ask(input_tokens=0, output_tokens=0).total_price
    plain: Decimal = ask(input_tokens=count, output_tokens=0).total_price

    def per_token(tokens: int, total: Decimal, without: Decimal) -> float:
        return float((total - without) / tokens)

    return Rates(
        above=above,
        input=per_token(count, plain, fixed),
        cached=per_token(count, ask(input_tokens=count, cache_read_tokens=count, output_tokens=0).total_price, fixed),
        output=per_token(_PROBE, ask(input_tokens=count, output_tokens=_PROBE).total_price, plain),
        reasoning=per_token(
            _PROBE, ask(input_tokens=count, output_tokens=_PROBE, output_reasoning_tokens=_PROBE).total_price, plain
        ),
    )
