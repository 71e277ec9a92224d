"""What can be proved about the update rule of an associative memory (P §2.2, App. B): see `theorem.rule` for its form.

For each rule: S - U(S) = (∂L/∂S) P as an identity in generic entries at several small sizes and in float64 at a large
random one; whether its objective is bounded below; the spectrum of the transition; and its equivalence to other rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from theorem.potential import Decision, decide
from theorem.rule import KINDS, Equivalence, Rule, shapes
from theorem.rule_expression import NUMERIC, SCALAR, STATE, SYMBOLIC, Node, evaluate, parse

SIZES = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2))  # (d_v, d) of the symbolic proofs
LARGE = (17, 23)  # (d_v, d) of the numeric ones


@dataclass(frozen=True)
class Parsed:
    """A rule's expressions, read."""

    terms: tuple[tuple[Node, Node], ...]
    c: Node


def parse_rule(rule: Rule) -> Parsed:
    """Read A, B and C. Raises ValueError naming the one that cannot be read."""
    read = []
    for a, b in rule.terms:
        read.append((_named("A", a, rule.kinds, "v"), _named("B", b, rule.kinds, "d")))
    return Parsed(tuple(read), _named("C", rule.c, rule.kinds, ""))


def _named(what: str, text: str, kinds: Mapping[str, str], identity: str) -> Node:
    try:
        return parse(text, shapes(kinds, identity), (identity, identity) if identity else STATE)
    except ValueError as error:
        raise ValueError(f"{what} = {text}: {error}") from None


def generic(kinds: Mapping[str, str], d_v: int, d: int, *, domain: bool = False) -> dict[str, Any]:
    """Symbolic values with generic real entries; with `domain`, entries that carry the sign their kind promises."""
    size = {"v": d_v, "d": d, "1": 1}
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        rows, columns = (size[n] for n in KINDS[kind])
        labels = [[_label(name, i, j, kind, columns) for j in range(columns)] for i in range(rows)]
        entries = [[_symbol(label, kind if domain else "real") for label in row] for row in labels]
        values[name] = entries[0][0] if KINDS[kind] == SCALAR else sympy.Matrix(entries)
    return values | _constants_symbolic(d_v, d)


def _label(name: str, i: int, j: int, kind: str, columns: int) -> str:
    if KINDS[kind] == SCALAR:
        return name
    if kind == "precision":
        i, j = sorted((i, j))
    return f"{name}{i + 1}" + (f"{j + 1}" if columns > 1 else "")


def _symbol(label: str, kind: str) -> Any:
    if kind in ("rate", "key rates"):
        # r = 1/(1 + s) with s > 0 covers (0, 1) and makes 1 - r positive for sympy as well
        return 1 / (1 + sympy.Symbol(f"{label}_odds", positive=True))
    return sympy.Symbol(label, real=True, **({"positive": True} if kind in POSITIVE else {}))


POSITIVE = ("positive", "value rates")


def _constants_symbolic(d_v: int, d: int) -> dict[str, Any]:
    return {"Id": sympy.eye(d), "Iv": sympy.eye(d_v), "ones": sympy.ones(d, 1), "onesv": sympy.ones(d_v, 1)}


def draw(kinds: Mapping[str, str], d_v: int, d: int, rng: np.random.Generator) -> dict[str, Any]:
    """Random float64 values in each kind's domain."""
    size = {"v": d_v, "d": d, "1": 1}
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        shape = tuple(size[n] for n in KINDS[kind])
        if kind == "precision":
            factor = rng.standard_normal(shape)
            values[name] = factor @ factor.T / shape[0] + np.eye(shape[0])
        elif "rate" in kind or kind == "positive":
            values[name] = rng.uniform(0.05, 0.95, shape)
        else:
            values[name] = rng.standard_normal(shape)
        if KINDS[kind] == SCALAR:
            values[name] = float(values[name][0, 0])
    constants = {"Id": np.eye(d), "Iv": np.eye(d_v), "ones": np.ones((d, 1)), "onesv": np.ones((d_v, 1))}
    return values | constants


