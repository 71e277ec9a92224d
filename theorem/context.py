"""Where a memory goes when its context never ends (P §2.2.2, App. F): limits, step sizes, noise floors.

Tokens x ~ N(0, Σ), keys k = W_k x, values v = W_v x. The best linear memory is S* = W_v Σ W_kᵀ (W_k Σ W_kᵀ)⁻¹, and the
error E = S - S* of DeltaNet obeys E ← E (I - β k kᵀ) + β ξ kᵀ with ξ = v - S* k, for Gaussian tokens independent of k.
Its second moments are therefore exact, not approximations. "Normalised keys" can mean two things:

1. the step is normalised, β/‖k‖²; equivalently key *and* value are divided by ‖k‖ (Kaczmarz, normalised LMS);
2. the key alone is divided by its norm. The memory then fits v to k/‖k‖, whose best linear answer is not S*.

P's convergence holds under 1. For isotropic keys 2 settles around E‖k‖ S*.
"""

from __future__ import annotations

import math
from itertools import pairwise, permutations, product
from typing import Any

import numpy as np
import sympy
from numpy.typing import NDArray

Array = NDArray[np.float64]


def optimum(w_k: Array, w_v: Array, sigma: Array) -> Array:
    """S* = W_v Σ W_kᵀ (W_k Σ W_kᵀ)⁻¹: [d_v, d] from [d, D], [d_v, D], [D, D].

    Raises ValueError where shapes do not fit or W_k Σ W_kᵀ is singular.
    """
    if w_k.ndim != 2 or w_v.ndim != 2 or sigma.shape != (w_k.shape[1],) * 2 or w_v.shape[1] != w_k.shape[1]:
        raise ValueError(f"expected [d, D], [d_v, D], [D, D], got {w_k.shape}, {w_v.shape}, {sigma.shape}")
    covariance = w_k @ sigma @ w_k.T
    if np.linalg.matrix_rank(covariance) < len(covariance):
        raise ValueError("W_k Σ W_kᵀ is singular: more key dimensions than token dimensions, or Σ is")
    return np.asarray(np.linalg.solve(covariance, w_k @ sigma @ w_v.T).T)


def projections(d: int, tokens: int, d_v: int, condition: float, seed: int) -> tuple[Array, Array]:
    """W_k [d, D] with singular values spread evenly around 1 up to that condition number, and W_v [d_v, D], random.

    Raises ValueError unless 1 ≤ d ≤ D and condition ≥ 1.
    """
    if not (1 <= d <= tokens and condition >= 1):
        raise ValueError(f"expected 1 ≤ d ≤ D and a condition number of at least 1, got {d}, {tokens}, {condition}")
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((d, d)))[0]
    right = np.linalg.qr(rng.standard_normal((tokens, tokens)))[0][:d]
    least = 2 / (1 + condition)
    w_v = rng.standard_normal((d_v, tokens)) / np.sqrt(tokens)
    return np.asarray(left * np.linspace(least, condition * least, d) @ right), w_v


def residual(w_k: Array, w_v: Array, sigma: Array) -> Array:
    """The covariance [d_v, d_v] of v - S* k, what no linear memory of these keys can recall."""
    gap = w_v - optimum(w_k, w_v, sigma) @ w_k
    return gap @ sigma @ gap.T


def depends_on_context(w_k: Any, w_v: Any) -> bool:
    """Whether S* changes with Σ, for exact (sympy) W_k of full row rank and W_v.

    It does not if and only if the rows of W_v lie in the row space of W_k; then S* is the M with W_v = M W_k. Otherwise
    `separating_covariance` is a Σ at which S* differs from its value at the identity.
    """
    return bool(w_k.col_join(w_v).rank() > w_k.rank())


def exact_optimum(w_k: Any, w_v: Any, sigma: Any) -> Any:
    """S* in exact arithmetic."""
    return w_v * sigma * w_k.T * (w_k * sigma * w_k.T).inv()


