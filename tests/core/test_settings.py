"""A setting is defined once, and every surface that its definition names has it."""

from assay.core.settings import Gates, gate_limits, named_rates, run_settings

SETTINGS = list(run_settings().values())


def test_parameters_that_came_later_do_not_change_the_meaning_of_idempotency_keys() -> None:
    # Those of the first version are part of a submission's fingerprint even where they are not given.
    first = {"model", "judge", "criteria", "concurrency", "limit", "sample", "seed", "repeat", "quorum", "escalate", "max_cost"}
    first |= {"on_invalid", "profile", "compat", "pass_rate", "min_score", "max_error_rate"}
    assert {one.parameter_name for one in SETTINGS if one.parameter and not one.parameter.is_later} == first


def test_thresholds_are_listed_by_gate() -> None:
    gates = Gates(pass_rate=0.8, checks={"exact": 0.9}, graders={"house": 0.5})
    assert gate_limits(gates) == {"pass_rate": 0.8, "checks.exact": 0.9, "graders.house": 0.5}


def test_rates_are_read_by_name() -> None:
    assert named_rates(("exact=0.9", "a=b=1", "wrong")) == {"exact": 0.9, "a=b": 1.0, "wrong": "wrong"}
