"""DeltaFormer's recurrence (P eq. 41-42) derived from a memory in feature space (P App. C), in generic symbols."""

from __future__ import annotations

from typing import Any

import sympy


def derived_equals_recurrence(length: int) -> bool:
    """Whether a linear memory in feature space that writes u_t = α_t v_t - β_t S_{t-1} ψ₁(w_t) obeys P eq. 41-42.

    S_t = S_{t-1} + u_t φ(k_t)ᵀ, o_t = S_t ψ₂(q_t), with φ(k_i) = e_i and ψ the columns of generic tables κ₁, κ₂: that
    is every pair of similarity functions at once. U = (I + diag(β) A₁)⁻¹ diag(α) V and O = A₂ U are checked too.
    """
    kappa1, kappa2 = _table("p", length), _table("q", length)
    alpha, beta, value = (sympy.Matrix(sympy.symbols(f"{n}1:{length + 1}")) for n in ("alpha", "beta", "v"))
    state = sympy.zeros(1, length)
    u_memory, o_memory = [], []
    for t in range(length):
        u_memory.append(alpha[t] * value[t] - beta[t] * (state * kappa1[:, t])[0])
        state = state + u_memory[t] * sympy.eye(length)[t, :]
        o_memory.append((state * kappa2[:, t])[0])
    u: list[Any] = []
    for t in range(length):
        u.append(alpha[t] * value[t] - beta[t] * sum((kappa1[i, t] * u[i] for i in range(t)), sympy.S(0)))
    o = [sum((kappa2[i, t] * u[i] for i in range(t + 1)), sympy.S(0)) for t in range(length)]
    lower1 = sympy.Matrix(length, length, lambda t, i: kappa1[i, t] if i < t else 0)
    lower2 = sympy.Matrix(length, length, lambda t, i: kappa2[i, t] if i <= t else 0)
    closed = (sympy.eye(length) + sympy.diag(*beta) * lower1).lower_triangular_solve(sympy.diag(*alpha) * value)
    pairs = [*zip(u_memory, u), *zip(o_memory, o), *zip(u, closed), *zip(o, lower2 * closed)]
    return all(sympy.expand(x - y) == 0 for x, y in pairs)


def _table(name: str, length: int) -> Any:
    return sympy.Matrix(length, length, lambda i, t: sympy.Symbol(f"{name}_{i + 1}_{t + 1}"))


def kernel_delta_rule_is_a_gradient_step(length: int, features: int) -> bool:
    """Whether u_t φ_tᵀ = -∂/∂S (β_t/2)‖S φ_t - v_t‖² at every step, for α = β, w = k, κ₁(x, y) = φ(x)·φ(y) (App. C)."""
    phi = sympy.Matrix(length, features, lambda t, j: sympy.Symbol(f"f_{t + 1}_{j + 1}"))
    beta, value = (sympy.Matrix(sympy.symbols(f"{n}1:{length + 1}")) for n in ("beta", "v"))
    gram = phi * phi.T
    s = sympy.Matrix(1, features, lambda _, j: sympy.Symbol(f"s{j + 1}"))
    u: list[Any] = []
    for t in range(length):
        u.append(beta[t] * (value[t] - sum((gram[i, t] * u[i] for i in range(t)), sympy.S(0))))
        state = sum((u[i] * phi[i, :] for i in range(t)), sympy.zeros(1, features))
        loss = beta[t] * ((s * phi[t, :].T)[0] - value[t]) ** 2 / 2
        slope = sympy.Matrix([[sympy.diff(loss, e) for e in s]]).subs(dict(zip(s, state)))
        if any(sympy.expand(e) != 0 for e in slope + u[t] * phi[t, :]):
            return False
    return True
