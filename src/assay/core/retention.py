"""Retention of a run's artifacts: at least as long as batch_v1 demands; shorter only if an operator allows it."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from assay.core.errors import UsageProblem

# Minimums of batch_v1 for every run; an environment may keep artifacts longer but needs an explicit switch for less.
RAW_DAYS, AGGREGATE_DAYS = 30, 180
"""Minimum days of raw artifacts and of aggregate summaries in the contract."""
RAW_VARIABLE = "ASSAY_RETENTION_RAW_DAYS"
AGGREGATE_VARIABLE = "ASSAY_RETENTION_AGGREGATE_DAYS"
SHORTER_VARIABLE = "ASSAY_RETENTION_ALLOW_SHORTER"
_MAX_DAYS = 36_500
_SWITCHES = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}
Days = Annotated[float, Meta(ge=0, le=_MAX_DAYS)]


def _says(description: str) -> Meta:
    return Meta(description=description)


class RetentionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Days for which artifacts are kept; the longest of run file, server and environment counts."""

    raw_days: Annotated[
        Days | None, _says("Days for predictions, attempts, input, validation results and failures. Default: 30.")
    ] = None
    aggregate_days: Annotated[Days | None, _says("Days for the two metrics files. Default: 180.")] = None
    allow_shorter: Annotated[bool, _says("Accept fewer days than the contract's 30 and 180.")] = False


class RetentionPolicy(msgspec.Struct, frozen=True):
    """Days for which artifacts are kept after the end of their run; raises UsageProblem for fewer than the contract's."""

    raw_days: float = RAW_DAYS
    aggregate_days: float = AGGREGATE_DAYS
    allow_shorter: bool = False

    def __post_init__(self) -> None:
        is_short = self.raw_days < RAW_DAYS or self.aggregate_days < AGGREGATE_DAYS
        if is_short and not self.allow_shorter:
            raise UsageProblem(
                f"retention of {self.raw_days:g} and {self.aggregate_days:g} days is too short",
                hint=f"raw artifacts are kept at least {RAW_DAYS} days and aggregates {AGGREGATE_DAYS}; an operator allows less "
                f"with allow_shorter: true, or {SHORTER_VARIABLE}=true",
            )


def longest_retention(*given: RetentionSettings) -> RetentionPolicy:
    """Combine settings into the policy with the longest days; raises UsageProblem for fewer than the contract's, unless allowed."""
    raw = [settings.raw_days for settings in given if settings.raw_days is not None]
    aggregate = [settings.aggregate_days for settings in given if settings.aggregate_days is not None]
    return RetentionPolicy(
        raw_days=max(raw, default=RAW_DAYS),
        aggregate_days=max(aggregate, default=AGGREGATE_DAYS),
        allow_shorter=any(settings.allow_shorter for settings in given),
    )


def retention_in(environ: Mapping[str, str]) -> RetentionSettings:
    """Read the settings of the environment; raises UsageProblem."""
    switch = environ.get(SHORTER_VARIABLE, "").strip().lower()
    if switch not in _SWITCHES:
        raise UsageProblem(f"{SHORTER_VARIABLE} is '{switch}'", hint="set it to true or false")
    return RetentionSettings(
        raw_days=_days(environ, RAW_VARIABLE),
        aggregate_days=_days(environ, AGGREGATE_VARIABLE),
        allow_shorter=_SWITCHES[switch],
    )


def _days(environ: Mapping[str, str], variable: str) -> float | None:
    text = environ.get(variable, "").strip()
    if not text:
        return None
    try:
        return msgspec.convert(text, Days, strict=False)
    except msgspec.ValidationError:
        raise UsageProblem(f"{variable} is '{text}'", hint=f"set it to a number of days from 0 to {_MAX_DAYS:,}") from None
