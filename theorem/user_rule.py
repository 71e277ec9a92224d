"""A rule that a user writes as A, B and C: does it have a potential, which one, and does it stay bounded?"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from theorem.potential import Decision, decide, has_real_eigenbasis
from theorem.rule import Rule
from theorem.rule_expression import NUMERIC, SYMBOLIC, evaluate
from theorem.updates import apply, draw, generic, parse_rule
from theorem.words import Words
from theorem.words import values as words

# what a user's expressions may name, beside S, k, v, the identities I, Id, Iv and the all-ones columns ones, onesv
VOCABULARY = {
    "Z": "state",
    **dict.fromkeys(("k2", "q", "phi", "kappa"), "key"),
    **dict.fromkeys(("lam", "w"), "key rates"),
    "v2": "value",
    "delta": "value rates",
    "M": "key matrix",
    "N": "value matrix",
    "R": "precision",
    **dict.fromkeys(("a", "b", "alpha", "eta"), "rate"),
    **dict.fromkeys(("c", "t", "beta", "beta2", "theta", "gamma"), "positive"),
}
PROOF_SIZES = ((1, 2), (2, 1), (2, 2), (2, 3), (3, 2))
DRAWS = 20
MAX_DEGREE = 4  # expanding a polynomial in six entries grows fast with its degree


def user_rule(a: str, b: str, c: str) -> Rule:
    """The rule A S B + C as written. Raises ValueError naming the expression that cannot be read."""
    rule = Rule("user", "the rule given", "user", ((a, b),), c, VOCABULARY)
    parsed = parse_rule(rule)
    degree = max(parsed.c.degree(), *(1 + x.degree() + y.degree() for x, y in parsed.terms))
    if degree > MAX_DEGREE:
        raise ValueError(f"expected an update of degree at most {MAX_DEGREE} in S, got {degree}")
    used = parsed.c.names().union(*(x.names() | y.names() for x, y in parsed.terms))
    return Rule("user", rule.title, rule.source, rule.terms, c, {n: k for n, k in VOCABULARY.items() if n in used})


@dataclass(frozen=True)
class Examination:
    """What was found about a user's rule.

    `decision` holds for generic entries at `size`, the least of PROOF_SIZES that shows an obstruction; a potential
    exists at all of them, and for every d_v and d where `every_size` is True. The rest is about random instances in the
    domain of the names, None for a rule not affine in S: `agrees`, whether a float64 instance at LARGE gives the same
    answer; `bounded`, at how many of DRAWS the objective is bounded below, with a `direction` for one where it is not;
    `mended`, at how many a rule without a potential has one in another inner product; `radius`, the least and greatest
    spectral radius of the transition.
    """

    decision: Decision
    size: tuple[int, int]
    potential: str
    every_size: bool = False
    agrees: bool | None = None
    bounded: int | None = None
    direction: str = ""
    mended: int | None = None
    radius: tuple[float, float] | None = None


LARGE = (5, 7)
SECONDS = 20.0  # of symbolic algebra; the rules of the catalogue need less than one


class TooSlow(Exception):
    """The symbolic proof did not end in time; `symmetric` is a float64 instance's word, None for a rule not affine."""

    def __init__(self, seconds: float, symmetric: bool | None) -> None:
        super().__init__(f"the symbolic proof did not end within {seconds:g} s")
        self.symmetric = symmetric


def examine(rule: Rule, seed: int = 0, seconds: float = SECONDS) -> Examination:
    """Decide for a potential, then look at random instances in the domain of the names used.

    Raises ValueError for a rule that does not exist at some size (a division by zero, say), and TooSlow where the
    symbolic algebra does not end in `seconds`, which are kept in the main thread of a POSIX process only.
    """
    affine = _is_affine(rule)
    symmetric = _is_symmetric_at_large(rule, seed) if affine else None
    try:
        with time_limit(seconds):
            return _examine(rule, seed, symmetric)
    except TimeoutError:
        raise TooSlow(seconds, symmetric) from None


def _is_affine(rule: Rule) -> bool:
    parsed = parse_rule(rule)
    return max(parsed.c.degree(), *(1 + a.degree() + b.degree() for a, b in parsed.terms)) <= 1


