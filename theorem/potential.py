"""When an update of a memory is a gradient step, decided exactly.

S_t = U(S_{t-1}) is a gradient step of unit size if S - U(S) is the gradient of some L, which on all of R^{d_v x d}
holds if and only if the Jacobian of U is symmetric. For U(S) = A S B + C it is A ⊗ Bᵀ (rows of S one after another).

P App. B says that L exists only if A and B are symmetric. With A_s, A_k the symmetric and the skew part of A,

    ‖(M - Mᵀ)/2‖² = ‖A_s‖² ‖B_k‖² + ‖A_k‖² ‖B_s‖²,   M = A ⊗ Bᵀ,

in the Frobenius norm, so over the reals M is symmetric if and only if both factors are symmetric, both are skew, or one
is zero. (No scalar can be moved between the factors to gain more: the three classes are closed under scaling.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy


@dataclass(frozen=True)
class Decision:
    """Whether an update has a potential: L if so (up to a constant), else the antisymmetric part of its Jacobian."""

    exists: bool
    jacobian: Any  # (d_v d) x (d_v d), rows of S one after another
    obstruction: Any  # (J - J^T)/2, zero if and only if a potential exists
    potential: Any  # a sympy expression, or None


def decide(update: Any, state: Any) -> Decision:
    """Decide for `update`, a sympy matrix of polynomials in the entries of the symbolic matrix `state`."""
    entries = list(state)
    jacobian = sympy.Matrix(update).reshape(len(entries), 1).jacobian(entries)
    # no constant factor is divided out: a symmetric polynomial matrix gives an exact zero after expansion
    obstruction = ((jacobian - jacobian.T) / 2).applyfunc(_normal)
    if any(entry != 0 for entry in obstruction):
        return Decision(False, jacobian, obstruction, None)
    return Decision(True, jacobian, obstruction, _potential(state - update, entries))


def _normal(entry: Any) -> Any:
    """`entry` in a form that is 0 if it vanishes identically (a rational function of the symbols)."""
    numerator, denominator = sympy.fraction(sympy.together(entry))
    return sympy.Integer(0) if sympy.expand(numerator) == 0 else sympy.factor(numerator / denominator)


def _potential(gradient: Any, entries: list[Any]) -> Any:
    """L with that gradient: the integral of <gradient(sS), S> for s from 0 to 1, a term s^n giving 1/(n+1)."""
    s = sympy.Dummy("s")
    ray = sum(
        (g.subs([(e, s * e) for e in entries], simultaneous=True) * e for g, e in zip(gradient, entries)), sympy.S(0)
    )
    return sympy.expand(sympy.integrate(sympy.expand(ray), (s, 0, 1)))


def parts(matrix: Any) -> tuple[Any, Any]:
    """The symmetric and the skew-symmetric part of a square matrix."""
    return (matrix + matrix.T) / 2, (matrix - matrix.T) / 2


def self_adjoint_defect(a: Any, b: Any) -> Any:
    """‖(M - Mᵀ)/2‖² for M = A ⊗ Bᵀ by the formula above: 0 if and only if S ↦ A S B is self-adjoint (real entries)."""
    (a_s, a_k), (b_s, b_k) = parts(a), parts(b)
    return _square(a_s) * _square(b_k) + _square(a_k) * _square(b_s)


def _square(matrix: Any) -> Any:
    return sum((e**2 for e in matrix), sympy.S(0))


def defect_by_definition(a: Any, b: Any) -> Any:
    """The same number from the Kronecker product itself: what the formula is checked against."""
    return _square(parts(sympy.kronecker_product(a, b.T))[1])


def condition_is_proved(m: int, n: int) -> bool:
    """Whether the formula is an identity for generic A (m x m) and B (n x n)."""
    a = sympy.Matrix(m, m, lambda i, j: sympy.Symbol(f"a{i}{j}", real=True))
    b = sympy.Matrix(n, n, lambda i, j: sympy.Symbol(f"b{i}{j}", real=True))
    return bool(sympy.expand(self_adjoint_defect(a, b) - defect_by_definition(a, b)) == 0)


def condition_is_proved_for_every_size() -> bool:
    """The formula from ‖M‖² = ‖A‖²‖B‖² and <M, Mᵀ> = tr(A²) tr(B²), in the squared norms of the four parts.

    ‖(M - Mᵀ)/2‖² = (‖M‖² - <M, Mᵀ>)/2, ‖A‖² = a_s + a_k and tr(A²) = a_s - a_k, because tr(A_s A_k) = 0.
    """
    a_s, a_k, b_s, b_k = sympy.symbols("a_s a_k b_s b_k", nonnegative=True)
    left = ((a_s + a_k) * (b_s + b_k) - (a_s - a_k) * (b_s - b_k)) / 2
    return bool(sympy.expand(left - (a_s * b_k + a_k * b_s)) == 0)


def has_real_eigenbasis(matrix: Any) -> bool:
    """Whether an exact rational matrix is diagonalisable over the reals, decided by counting roots (Sturm).

    This is the condition for a potential in *some* inner product: S - U(S) is then a preconditioned gradient step.
    """
    x = sympy.Symbol("x")  # a Dummy would be renamed by charpoly
    polynomial = sympy.Poly(matrix.charpoly(x).as_expr(), x)
    distinct = sympy.Poly(sympy.quo(polynomial, sympy.gcd(polynomial, polynomial.diff(x))), x)
    if distinct.count_roots() < distinct.degree():
        return False
    value = sympy.zeros(*matrix.shape)
    for coefficient in distinct.all_coeffs():
        value = value * matrix + coefficient * sympy.eye(matrix.rows)
    return bool(value.is_zero_matrix)


def kronecker_rank(jacobian: Any, rows: int, columns: int) -> int:
    """The least number of terms A S B that the linear map with this exact Jacobian is a sum of.

    `jacobian` acts on states of shape rows x columns; the rearrangement [(i, k), (j, l)] of J[(i, j), (k, l)] has
    rank 1 exactly for a Kronecker product (Van Loan and Pitsianis 1993).
    """
    rearranged = sympy.zeros(rows * rows, columns * columns)
    for i in range(rows):
        for j in range(columns):
            for k in range(rows):
                for l in range(columns):
                    rearranged[i * rows + k, j * columns + l] = jacobian[i * columns + j, k * columns + l]
    return int(rearranged.rank())
