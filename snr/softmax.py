"""Softmax-normalised recall: what normalisation changes, and what it cannot change.

With p_j = κ(k_j, k_i)/Σ_l κ(k_l, k_i), both ‖r‖ and c are divided by the same sum, so SNR⁻¹ is the same, identically
(`invariance`). The recall error E‖o − v_i‖²/E‖v‖² = E[(1−p_i)² + Σ_{j≠i} p_j²] is another matter. With w_j = κ_j/κ_i
and ρ = Σ_{j≠i} w_j it is E[(ρ² + Σ w_j²)/(1+ρ)²]. From 1/(1+ρ)^m = ∫ θ^{m−1} e^{−θ(1+ρ)} dθ/(m−1)! and the independence
of the w_j given s = ‖k_i‖², with φ(θ) = E e^{−θw}, it is exactly

    ∫ e^{−θ} [(2−θ)(1 − φ^{N−1}) + (N−1) θ E[w² e^{−θw}] φ^{N−2}] dθ,

in every regime, condensed or not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr

from snr.expectation import log_angle_norm

Array = Any


def recall_error(n: int, d: int, tau: float, keys: str = "gaussian") -> float:
    """E‖o − v_i‖²/E‖v‖² of softmax attention recalling a stored key; absolute accuracy about 1e-6.

    keys: "gaussian" (N(0, I_d)) or "sphere" (‖k‖ = √d), d ≥ 2. Raises ValueError for others.
    """
    if n < 1 or d < 2 or not (tau > 0 and math.isfinite(tau)):
        raise ValueError(f"n = {n}, d = {d}, tau = {tau}: expected n ≥ 1, d ≥ 2 and a positive finite tau")
    if keys not in ("gaussian", "sphere"):
        raise ValueError(f"key law {keys!r}: expected gaussian or sphere")
    if n == 1:
        return 0.0
    if keys == "sphere":
        return _given(*_sphere_weights(d, tau, n), n)
    # Hermite nodes through the quantile function: s is a smooth function of a normal variable
    h, weight = np.polynomial.hermite_e.hermegauss(48)
    norms = 2 * np.where(h < 0, gammaincinv(d / 2, ndtr(h)), gammainccinv(d / 2, ndtr(-h)))
    keep = np.isfinite(norms) & (norms > 0) & (weight / weight.sum() > 1e-12)
    errors = [_given(*_normal_weights(float(s), tau, n), n) for s in norms[keep]]
    return float(np.dot(weight[keep], errors) / weight[keep].sum())


def _normal_weights(s: float, tau: float, n: int) -> tuple[Array, Array]:
    """log w = (X − s)/tau on cells of X ~ N(0, s), and the cells' probabilities."""
    reach = math.sqrt(2 * math.log(n) + 60)
    step = min(0.02, 0.1 * tau / math.sqrt(s))
    z = np.arange(-reach, reach + step, step)
    return (math.sqrt(s) * z - s) / tau, np.exp(-z * z / 2) * step / math.sqrt(2 * math.pi)


def _sphere_weights(d: int, tau: float, n: int) -> tuple[Array, Array]:
    reach = math.acos(math.exp(-(math.log(n) + 30) / (d - 2))) if d > 2 else math.pi / 2
    nodes, weights = np.polynomial.legendre.leggauss(10)
    panels = math.ceil(2 * reach / min(0.4 / math.sqrt(d), 2 * tau / d))
    width = 2 * reach / panels
    angle = (-reach + width * (np.arange(panels)[:, None] + (nodes + 1) / 2)).ravel()
    mass = np.exp((d - 2) * np.log(np.cos(angle)) + log_angle_norm(d)) * np.tile(weights * width / 2, panels)
    return d * (np.sin(angle) - 1) / tau, mass


def _given(log_w: Array, mass: Array, n: int) -> float:
    """The θ-integral by the trapezoidal rule in log θ, where the integrand is smooth and decays at both ends."""
    step = 0.1
    log_theta = np.arange(-60.0, 4.2, step)
    theta = np.exp(log_theta)
    total = 0.0
    for block in np.array_split(np.arange(len(theta)), max(1, len(theta) * len(log_w) // 2_000_000)):
        tw = np.exp(np.minimum(log_theta[block, None] + log_w, 700.0))
        lost = -np.expm1(-tw) @ mass
        with np.errstate(under="ignore"):
            squares = (tw * tw * np.exp(-tw)) @ mass  # θ² E[w² e^{−θw}]
        log_phi = np.log1p(-np.minimum(lost, np.nextafter(1.0, 0.0)))
        t = theta[block]
        both = (2 - t) * t * -np.expm1((n - 1) * log_phi) + (n - 1) * squares * np.exp((n - 2) * log_phi)
        total += float(np.sum(np.exp(-t) * both)) * step
    return total


def weight_threshold(tau: float) -> float:
    """The α below which p_i → 1 for N = e^{αd} keys of norm √d at a fixed tau: 1/τ − 1/(2τ²), and ½ for τ < 1."""
    return 1 / tau - 1 / (2 * tau**2) if tau >= 1 else 0.5


def invariance() -> bool:
    """Whether ‖r‖²/(c²‖v‖²) is unchanged by dividing all κ_j by their sum, decided symbolically (3 pairs, d_v = 2)."""
    import sympy

    kappa = sympy.symbols("kappa0:3", positive=True)
    v = [sympy.Matrix(sympy.symbols(f"v{j}x v{j}y", real=True)) for j in range(3)]
    z = sum(kappa)

    def inverse_snr(weights: list[sympy.Expr]) -> sympy.Expr:
        r = weights[1] * v[1] + weights[2] * v[2]
        return r.dot(r) / (weights[0] ** 2 * v[0].dot(v[0]))

    return bool(sympy.simplify(inverse_snr([k / z for k in kappa]) - inverse_snr(list(kappa))) == 0)