def apply(rule: Rule, values: Mapping[str, Any], algebra: Any) -> Any:
    """U(S) for the values given, in the algebra given: a d_v x d matrix."""
    read = parse_rule(rule)
    total = evaluate(read.c, values, algebra)
    for a, b in read.terms:
        left = evaluate(a, {**values, "I": values["Iv"]}, algebra)
        right = evaluate(b, {**values, "I": values["Id"]}, algebra)
        total = total + algebra.matmul(algebra.matmul(left, values["S"]), right)
    return total


def value(rule: Rule, text: str, values: Mapping[str, Any], algebra: Any) -> Any:
    """One of the rule's other expressions (objective, preconditioner, witness), evaluated."""
    return evaluate(parse(text, shapes(rule.kinds)), values, algebra)


def decide_rule(rule: Rule, d_v: int = 2, d: int = 2) -> Decision:
    """Whether the rule is a plain gradient step, for generic entries at that size."""
    values = generic(rule.kinds, d_v, d)
    return decide(apply(rule, values, SYMBOLIC), values["S"])


def gradient(objective: Any, state: Any) -> Any:
    """∂L/∂S as a matrix."""
    return sympy.Matrix(state.rows, state.cols, lambda i, j: sympy.diff(objective, state[i, j]))


def gradient_identity(rule: Rule, d_v: int, d: int) -> bool:
    """Whether S - U(S) = (∂L/∂S) P identically in the symbols, at that size."""
    values = generic(rule.kinds, d_v, d)
    slope = gradient(value(rule, rule.objective, values, SYMBOLIC), values["S"])
    step = slope * value(rule, rule.preconditioner, values, SYMBOLIC)
    return vanishes(values["S"] - apply(rule, values, SYMBOLIC) - step)


def vanishes(matrix: Any) -> bool:
    """Whether every entry, a rational function, is identically 0."""
    return all(sympy.expand(sympy.fraction(sympy.together(e))[0]) == 0 for e in matrix)


def gradient_residual(rule: Rule, seed: int, d_v: int = LARGE[0], d: int = LARGE[1]) -> float:
    """The largest relative error of the gradient identity along random directions at a large random instance.

    L is quadratic in S, so (L(S+D) - L(S-D))/2 is its slope along D without truncation error.
    """
    rng = np.random.default_rng(seed)
    values = draw(rule.kinds, d_v, d, rng)
    step = values["S"] - apply(rule, values, NUMERIC)
    slope = step @ np.linalg.inv(value(rule, rule.preconditioner, values, NUMERIC))
    worst = 0.0
    for _ in range(8):
        direction = rng.standard_normal((d_v, d))
        ends = [value(rule, rule.objective, {**values, "S": values["S"] + s * direction}, NUMERIC) for s in (1, -1)]
        scale = max(abs(e) for e in ends) + np.linalg.norm(slope) * np.linalg.norm(direction)
        worst = max(worst, abs((ends[0] - ends[1]) / 2 - float((slope * direction).sum())) / scale)
    return worst


@dataclass(frozen=True)
class Boundedness:
    """Whether inf L > -∞, with what shows it: a minimiser, or the slope of L along a direction in which L is linear."""

    bounded: bool
    proved: bool
    reason: str


SMALL = (2, 2)  # (d_v, d) of the proofs that an objective is bounded below or not, and of the spectra


def boundedness(rule: Rule, d_v: int = SMALL[0], d: int = SMALL[1]) -> Boundedness:
    """Prove the rule's word on its objective, for generic entries in the domain of its kinds.

    Bounded: ∂L/∂S = 0 at `witness` and the Hessian's principal minors are all nonnegative, so the witness is a global
    minimum. Unbounded: L(sD) - L(0) = s·f for the direction D = `witness` with f free of s and not identically 0, so L
    falls without end on one side of it for all but a null set of values.
    """
    values = generic(rule.kinds, d_v, d, domain=True)
    objective = value(rule, rule.objective, values, SYMBOLIC)
    witness = value(rule, rule.witness, values, SYMBOLIC)
    entries = list(values["S"])
    if rule.bounded:
        slope = gradient(objective, values["S"]).subs(dict(zip(entries, witness)), simultaneous=True)
        hessian = sympy.hessian(objective, entries)
        convex = _is_positive_semidefinite(hessian)
        return Boundedness(True, vanishes(slope) and convex, f"convex, and its gradient vanishes at {rule.witness}")
    s = sympy.Symbol("s", real=True)
    ray = [objective.subs(dict(zip(entries, scale * witness)), simultaneous=True) for scale in (s, 0)]
    slope = sympy.factor((ray[0] - ray[1]) / s)
    return Boundedness(False, s not in slope.free_symbols and slope != 0, f"linear along {rule.witness}, without end")