def separating_covariance(w_k: Any, w_v: Any) -> Any:
    """A positive definite Σ with S*(Σ) ≠ S*(I): I + ε (r wᵀ + w rᵀ), r the part of a value row outside the key rows.

    With R = W_v - S*(I) W_k, R W_kᵀ = 0, it gives S*(Σ) - S*(I) = ε R r (W_k w)ᵀ (W_k Σ W_kᵀ)⁻¹. Raises ValueError
    where S* does not depend on Σ.
    """
    identity = sympy.eye(w_k.cols)
    gap = w_v - exact_optimum(w_k, w_v, identity) * w_k
    row = next((gap[i, :] for i in range(gap.rows) if not gap[i, :].is_zero_matrix), None)
    if row is None:
        raise ValueError("S* does not depend on the covariance")
    w = w_k[0, :]
    cross = row.T * w + w.T * row
    size = sum(abs(e) for e in cross)
    return identity + cross / (2 * size)  # a perturbation of norm at most 1/2 keeps it positive definite


def error_operator(eigenvalues: Array, beta: float) -> Array:
    """F with y ← F y for y the diagonal of E[EᵀE] in the key covariance's eigenbasis, raw Gaussian keys.

    From E[k kᵀ Y k kᵀ] = 2 K Y K + tr(K Y) K: F = diag(1 - 2βλ + 2β²λ²) + β² λ λᵀ.
    """
    return np.diag(1 - 2 * beta * eigenvalues + 2 * beta**2 * eigenvalues**2) + beta**2 * np.outer(
        eigenvalues, eigenvalues
    )


def mean_square_limit(eigenvalues: Array) -> float:
    """The step size below which E‖S - S*‖² stays bounded for raw Gaussian keys: Σ βλ/(2(1-βλ)) = 1 and βλ < 1.

    For K = I it is 2/(d+2). Raises ValueError for eigenvalues that are not positive.
    """
    from scipy.optimize import brentq

    if not (np.all(eigenvalues > 0) and np.all(np.isfinite(eigenvalues))):
        raise ValueError("expected positive eigenvalues")
    top = 1 / float(eigenvalues.max())
    excess = lambda beta: float(np.sum(beta * eigenvalues / (2 * (1 - beta * eigenvalues)))) - 1  # noqa: E731
    return float(brentq(excess, 0.0, top * (1 - 1e-12)))


def noise_floor(eigenvalues: Array, beta: float, residual_trace: float) -> float:
    """lim E‖S - S*‖² for raw Gaussian keys: the sum of (I - F)⁻¹ β² tr(R) λ; for K = I, β tr(R) d / (2 - β(d+2)).

    Raises ValueError at or above `mean_square_limit`, where there is no limit.
    """
    if not 0 < beta < mean_square_limit(eigenvalues):
        raise ValueError(f"expected a step size in (0, {mean_square_limit(eigenvalues):.4g}), got {beta}")
    operator = np.eye(len(eigenvalues)) - error_operator(eigenvalues, beta)
    return float(np.linalg.solve(operator, beta**2 * residual_trace * eigenvalues).sum())


def normalised_floor(d: int, beta: float, residual_trace: float) -> float:
    """lim E‖S - S*‖² for keys N(0, I_d) and the step β/‖k‖²: β tr(R) d / ((2-β)(d-2)), infinite for d ≤ 2."""
    if not 0 < beta < 2:
        raise ValueError(f"expected a step size in (0, 2), got {beta}")
    return beta * residual_trace * d / ((2 - beta) * (d - 2)) if d > 2 else math.inf


