"""A setting is defined once, and every surface that its definition names has it."""

from assay.core.settings import run_settings

SETTINGS = list(run_settings().values())


def test_parameters_that_came_later_do_not_change_the_meaning_of_idempotency_keys() -> None:
    # Those of the first version are part of a submission's fingerprint even where they are not given.
    first = {"model", "judge", "criteria", "concurrency", "limit", "sample", "seed", "repeat", "quorum", "escalate", "max_cost"}
    first |= {"on_invalid", "profile", "compat", "pass_rate", "min_score", "max_error_rate"}
    assert {one.parameter_name for one in SETTINGS if one.parameter and not one.parameter.is_later} == first
