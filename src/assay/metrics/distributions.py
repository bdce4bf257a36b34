"""Distribution functions to about twelve digits: normal, Student's t, binomial."""

from functools import lru_cache
from math import erfc, exp, isinf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

# Written out because scipy is forty times the size of everything else; the tests compare all of it with scipy.
_NORMAL = NormalDist()
_HALF_LOG_TAU = 0.5 * log(2 * pi)
_EXACT_UP_TO = 15
"""Stirling's series has all digits above this."""
_TINY = 1e-300
_MAX_STEPS = 10_000


def normal_cdf(value: float) -> float:
    """Return the share of a standard normal distribution below a value."""
    # erfc and not 1 - erf: far out, the difference would lose all digits.
    return 0.5 * erfc(-value / sqrt(2))


def normal_quantile(share: float) -> float:
    """Return the value below which a share of a standard normal distribution lies."""
    return _NORMAL.inv_cdf(share)


def student_two_sided(value: float, freedom: float) -> float:
    """Return the share of Student's t distribution at least as far from 0 as a value, on either side; freedom may be a fraction."""
    return min(1.0, 2 * _student_upper(abs(value), freedom))


@lru_cache(maxsize=4096)
def student_quantile(share: float, freedom: float) -> float:
    """Return the value below which a share of Student's t distribution lies."""
    if share == 0.5:
        return 0.0
    if share < 0.5:
        return -student_quantile(1 - share, freedom)
    # The tail is convex and heavier than the normal one: Newton's steps from the normal quantile
    # only ever go up, until rounding is all that is left of them.
    place, target = normal_quantile(share), 1 - share
    for _ in range(_MAX_STEPS):
        step = (_student_upper(place, freedom) - target) / _student_density(place, freedom)
        place += step
        if step <= 1e-14 * place:
            break
    return place


def _student_upper(value: float, freedom: float) -> float:
    if isinf(value):
        return 0.0
    if isinf(freedom):
        return normal_cdf(-value)
    square = value * value
    return 0.5 * beta_cdf(freedom / (freedom + square), a=freedom / 2, b=0.5, complement=square / (freedom + square))


def _student_density(value: float, freedom: float) -> float:
    ratio = lgamma((freedom + 1) / 2) - lgamma(freedom / 2)
    return exp(ratio - 0.5 * log(freedom * pi) - (freedom + 1) / 2 * log1p(value * value / freedom))


def beta_cdf(share: float, *, a: float, b: float, complement: float | None = None) -> float:
    """Return the regularised incomplete beta function; `complement` is 1 - share where that is known with more digits."""
    rest = 1 - share if complement is None else complement
    if share <= 0 or rest <= 0:
        return float(share > 0)
    # The fraction converges fast only below the mean; above it, the other tail is computed.
    if share > (a + 1) / (a + b + 2):
        return 1 - _beta_lower(rest, a=b, b=a, rest=share)
    return _beta_lower(share, a=a, b=b, rest=rest)


def _beta_lower(share: float, *, a: float, b: float, rest: float) -> float:
    """Evaluate the continued fraction by Lentz's method, which converges quickly below the mean."""
    front = _binomial_density(a, b, share=share, rest=rest) * b / (a + b)
    fraction, c, d = 1.0, 1.0, 0.0
    for step in range(_MAX_STEPS):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (b - half) * share / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            term = -(a + half) * (a + b + half) * share / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / _off_zero(1 + term * d)
        c = _off_zero(1 + term / c)
        fraction *= c * d
        if abs(c * d - 1) < 4e-16:
            break
    return front * (fraction - 1) if fraction != 1 else 0.0


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _binomial_density(successes: float, failures: float, *, share: float, rest: float) -> float:
    """Compute a probability in Loader's saddle-point form, since differences of large logarithms would cost digits."""
    n = successes + failures
    error = _stirling_error(n) - _stirling_error(successes) - _stirling_error(failures)
    deviance = _deviance(successes, n * share) + _deviance(failures, n * rest)
    return exp(error - deviance) * sqrt(n / (2 * pi * successes * failures))


def _stirling_error(n: float) -> float:
    """Return the difference of log n! and Stirling's formula."""
    if n <= _EXACT_UP_TO:
        return lgamma(n + 1) - (n + 0.5) * log(n) + n - _HALF_LOG_TAU
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(seen: float, expected: float) -> float:
    """Return seen * log(seen / expected) + expected - seen, also where both are nearly equal."""
    excess = (expected - seen) / seen
    if abs(excess) > 0.1:
        return seen * (excess - log(expected / seen))
    ratio = (seen - expected) / (seen + expected)
    total, power = (seen - expected) * ratio, 2 * seen * ratio
    for odd in range(3, 200, 2):
        power *= ratio * ratio
        if total + power / odd == total:
            break
        total += power / odd
    return total


def binomial_cdf(successes: int, n: int, *, share: float = 0.5) -> float:
    """Return the probability of at most so many successes in n trials."""
    if successes < 0:
        return 0.0
    if successes >= n:
        return 1.0
    return beta_cdf(1 - share, a=n - successes, b=successes + 1, complement=share)


def sign_test(successes: int, n: int, *, mid_p: bool = False) -> float:
    """Return the exact two-sided probability of so uneven a split of n fair trials; 1 for none.

    `mid_p` counts only half of the observed split, which takes the surplus caution out of a test on few trials.
    """
    fewer = min(successes, n - successes)
    if n == 0 or (2 * fewer == n and not mid_p):
        return 1.0
    # Exact: with few flips a normal approximation promises significance that is not there.
    below = binomial_cdf(fewer - 1, n)
    at = binomial_cdf(fewer, n) - below
    return min(1.0, 2 * below + (at if mid_p else 2 * at))
