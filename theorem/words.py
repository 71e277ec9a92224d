"""Matrix expressions of unspecified size, as noncommutative polynomials: proofs that hold for every d_v and d.

A matrix is a sum of words in letters (S, k, v, diag(λ), (R + k kᵀ)⁻¹, …, each possibly transposed) with scalar
coefficients; a word that passes through dimension 1 twice has a scalar inside, which moves into the coefficient as the
trace of a cyclic word. Equal normal forms mean equal matrices at every size. The converse may fail (in small dimensions
traces satisfy further identities), so a difference proves nothing.

Relations used: identities vanish; symmetric letters equal their transposes; diagonal letters commute, diag(x) 1 = x;
E⁻¹ E = E E⁻¹ = I, applied to the first word of E.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import sympy

from theorem.rule import KINDS
from theorem.rule_expression import SCALAR, Shape

ONE = sympy.Integer(1)


@dataclass(frozen=True, order=True)
class Letter:
    """A matrix with a name. `kind` is "plain", "symmetric" or "diagonal"; `turned` says that it is transposed."""

    name: str
    shape: Shape = field(compare=False)
    kind: str = field(default="plain", compare=False)
    turned: bool = False

    @property
    def T(self) -> Letter:
        if self.kind != "plain":
            return self
        return Letter(self.name, (self.shape[1], self.shape[0]), self.kind, not self.turned)

    def __str__(self) -> str:
        return self.name + ("'" if self.turned else "")


Word = tuple[Letter, ...]


class Polynomial:
    """A matrix of that shape: a sum of coefficient times word, the empty word being the identity."""

    def __init__(self, algebra: Words, shape: Shape, terms: Mapping[Word, Any]) -> None:
        self.algebra = algebra
        self.shape = shape
        collected: dict[Word, Any] = {}
        for word, coefficient in terms.items():
            for normal, factor in algebra.normal(word):
                collected[normal] = collected.get(normal, 0) + coefficient * factor
        self.terms = {w: c for w, c in collected.items() if not _vanishes(c)}

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for word, coefficient in other.terms.items():
            terms[word] = terms.get(word, 0) + coefficient
        return Polynomial(self.algebra, self.shape, terms)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, scalar: Any) -> Polynomial:
        return Polynomial(self.algebra, self.shape, {w: c * scalar for w, c in self.terms.items()})

    __rmul__ = __mul__

    def __truediv__(self, scalar: Any) -> Polynomial:
        return self * (1 / scalar)

    @property
    def T(self) -> Polynomial:
        turned = {tuple(letter.T for letter in reversed(w)): c for w, c in self.terms.items()}
        return Polynomial(self.algebra, (self.shape[1], self.shape[0]), turned)

    def __getitem__(self, _: tuple[int, int]) -> Any:
        """The one entry of a 1 x 1 matrix."""
        return self.trace()

    def trace(self) -> Any:
        return sum((c * self.algebra.trace(w, self.shape[0]) for w, c in self.terms.items()), sympy.S(0))

    @property
    def is_zero(self) -> bool:
        return not self.terms


def _vanishes(coefficient: Any) -> bool:
    return bool(sympy.expand(sympy.fraction(sympy.together(coefficient))[0]) == 0)


class Words:
    """The algebra: what `theorem.rule_expression.evaluate` calls. It remembers the traces and inverses it has named."""

    def __init__(self) -> None:
        self.traces: dict[Any, Word] = {}
        self.inverses: dict[str, Polynomial] = {}

    def number(self, text: str) -> Any:
        return sympy.Rational(text)

    def sqrt(self, x: Any) -> Any:
        return sympy.sqrt(x)

    def letter(self, name: str, shape: Shape, kind: str = "plain") -> Polynomial:
        return Polynomial(self, shape, {(Letter(name, shape, kind),): ONE})

    def identity(self, dimension: str) -> Polynomial:
        return Polynomial(self, (dimension, dimension), {(): ONE})

    def matmul(self, x: Polynomial, y: Polynomial) -> Polynomial:
        terms: dict[Word, Any] = {}
        for a, c in x.terms.items():
            for b, e in y.terms.items():
                terms[a + b] = terms.get(a + b, 0) + c * e
        return Polynomial(self, (x.shape[0], y.shape[1]), terms)

    def inner(self, x: Polynomial, y: Polynomial) -> Any:
        return self.matmul(x.T, y).trace()

    def hadamard(self, x: Polynomial, y: Polynomial) -> Polynomial:
        """Of two columns: diag(x) y. Raises ValueError for other shapes."""
        if x.shape[1] != "1":
            raise ValueError("the product of two matrices entry by entry is not a word")
        return self.matmul(self.diag(x), y)

    def diag(self, x: Polynomial) -> Polynomial:
        """Linear in x; diag(1) = I, diag(D x) = D diag(x) for diagonal D."""
        square = (x.shape[0], x.shape[0])
        result = Polynomial(self, square, {})
        for word, coefficient in x.terms.items():
            *front, last = word
            if any(letter.kind != "diagonal" for letter in front):
                raise ValueError("diag of a product is not a word")
            end = () if last.name in ("ones", "onesv") else (Letter(f"diag({last})", square, "diagonal"),)
            result = result + Polynomial(self, square, {(*front, *end): coefficient})
        return result

    def inv(self, x: Polynomial) -> Polynomial:
        """A new letter with its relation. Raises ValueError where x is not symmetric."""
        if not (x - x.T).is_zero:
            raise ValueError("the inverse of a matrix that is not symmetric is not a word")
        name = "inv(" + " + ".join(f"{c}*{'.'.join(map(str, w))}" for w, c in sorted(x.terms.items(), key=str)) + ")"
        self.inverses[name] = x
        diagonal = all(letter.kind == "diagonal" for word in x.terms for letter in word)
        return self.letter(name, x.shape, "diagonal" if diagonal else "symmetric")

    def normal(self, word: Word) -> list[tuple[Word, Any]]:
        """The word as a sum of normal words with scalar factors."""
        word = self._ordered(word)
        for i in range(len(word) - 1):
            for replaced in self._related(word[i], word[i + 1]):
                found: list[tuple[Word, Any]] = []
                for middle, factor in replaced:
                    rest = self.normal(word[:i] + middle + word[i + 2 :])
                    found += [(w, factor * c) for w, c in rest]
                return found
        cuts = [i for i in range(1, len(word)) if word[i].shape[0] == "1"]
        if word and word[0].shape[0] == "1":
            cuts.insert(0, 0)
        if word and word[-1].shape[1] == "1":
            cuts.append(len(word))
        if len(cuts) < 2 or (len(cuts) == 2 and cuts == [0, len(word)]):
            return [(word, ONE)]
        factor = ONE
        for start, end in pairwise(cuts):
            factor *= self.trace(word[start:end], "1")
        return [(word[: cuts[0]] + word[cuts[-1] :], factor)]

    def _ordered(self, word: Word) -> Word:
        """Adjacent diagonal letters in order of name, an inverse beside what it inverts: they commute."""
        letters = list(word)
        key = self._place
        for end in range(len(letters) - 1, 0, -1):
            for i in range(end):
                if letters[i].kind == letters[i + 1].kind == "diagonal" and key(letters[i + 1]) < key(letters[i]):
                    letters[i], letters[i + 1] = letters[i + 1], letters[i]
        return tuple(letters)

    def _place(self, letter: Letter) -> tuple[str, bool]:
        relation = self.inverses.get(letter.name)
        inverted = [w for w in relation.terms if len(w) == 1] if relation else []
        return (inverted[0][0].name, True) if inverted else (letter.name, False)

    def _related(self, x: Letter, y: Letter) -> list[list[tuple[Word, Any]]]:
        """What the pair x y is replaced by, at most one list of words with factors."""
        if x.kind == "diagonal" and y.name in ("ones", "onesv") and x.name.startswith("diag("):
            return [[((Letter(x.name[5:-1], y.shape),), ONE)]]
        if y.kind == "diagonal" and x.name in ("ones", "onesv") and y.name.startswith("diag("):
            return [[((Letter(y.name[5:-1], (x.shape[1], "1")).T,), ONE)]]
        for inverse, other, before in ((x, y, True), (y, x, False)):
            relation = self.inverses.get(inverse.name)
            if relation is None:
                continue
            lead, weight = min(relation.terms.items(), key=lambda item: (len(item[0]), str(item[0])))
            if lead != (other,):
                continue
            rest = [(w, -c / weight) for w, c in relation.terms.items() if w != lead]
            moved = [((inverse, *w) if before else (*w, inverse), c) for w, c in rest]
            return [[((), 1 / weight), *moved]]
        return []

    def trace(self, word: Word, dimension: str) -> Any:
        """tr(word) as a symbol, the same for its rotations and its transpose; a dimension for the empty word."""
        if not word:
            return ONE if dimension == "1" else sympy.Symbol({"v": "d_v"}.get(dimension, dimension))
        turned = tuple(letter.T for letter in reversed(word))
        rotations = [self._ordered(w[i:] + w[:i]) for w in (word, turned) for i in range(len(w))]
        least = min(rotations, key=lambda w: [(letter.name, letter.turned) for letter in w])
        symbol = sympy.Symbol("tr(" + ".".join(map(str, least)) + ")")
        self.traces[symbol] = least
        return symbol

    def gradient(self, scalar: Any, state: Letter) -> Polynomial:
        """∂/∂S of a scalar made of traces: ∂tr(X S Y)/∂S = Xᵀ Yᵀ, ∂tr(X Sᵀ Y)/∂S = Y X."""
        result = Polynomial(self, state.shape, {})
        for symbol in sorted(scalar.free_symbols & set(self.traces), key=str):
            slope = sympy.diff(scalar, symbol)
            word = self.traces[symbol]
            for i, letter in enumerate(word):
                if letter.name != state.name:
                    continue
                around = word[i + 1 :] + word[:i]  # Y X
                if not letter.turned:
                    around = tuple(e.T for e in reversed(around))
                result = result + Polynomial(self, state.shape, {around: slope})
        return result


def values(algebra: Words, kinds: Mapping[str, str]) -> dict[str, Any]:
    """A letter for each matrix of `kinds`, a symbol for each scalar, and the constants of the language."""
    found: dict[str, Any] = {}
    for name, kind in kinds.items():
        shape = KINDS[kind]
        if shape == SCALAR:
            found[name] = sympy.Symbol(name, positive=True) if kind != "real" else sympy.Symbol(name, real=True)
        else:
            found[name] = algebra.letter(name, shape, "symmetric" if kind == "precision" else "plain")
    columns = {"ones": algebra.letter("ones", ("d", "1")), "onesv": algebra.letter("onesv", ("v", "1"))}
    return found | columns | {"Id": algebra.identity("d"), "Iv": algebra.identity("v")}
