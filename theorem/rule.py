"""What an update rule is: text, so that proofs, large numeric instances and a user's own rule share one path.

A rule writes S_t = Σ_m A_m S_{t-1} B_m + C; P's form (P §2.2) has one term. Its objective L satisfies

    S_t = S_{t-1} - ∂L/∂S (S_{t-1}) P,

where the preconditioner P is the identity for a plain gradient step. Conventions differ between papers: here S is
d_v x d and is read as S k, as in P; RWKV-7, Mamba-2 and the fla kernels keep the transpose.

Expressions are text of `theorem.rule_expression`. Importing this file costs nothing: the ledger lists rules from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from theorem.rule_expression import KEY, SCALAR, STATE, VALUE, Shape, parse

# how a name is drawn: its shape, and the domain in which the claims about a rule hold
KINDS: dict[str, Shape] = {
    "state": STATE,
    "key": KEY,
    "key rates": KEY,  # entries in (0, 1)
    "value": VALUE,
    "value rates": VALUE,  # entries > 0
    "precision": ("d", "d"),  # symmetric positive definite
    "key matrix": ("d", "d"),
    "value matrix": ("v", "v"),
    "real": SCALAR,
    "positive": SCALAR,
    "rate": SCALAR,  # in (0, 1)
}
ALWAYS = {"S": "state", "k": "key", "v": "value"}


@dataclass(frozen=True)
class Equivalence:
    """Under `here` (names of this rule) and `there` (names of `other`) the two updates are the same matrix."""

    statement: str
    other: str
    here: Mapping[str, str] = field(default_factory=dict)
    there: Mapping[str, str] = field(default_factory=dict)
    free: Mapping[str, str] = field(default_factory=dict)  # further names that both may use, with their kinds


@dataclass(frozen=True)
class Rule:
    """One update rule, as text. Names beyond S, k and v are declared in `names` with their kind (see KINDS).

    `bounded` is True with the objective's minimiser in `witness`, or False with an unbounded direction in it; None for
    a rule without an objective. `spectrum` lists the eigenvalues of S ↦ U(S) - C with multiplicities in d_v and d, and
    is empty where they have no closed form.
    """

    name: str
    title: str
    source: str
    terms: tuple[tuple[str, str], ...]
    c: str
    names: Mapping[str, str] = field(default_factory=dict)
    objective: str = ""
    preconditioner: str = "Id"
    bounded: bool | None = None
    witness: str = ""
    spectrum: tuple[tuple[str, str], ...] = ()
    equivalences: tuple[Equivalence, ...] = ()
    note: str = ""

    @property
    def kinds(self) -> dict[str, str]:
        return {**ALWAYS, **self.names}

    @property
    def update(self) -> str:
        """The update as one line of text."""
        parts = [_product(a, b, self.kinds) for a, b in self.terms] + [self.c]
        return " + ".join(parts).replace("+ -", "- ")


def _product(a: str, b: str, kinds: Mapping[str, str]) -> str:
    left, right = _factor(a, shapes(kinds, "v")), _factor(b, shapes(kinds, "d"))
    return "*".join([*([left] if a != "I" else []), "S", *([right] if b != "I" else [])])


def _factor(text: str, names: Mapping[str, Shape]) -> str:
    return f"({text})" if parse(text, names).op in ("+", "-") else text


def shapes(kinds: Mapping[str, str], identity: str = "") -> dict[str, Shape]:
    """The names an expression may use: those of `kinds`, Id and Iv, all-ones columns, and I if `identity` is v or d."""
    known = {name: KINDS[kind] for name, kind in kinds.items()}
    known |= {"Id": ("d", "d"), "Iv": ("v", "v"), "ones": KEY, "onesv": VALUE}
    return known | ({"I": (identity, identity)} if identity else {})
