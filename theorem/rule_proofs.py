"""Everything that is proved about one rule of the catalogue, gathered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from theorem.potential import kronecker_rank
from theorem.rule import Rule
from theorem.rules import catalogue
from theorem.updates import (
    LARGE,
    SIZES,
    SMALL,
    Boundedness,
    boundedness,
    decide_rule,
    equivalence_is_proved,
    gradient_identity,
    gradient_residual,
    holds_for_every_size,
    spectrum_is_proved,
)

RESIDUAL = 1e-12  # float64 rounding of sums of a few hundred terms; a wrong term shows at order 1


@dataclass(frozen=True)
class Proofs:
    """What holds for one rule; None where the rule makes no such statement.

    `plain`: it is a gradient step in the Frobenius inner product. `terms`: the least number of terms A S B it needs.
    `identity`: S - U(S) = (∂L/∂S) P at all SIZES; `every_size`: for every d_v and d, by words (None where they do not
    settle it); `residual`: at LARGE in float64, relative.
    """

    plain: bool
    terms: int
    obstruction: Any
    identity: bool | None
    every_size: bool | None
    residual: float | None
    bounded: Boundedness | None
    spectrum: bool | None
    equivalences: dict[str, bool]

    @property
    def identities_hold(self) -> bool:
        """Whether every identity that the rule states is one; `bounded` is apart, as its proof may merely fail."""
        numeric = self.residual is None or self.residual < RESIDUAL
        return numeric and False not in (self.identity, self.spectrum, *self.equivalences.values())


def prove(rule: Rule) -> Proofs:
    """Run every proof for `rule`: a second or so each."""
    decision = decide_rule(rule)
    rules = catalogue()
    return Proofs(
        plain=decision.exists,
        terms=kronecker_rank(_instance(decision.jacobian, rule), 2, 2),
        obstruction=decision.obstruction,
        identity=all(gradient_identity(rule, *size) for size in SIZES) if rule.objective else None,
        every_size=holds_for_every_size(rule) if rule.objective else None,
        residual=gradient_residual(rule, seed=0) if rule.objective else None,
        bounded=boundedness(rule) if rule.objective else None,
        spectrum=spectrum_is_proved(rule) if rule.spectrum else None,
        equivalences={e.statement: equivalence_is_proved(rule, rules[e.other], e) for e in rule.equivalences},
    )


def _instance(jacobian: Any, rule: Rule) -> Any:
    """The Jacobian at one exact point, symbol number i set to (i+2)/(2i+5): its rank there is a lower bound."""
    import sympy

    symbols = sorted(jacobian.free_symbols, key=str)
    return jacobian.subs({s: sympy.Rational(i + 2, 2 * i + 5) for i, s in enumerate(symbols)})


def verdict_words(rule: Rule, proofs: Proofs) -> str:
    """One line of reason."""
    at = f"at d_v×d = {SMALL[0]}×{SMALL[1]}"
    words = [_identity_words(rule, proofs)] if rule.objective else []
    if not proofs.plain:
        words.append("the Jacobian is not symmetric, so no plain potential")
    if proofs.terms > 1:
        words.append(f"needs {proofs.terms} terms A S B, so outside P's form")
    if proofs.bounded:
        state = "bounded below" if proofs.bounded.bounded else "unbounded below"
        words.append(f"{state} {at} ({proofs.bounded.reason})" if proofs.bounded.proved else f"{state}: NOT proved")
    if rule.spectrum:
        listed = ", ".join(f"{value} ({count})" for value, count in rule.spectrum)
        words.append(f"spectrum {at} {listed}{'' if proofs.spectrum else ' NOT proved'}")
    words += [f"{text}{'' if holds else ': NOT proved'}" for text, holds in proofs.equivalences.items()]
    return "; ".join(words)


def _identity_words(rule: Rule, proofs: Proofs) -> str:
    assert proofs.residual is not None
    step = "∂L/∂S" if rule.preconditioner == "Id" else f"∂L/∂S · {rule.preconditioner}"
    sizes = f"{len(SIZES)} sizes up to {SIZES[-2][0]}×{SIZES[-2][1]} and {SIZES[-1][0]}×{SIZES[-1][1]}"
    every = ", for every size by noncommutative algebra" if proofs.every_size else ""
    symbolic = "identity" if proofs.identity else "NOT an identity"
    numeric = "within" if proofs.residual < RESIDUAL else "NOT within"
    return (
        f"S - U(S) = {step}: {symbolic} in generic entries at {sizes}{every}, "
        f"in float64 at {LARGE[0]}×{LARGE[1]} {numeric} {RESIDUAL:.0e}"
    )
