"""Moments that workers reserve for their calls."""

from assay.engine.execution.rate_reservations import RateReservations


def test_moments_are_asked_for_ahead_only_while_the_rates_leave_room() -> None:
    turnstile = RateReservations()
    turnstile.give((0.0, 0.0), asked=2, now=10.0, wait=0.25)
    assert [turnstile.take(10.0), turnstile.take(10.0)] == [10.0, 10.0]
    assert turnstile.calls(0.1) == 2
    turnstile.give((0.0, 0.4), asked=2, now=10.1, wait=0.25)
    turnstile.take(10.1)
    assert turnstile.calls(0.1) == 0


def test_a_moment_that_has_passed_is_not_used() -> None:
    turnstile = RateReservations()
    turnstile.give((0.0, 2.0), asked=2, now=10.0, wait=0.25)
    assert turnstile.take(11.0) == 12.0
