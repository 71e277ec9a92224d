"""Rounding to the nearest integer, exactly, under the two rules in use: what `f = round` means in a proof.

Conventions differ only at ties, and Theorem 1 at coherence exactly 1/8 hangs on them, so every proof names its rule:
1. half-even (IEEE 754, `torch.round`, `numpy.round`, CUDA's `rint`): 1/2 -> 0, 3/2 -> 2, 5/2 -> 2;
2. half-away (C's `round`, Julia's RoundNearestTiesAway): 1/2 -> 1, 3/2 -> 2, -1/2 -> -1.
Both are odd functions. `f(x) = t` is therefore the window |x - t| < 1/2 together with those of its two ends that the
rule sends to t: half-even both ends of every even t; half-away the end nearer to zero of every t other than 0.
"""

from __future__ import annotations

from fractions import Fraction

HALF_EVEN = "half-even"
HALF_AWAY = "half-away"
RULES = (HALF_EVEN, HALF_AWAY)


def require_rule(rule: str) -> str:
    """`rule` itself; raises ValueError where it is none of RULES."""
    if rule not in RULES:
        raise ValueError(f"rounding rule {rule!r}: expected one of {', '.join(RULES)}")
    return rule


def round_ratio(numerator: int, denominator: int, rule: str) -> int:
    """The integer nearest to numerator/denominator (denominator > 0), ties by `rule`."""
    magnitude, remainder = divmod(2 * abs(numerator) + denominator, 2 * denominator)
    if rule == HALF_EVEN and remainder == 0 and magnitude % 2 == 1:
        magnitude -= 1
    return magnitude if numerator >= 0 else -magnitude


def round_fraction(x: Fraction, rule: str) -> int:
    """The integer nearest to x, ties by `rule`."""
    return round_ratio(x.numerator, x.denominator, rule)


def rounds_to(target: int, above: bool, rule: str) -> bool:
    """Whether the tie target + 1/2 (`above`) or target - 1/2 is rounded to `target`."""
    tie = Fraction(2 * target + (1 if above else -1), 2)
    return round_fraction(tie, rule) == target