def _is_positive_semidefinite(matrix: Any) -> bool:
    """Every principal minor of every block is a sum of monomials that are nonnegative by the symbols' assumptions."""
    from itertools import combinations

    blocks = {matrix.extract(block, block).as_immutable() for block in matrix.connected_components()}
    for block in blocks:
        for size in range(1, block.rows + 1):
            for chosen in combinations(range(block.rows), size):
                minor = sympy.factor(block.extract(list(chosen), list(chosen)).det(method="berkowitz"))
                if not _is_nonnegative(minor):
                    return False
    return True


def _is_nonnegative(expression: Any) -> bool:
    numerator, denominator = sympy.fraction(sympy.together(expression))
    monomials = sympy.Add.make_args(sympy.expand(numerator))
    return bool(sympy.factor(denominator).is_positive) and all(m.is_nonnegative is True for m in monomials)


def spectrum_is_proved(rule: Rule, d_v: int = SMALL[0], d: int = SMALL[1]) -> bool:
    """Whether the characteristic polynomial of S ↦ U(S) - C is Π (x - λ)^m for the rule's list, identically."""
    values = generic(rule.kinds, d_v, d)
    jacobian = decide(apply(rule, values, SYMBOLIC), values["S"]).jacobian
    x = sympy.Symbol("x")
    claimed = sympy.Integer(1)
    for text, multiplicity in rule.spectrum:
        node = parse(text, shapes(rule.kinds))
        root = evaluate(node, values, SYMBOLIC)
        count = parse(multiplicity, {"d_v": SCALAR, "d": SCALAR})
        power = int(evaluate(count, {"d_v": d_v, "d": d}, SYMBOLIC))
        roots = [root] if node.shape == SCALAR else list(root)
        for r in roots:
            claimed *= (x - r) ** power
    found = (x * sympy.eye(d_v * d) - jacobian).det(method="berkowitz")
    return vanishes([found - claimed])


def equivalence_is_proved(rule: Rule, other: Rule, claim: Equivalence, d_v: int = 2, d: int = 2) -> bool:
    """Whether both updates are the same matrix, identically in the remaining symbols."""
    names = {**rule.kinds, **claim.free}
    values = generic(names, d_v, d)

    def read(texts: Mapping[str, str]) -> dict[str, Any]:
        return {n: evaluate(parse(text, shapes(names)), values, SYMBOLIC) for n, text in texts.items()}

    values = values | read(claim.here)
    shared = {name: values[name] for name in ("S", "k", "v")}
    there = generic(other.kinds, d_v, d) | shared | read(claim.there)
    return vanishes(apply(rule, values, SYMBOLIC) - apply(other, there, SYMBOLIC))


def holds_for_every_size(rule: Rule) -> bool | None:
    """Whether S - U(S) = (∂L/∂S) P as noncommutative polynomials, hence for every d_v and d.

    None where the words do not settle it: an expression that is no word, or a difference, which may still vanish.
    """
    from theorem.words import Letter, Words, values

    algebra = Words()
    named = values(algebra, rule.kinds)
    try:
        objective = value(rule, rule.objective, named, algebra)
        step = named["S"] - apply(rule, named, algebra)
        slope = algebra.gradient(objective, Letter("S", STATE))
        gap = step - algebra.matmul(slope, value(rule, rule.preconditioner, named, algebra))
    except ValueError:
        return None
    return True if gap.is_zero else None