def _examine(rule: Rule, seed: int, symmetric: bool | None) -> Examination:
    decisions = {}
    for size in PROOF_SIZES:
        entries = generic(rule.kinds, *size)
        decisions[size] = decide(apply(rule, entries, SYMBOLIC), entries["S"])
    size = next((s for s in PROOF_SIZES if not decisions[s].exists), (2, 2))
    decision = decisions[size]
    potential = _matrix_form(rule) if decision.exists else ""
    every_size = decision.exists and _holds_for_every_size(rule)
    if symmetric is None:
        return Examination(decision, size, potential, every_size)
    agrees = symmetric == decision.exists
    radii, bounded, direction, mended = _instances(rule, decision.exists, seed)
    return Examination(
        decision,
        size,
        potential,
        every_size,
        agrees,
        bounded if decision.exists else None,
        direction,
        None if decision.exists else mended,
        (min(radii), max(radii)),
    )


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the body after `seconds`; no limit outside the main thread or where there is no SIGALRM."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)  # again, should the body swallow the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _holds_for_every_size(rule: Rule) -> bool:
    """Whether A and B are both symmetric, both skew, or one is zero, as words; False also where they are no words."""
    parsed = parse_rule(rule)
    if any("S" in node.names() for node in (parsed.c, *parsed.terms[0])):
        return False
    algebra = Words()
    named = words(algebra, rule.kinds)
    try:
        a, b = (evaluate(x, named | {"I": named[i]}, algebra) for x, i in zip(parsed.terms[0], ("Iv", "Id")))
    except ValueError:
        return False
    symmetric, skew = ([turn(m).is_zero for m in (a, b)] for turn in (lambda m: m - m.T, lambda m: m + m.T))
    return all(symmetric) or all(skew) or a.is_zero or b.is_zero


def _matrix_form(rule: Rule) -> str:
    """P's formula with the user's A, B and C in it, or "" where one of them depends on S."""
    parsed = parse_rule(rule)
    ((a, b),) = rule.terms
    if any("S" in node.names() for node in (parsed.c, *parsed.terms[0])):
        return ""
    write = lambda node, text: f"({text})" if node.op in ("+", "-") else text  # noqa: E731
    return (
        f"norm2(S)/2 - tr(S.T*{write(parsed.terms[0][0], a)}*S*{write(parsed.terms[0][1], b)})/2 - tr(({rule.c}).T*S)"
    )


def numeric_jacobian(rule: Rule, values: Mapping[str, Any]) -> np.ndarray:
    """∂vec U/∂vec S of an update affine in S, one column an entry of S."""
    state = values["S"]
    origin = apply(rule, {**values, "S": np.zeros_like(state)}, NUMERIC).ravel()
    units = np.eye(state.size).reshape(state.size, *state.shape)
    columns = [apply(rule, {**values, "S": unit}, NUMERIC).ravel() - origin for unit in units]
    return np.stack(columns, axis=1)


def _is_symmetric_at_large(rule: Rule, seed: int, size: tuple[int, int] = LARGE) -> bool:
    jacobian = numeric_jacobian(rule, draw(rule.kinds, *size, np.random.default_rng(seed)))
    return bool(np.abs(jacobian - jacobian.T).max() <= 1e-9 * (1 + np.abs(jacobian).max()))


def _instances(rule: Rule, exists: bool, seed: int) -> tuple[list[float], int, str, int]:
    radii: list[float] = []
    bounded = mended = 0
    direction = ""
    for number in range(DRAWS):
        values = draw(rule.kinds, 2, 3, np.random.default_rng([seed, number]))
        jacobian = numeric_jacobian(rule, values)
        radii.append(float(np.abs(np.linalg.eigvals(jacobian)).max()))
        if exists:
            falls = _falling_direction(jacobian, values["S"] - apply(rule, values, NUMERIC), values["S"])
            bounded += falls is None
            direction = direction or (falls or "")
        else:
            mended += _has_other_potential(rule, seed + number)
    return radii, bounded, direction, mended


def _falling_direction(jacobian: np.ndarray, gradient: np.ndarray, state: np.ndarray) -> str | None:
    """Why the quadratic objective has no lower bound, or None: negative curvature, or a slope where there is none."""
    hessian = np.eye(state.size) - (jacobian + jacobian.T) / 2
    curvature, vectors = np.linalg.eigh(hessian)
    tolerance = 1e-9 * max(1.0, float(np.abs(curvature).max()))
    if curvature[0] < -tolerance:
        return f"curvature {curvature[0]:.3g} along one direction"
    flat = vectors[:, np.abs(curvature) <= tolerance]
    slope = float(np.linalg.norm(flat.T @ (gradient.ravel() - hessian @ state.ravel())))
    if slope > 1e-7:
        return f"slope {slope:.3g} along a direction without curvature"
    return None


def _has_other_potential(rule: Rule, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    values = generic(rule.kinds, 2, 2)
    jacobian = decide(apply(rule, values, SYMBOLIC), values["S"]).jacobian
    exact = {s: _exact_value(s, rule, rng) for s in sorted(jacobian.free_symbols, key=str)}
    return has_real_eigenbasis(jacobian.subs(exact))


def _exact_value(symbol: Any, rule: Rule, rng: np.random.Generator) -> Any:
    name = max((n for n in rule.kinds if str(symbol).startswith(n)), key=len)
    kind = rule.kinds[name]
    if "rate" in kind or kind in ("positive", "precision"):
        # diagonally dominant enough for a precision: diagonal entries above 2, others below 1
        large = kind == "precision" and len(set(str(symbol)[len(name) :])) == 1
        return sympy.Rational(int(rng.integers(1, 16)), 16) + (2 if large else 0)
    return sympy.Rational(int(rng.integers(-16, 17)), 8)
