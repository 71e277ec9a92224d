"""P App. C: DeltaFormer as a kernel delta rule, and which similarity functions that derivation covers."""

from __future__ import annotations

from verify.evidence import Claim, Evidence, Ruling, Verdict

LENGTHS = range(1, 6)


def _proof(holds: bool, detail: str, **numbers: object) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _kernel(name: str) -> Ruling:
    from theorem.feature_maps import SIMILARITIES, nonnegative_series, witness

    similarity = next(s for s in SIMILARITIES if s.name == name)
    found = witness(similarity)
    if found:
        points = ", ".join("(" + ", ".join(map(str, p)) + ")" for p in found.points)
        weights = ", ".join(map(str, found.weights))
        return _proof(False, f"Σ c_i c_j g(x_i·x_j) = {found.form} exactly, at x = {points} with c = {weights}")
    reasons = nonnegative_series(similarity.expression)
    if not reasons:
        return Ruling(Verdict.INCONCLUSIVE, Evidence.PROOF, "neither a nonnegative power series nor a witness is known")
    return _proof(True, "its power series has no negative coefficient: " + "; ".join(dict.fromkeys(reasons)))


def _relu_line() -> Ruling:
    from theorem.feature_maps import relu_is_a_kernel_on_the_line

    words = "max(0, xy) = x₊y₊ + x₋y₋ on all four sign patterns: the two features are x₊ and x₋"
    return _proof(relu_is_a_kernel_on_the_line(), words)


def _round_near_orthogonal() -> Ruling:
    from fractions import Fraction

    # round is constant on the open intervals (-1/2, 1/2) and (1/2, 3/2): their midpoints speak for them
    values = [round(Fraction(0)), round(Fraction(1))]
    return _proof(values == [0, 1], "every Gram matrix is then the identity, whose eigenvalues are 1")


def _derivation() -> Ruling:
    from theorem.recurrence import derived_equals_recurrence

    held = [derived_equals_recurrence(length) for length in LENGTHS]
    detail = (
        f"u, o and the closed form U = (I + diag(β)A₁)⁻¹ diag(α)V agree identically for T = 1..{LENGTHS[-1]} in "
        f"{sum(held)} of {len(held)} cases, with generic α, β, v and generic tables κ₁, κ₂, by the feature maps "
        "φ(k_i) = e_i and ψ = the tables' columns"
    )
    return _proof(all(held), detail, lengths=list(LENGTHS))


def _gradient() -> Ruling:
    from theorem.recurrence import kernel_delta_rule_is_a_gradient_step

    held = [kernel_delta_rule_is_a_gradient_step(length, 3) for length in LENGTHS]
    cases = f"{sum(held)} of {len(held)} cases"
    detail = f"identity at every step for T = 1..{LENGTHS[-1]} in {cases}, generic 3-d feature vectors"
    return _proof(all(held), detail)


def _two_maps() -> Ruling:
    from theorem.potential import decide
    from theorem.rule_expression import SYMBOLIC
    from theorem.updates import apply, generic
    from theorem.user_rule import user_rule

    rule = user_rule("I", "I - beta*q*k.T", "beta*v*k.T")  # k = φ(k_t), q = ψ(w_t)
    values = generic(rule.kinds, 1, 2)
    decision = decide(apply(rule, values, SYMBOLIC), values["S"])
    entry = decision.obstruction[0, 1]
    detail = f"(J - Jᵀ)/2 has the entry {entry} for φ(k_t) = (k1, k2), ψ(w_t) = (q1, q2): 0 only if ψ ∥ φ"
    return _proof(not decision.exists, detail)


def _normalised_is_a_pair_function() -> Ruling:
    import sympy

    s12, s22 = sympy.symbols("s12 s22", real=True)
    # t = 2 has one earlier key; t = 3 repeats key and query of t = 2, so that the pair (k_1, w) is the same
    at_2 = sympy.exp(s12) / sympy.exp(s12)
    at_3 = sympy.exp(s12) / (sympy.exp(s12) + sympy.exp(s22))
    gap = sympy.simplify(at_2 - at_3)
    detail = f"κ₁(k_1, w_2) = 1, but with k_3 = k_2 and w_3 = w_2 κ₁(k_1, w_3) = {sympy.simplify(at_3)}, less by {gap}"
    return _proof(bool(gap.is_positive), detail)


def _claim(name: str, formula: str) -> Claim:
    return Claim(
        f"P-C-kernel-{name}",
        "P App. C",
        f"κ(x, y) = {formula} is positive semidefinite in every dimension, so a kernel delta rule with it exists",
        check=lambda: _kernel(name),
    )


CLAIMS = (
    Claim(
        "P-C-derivation",
        "P App. C, eq. 41-42",
        "DeltaFormer's recurrence is a linear memory in feature space that writes u_t = α_t v_t - β_t S_{t-1} ψ(w_t)",
        ("keys and queries may have different feature maps φ and ψ", "T ≤ 5"),
        check=_derivation,
    ),
    Claim(
        "P-C-gradient",
        "P App. C",
        "for a kernel κ₁, w = k and α = β each write is a gradient step of (β/2)‖S φ(k) - v‖²",
        ("κ₁ is positive semidefinite", "T ≤ 5"),
        check=_gradient,
    ),
    Claim(
        "P-C-gradient-one-map",
        "P App. C, eq. 41",
        "with two feature maps (w ≠ k, or κ₁ no kernel) the write is a gradient step only where ψ(w_t) ∥ φ(k_t)",
        check=_two_maps,
    ),
    _claim("linear", "x·y"),
    _claim("exp", "e^{x·y/τ}"),
    _claim("solu", "x·y e^{x·y/τ}"),
    _claim("cubic", "(x·y)³"),
    _claim("relu", "max(0, x·y)"),
    Claim(
        "P-C-kernel-relu-line",
        "P App. C",
        "κ(x, y) = max(0, xy) is positive semidefinite in one dimension",
        check=_relu_line,
        repairs="P-C-kernel-relu",
    ),
    _claim("round", "round(x·y)"),
    Claim(
        "P-C-kernel-round-near-orthogonal",
        "P App. C, E",
        "round(x·y) is positive semidefinite on near-orthogonal keys",
        ("|k_i·k_j| < 1/2 and 1/2 < ‖k_i‖² < 3/2", "not on differences k_i - k_j of them, which the swaps write"),
        check=_round_near_orthogonal,
        repairs="P-C-kernel-round",
    ),
    Claim(
        "P-C-softmax-normalised",
        "P App. C-D; D §3",
        "softmax κ₁, normalised over the row, is no function of the pair (k_i, w_t): no kernel delta rule gives it",
        check=_normalised_is_a_pair_function,
    ),
)