def normalised_step_contracts_exactly(d: int) -> bool:
    """Whether P = k kᵀ/‖k‖² is a projection whose average over the signed permutations of a generic key is I/d.

    Both are identities in the entries of k. So for every law of keys that signed permutations leave unchanged, Gaussian
    ones among them, E‖e (I - P)‖² = ‖e‖² - e E[P] eᵀ = (1 - 1/d) ‖e‖² for any row e.
    """
    k = sympy.Matrix(sympy.symbols(f"k1:{d + 1}", real=True))
    project = lambda x: x * x.T / (x.T * x)[0, 0]  # noqa: E731
    square = (project(k) * project(k) - project(k)).applyfunc(sympy.simplify)
    total = sympy.zeros(d, d)
    for order in permutations(range(d)):
        for signs in product((1, -1), repeat=d):
            total += project(sympy.Matrix([sign * k[i] for sign, i in zip(signs, order)]))
    mean = (total / (2**d * math.factorial(d))).applyfunc(sympy.simplify)
    return bool(square.is_zero_matrix and mean == sympy.eye(d) / d)


def key_alone_distance(d: int) -> float:
    """‖S - S*‖/‖S*‖ where keys N(0, I_d) alone are divided by their norm, as β → 0: the limit is E‖k‖ S*."""
    if d < 1:
        raise ValueError(f"expected d of at least 1, got {d}")
    return math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2)) - 1


def growth_exponent(d: int, beta: float) -> float:
    """lim ln‖E_t‖ / t almost surely, for raw keys N(0, I_d) and no residual.

    A row e of E is multiplied by I - βkkᵀ, and N(0, I) is the same seen from every direction, so ln‖e‖ is a sum of
    independent copies of ½ ln((1 - βz²)² + β² z² χ²_{d-1}), z ~ N(0, 1): the exponent is its mean.
    """
    from scipy.integrate import quad

    if d < 1 or not (beta > 0 and math.isfinite(beta)):
        raise ValueError(f"expected d of at least 1 and a positive step size, got {d} and {beta}")
    nodes, weights = _chi_square_nodes(d - 1)

    def integrand(z: float) -> float:
        inner = (1 - beta * z * z) ** 2 + beta**2 * z**2 * nodes
        return float(np.log(np.maximum(inner, 1e-300)) @ weights) * math.exp(-z * z / 2)

    kink = 1 / math.sqrt(beta)
    edges = [0.0, kink, *(e for e in (2.0, 5.0, 12.0, 40.0) if e > kink)]
    total = sum(quad(integrand, a, b, limit=200, epsabs=1e-9)[0] for a, b in pairwise(edges))
    return float(total / math.sqrt(2 * math.pi))  # ½ of the integral over the whole line


def _chi_square_nodes(degrees: int) -> tuple[Array, Array]:
    if degrees == 0:
        return np.zeros(1), np.ones(1)
    # in y = √χ², graded towards 0 by y = Y s⁴: the integrand has a logarithm's singularity there
    s, weights = np.polynomial.legendre.leggauss(160)
    s, weights = (s + 1) / 2, weights / 2
    top = math.sqrt(degrees) + 10
    y = top * s**4
    logs = (degrees - 1) * np.log(y) - y**2 / 2 + np.log(s**3 * weights)
    density = np.exp(logs - logs.max())
    return y**2, density / density.sum()


def almost_sure_limit(d: int) -> float:
    """The step size at which the growth exponent changes sign: below it raw-key DeltaNet converges almost surely."""
    from scipy.optimize import brentq

    high = 1.0 / d
    while growth_exponent(d, high) < 0:
        high *= 1.5
    return float(brentq(lambda beta: growth_exponent(d, beta), 0.1 / d, high, xtol=1e-6))


def softmax_constant() -> tuple[Any, Any]:
    """E e^{q·k/τ} and the relative variance of one term, for k ~ N(0, I_d), as functions of s = ‖q‖²/τ², exactly.

    At τ = √d and ‖q‖² = d, s = 1: the constant is √e and the normaliser of t terms has relative s.d. √((e-1)/t).
    """
    s, z = sympy.symbols("s z", positive=True)
    x = sympy.Symbol("x", real=True)
    density = sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
    moment = [sympy.integrate(sympy.exp(m * z * x) * density, (x, -sympy.oo, sympy.oo)) for m in (1, 2)]
    first, second = (sympy.simplify(m.subs(z, sympy.sqrt(s))) for m in moment)
    return first, sympy.simplify(second / first**2 - 1)
