"""P §2.2 and App. B: what each memory update optimises, and when there is anything that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theorem.rules import catalogue
from verify.evidence import Claim, Evidence, Ruling, Verdict

if TYPE_CHECKING:
    from theorem.rule import Rule
    from theorem.rule_proofs import Proofs


def rule_ruling(rule: Rule, proofs: Proofs) -> Ruling:
    """The ruling on one rule of the catalogue from its proofs."""
    from theorem.rule_proofs import verdict_words

    numbers = {"residual": proofs.residual, "plain_potential": proofs.plain, "terms": proofs.terms}
    if not rule.objective:
        verdict = Verdict.CONFIRMED if proofs.identities_hold and not proofs.plain else Verdict.REFUTED
    elif not proofs.identities_hold:
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.CONFIRMED if proofs.bounded and proofs.bounded.proved else Verdict.INCONCLUSIVE
    return Ruling(verdict, Evidence.PROOF, verdict_words(rule, proofs), numbers)


def rule_claim(rule: Rule) -> Claim:
    """The ledger's row for one rule of the catalogue."""

    def check() -> Ruling:
        from theorem.rule_proofs import prove

        return rule_ruling(rule, prove(rule))

    if not rule.objective:
        step = "in general the gradient step of no objective"
    elif rule.preconditioner == "Id":
        step = f"a gradient step of L = {rule.objective}"
    else:
        step = f"a gradient step of L = {rule.objective}, preconditioned by {rule.preconditioner}"
    return Claim(
        f"P-2.2-rule-{rule.name.replace('_', '-')}",
        rule.source if rule.source.startswith("P ") else f"P §2.2, applied to {rule.source}",
        f"{rule.title}: S ← {rule.update} is {step}",
        check=check,
        command=f"python -m verify update --rule {rule.name}",
    )


def _proof(holds: bool, detail: str, **numbers: object) -> Ruling:
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _only_symmetric() -> Ruling:
    import sympy

    from theorem.potential import decide, parts

    a = sympy.Matrix([[0, 1], [-1, 0]])
    state = sympy.Matrix(2, 2, sympy.symbols("s1:5", real=True))
    decision = decide(a * state * a, state)
    counterexample = decision.exists and not parts(a)[1].is_zero_matrix
    detail = f"A = B = {a.tolist()} is skew-symmetric and S - A S B is the gradient of {decision.potential}"
    return _proof(not counterexample, detail)


def _condition() -> Ruling:
    from theorem.potential import condition_is_proved, condition_is_proved_for_every_size

    sizes = [(m, n) for m in (1, 2, 3) for n in (1, 2, 3)]
    small = [condition_is_proved(*size) for size in sizes]
    holds = all(small) and condition_is_proved_for_every_size()
    detail = (
        "the antisymmetric part of A ⊗ Bᵀ has the squared norm ‖A_s‖²‖B_k‖² + ‖A_k‖²‖B_s‖²: an identity in generic "
        f"entries at {sum(small)} of {len(sizes)} sizes up to 3×3, and for every size from <M, Mᵀ> = tr(A²) tr(B²); "
        "it vanishes exactly if both are symmetric, both skew, or one is zero"
    )
    return _proof(holds, detail, sizes=len(sizes))


def _formula() -> Ruling:
    import sympy

    from theorem.potential import parts
    from theorem.updates import gradient, vanishes

    holds = True
    sizes = ((2, 2), (2, 3), (3, 2))
    for m, n in sizes:
        a, b, c, s = (
            sympy.Matrix(*shape, lambda i, j, x=x: sympy.Symbol(f"{x}{i}{j}"))  # type: ignore[misc]
            for x, shape in (("a", (m, m)), ("b", (n, n)), ("c", (m, n)), ("s", (m, n)))
        )
        for kind in (0, 1):
            x, y = parts(a)[kind], parts(b)[kind]
            loss = ((s.T * s).trace() - (s.T * x * s * y).trace()) / 2 - (c.T * s).trace()
            holds = holds and vanishes(gradient(loss, s) - (s - x * s * y - c))
    words = f"∂/∂S = S - A S B - C for generic symmetric and for generic skew A, B at {len(sizes)} sizes"
    return _proof(holds, words)


def _delta_product_steps() -> Ruling:
    from theorem.rule_expression import SYMBOLIC
    from theorem.updates import apply, generic, vanishes

    rules = catalogue()
    values = generic(rules["deltaproduct"].kinds, 2, 3)
    first = apply(rules["deltanet"], values, SYMBOLIC)
    renamed = {"S": first, "k": values["k2"], "v": values["v2"], "beta": values["beta2"]}
    second = apply(rules["deltanet"], values | renamed, SYMBOLIC)
    holds = vanishes(second - apply(rules["deltaproduct"], values, SYMBOLIC))
    return _proof(holds, "two DeltaNet steps give its update in generic entries at d_v×d = 2×3")


def _delta_product_rotation() -> Ruling:
    import sympy

    from theorem.potential import has_real_eigenbasis

    keys = [sympy.Matrix([1, 0]), sympy.Matrix([sympy.Rational(3, 5), sympy.Rational(4, 5)])]
    transition = (sympy.eye(2) - 2 * keys[0] * keys[0].T) * (sympy.eye(2) - 2 * keys[1] * keys[1].T)
    rotation = transition * transition.T == sympy.eye(2) and transition.det() == 1
    holds = rotation and not has_real_eigenbasis(transition)
    detail = f"unit keys at cos = 3/5 and β = 2 give the rotation {transition.tolist()}, which has no real eigenvalue"
    return _proof(holds, detail)


def _titans_pair() -> Ruling:
    import sympy

    from theorem.potential import has_real_eigenbasis, parts

    alpha, theta, eta = sympy.symbols("alpha theta eta", positive=True)
    k = sympy.Matrix(sympy.symbols("k1:3", real=True))
    write, identity = theta * k * k.T, sympy.eye(2)
    pair = ((1 - alpha) * identity - write).row_join(eta * identity).col_join((-write).row_join(eta * identity))
    skew = parts(pair)[1]
    point = {alpha: sympy.Rational(1, 10), theta: sympy.Rational(1, 2), eta: sympy.Rational(1, 2), k[0]: 1, k[1]: 0}
    none = skew[0, 2] != 0 and not has_real_eigenbasis(pair.subs(point))
    detail = (
        f"the Jacobian of (S, Z) has the antisymmetric entry {skew[0, 2]}, and at α = 1/10, θ = η = 1/2, k = (1, 0) "
        "complex eigenvalues, so no inner product mends it"
    )
    return _proof(none, detail)


def _longhorn_implicit() -> Ruling:
    from theorem.rule_expression import SYMBOLIC
    from theorem.updates import apply, generic, vanishes

    rule = catalogue()["longhorn"]
    values = generic(rule.kinds, 2, 3)
    after = apply(rule, values, SYMBOLIC)
    k, v = values["k"], values["v"]
    holds = vanishes(after - values["S"] + values["beta"] * (after * k - v) * k.T)
    return _proof(holds, "S_t - S_{t-1} = -β(S_t k - v)kᵀ in generic entries at d_v×d = 2×3")


def _least_squares() -> Ruling:
    from theorem.rule_expression import SYMBOLIC
    from theorem.updates import apply, generic, vanishes

    rule = catalogue()["mesa"]
    values = generic(rule.kinds, 2, 2)
    k, v, r = values["k"], values["v"], values["R"]
    holds = vanishes(apply(rule, values, SYMBOLIC) * (r + k * k.T) - values["S"] * r - v * k.T)
    detail = "S_t R_t = S_{t-1} R_{t-1} + v kᵀ with R_t = R_{t-1} + k kᵀ, generic at 2×2; the rest is induction on t"
    return _proof(holds, detail)


def _gated_target() -> Ruling:
    import sympy

    from theorem.rule_expression import SYMBOLIC
    from theorem.updates import generic, value

    rule = catalogue()["gated_deltanet"]
    values = generic(rule.kinds, 2, 2)
    recall = value(rule, "(1 - a)*norm2(S)/2 + a*b*norm2(S*k - v)/2", values, SYMBOLIC)
    scaled = value(rule, "(1 - a)*norm2(S)/2 + a*b*norm2(S*k - v/a)/2", values, SYMBOLIC)
    loss = value(rule, rule.objective, values, SYMBOLIC)
    free = [all(sympy.expand(sympy.diff(loss - x, e)) == 0 for e in values["S"]) for x in (recall, scaled)]
    agrees = ["differs by a constant in S" if same else "differs with S" for same in free]
    return _proof(free == [False, True], f"the target v/a {agrees[1]}, the target v {agrees[0]}")


CLAIMS = (
    *(rule_claim(rule) for rule in catalogue().values()),
    Claim(
        "P-2.2-potential-only-symmetric",
        "P §2.2, App. B",
        "S ← A S B + C has a potential only if A and B are symmetric",
        check=_only_symmetric,
        command="python -m verify update --A 'N - N.T' --B 'M - M.T'",
    ),
    Claim(
        "P-2.2-potential-condition",
        "P §2.2, App. B",
        "S ← A S B + C has a potential if and only if A and B are both symmetric, both skew-symmetric, or one is zero",
        ("A, B real and C free of S", "gradient in the Frobenius inner product"),
        check=_condition,
        repairs="P-2.2-potential-only-symmetric",
    ),
    Claim(
        "P-2.2-potential-formula",
        "P App. B",
        "where it exists the potential is L = ½‖S‖² - ½ tr(Sᵀ A S B) - tr(Cᵀ S)",
        check=_formula,
    ),
    Claim(
        "P-2.2-deltaproduct-steps",
        "P §2.2, applied to Siems et al. 2025, arXiv:2502.10297",
        "DeltaProduct is n_h gradient steps, each of its own DeltaNet objective",
        check=_delta_product_steps,
    ),
    Claim(
        "P-2.2-deltaproduct-rotation",
        "P §2.2, applied to Siems et al. 2025, arXiv:2502.10297",
        "at step size 2 DeltaProduct's transition can be a rotation, a gradient step in no inner product",
        check=_delta_product_rotation,
    ),
    Claim(
        "P-2.2-momentum-pair",
        "P App. B; Behrouz et al. 2025, arXiv:2501.00663",
        "with momentum the pair (S, Z) takes a gradient step in no inner product; S does, with Z held fixed",
        check=_titans_pair,
    ),
    Claim(
        "P-2.2-longhorn-implicit",
        "P §2.2, applied to Liu et al. 2024, arXiv:2407.14207",
        "Longhorn is the implicit gradient step S_t = S_{t-1} - ∂L/∂S(S_t) of L = (β/2)‖S k - v‖²",
        check=_longhorn_implicit,
    ),
    Claim(
        "P-2.2-mesa-least-squares",
        "P §2.2, applied to von Oswald et al. 2025, arXiv:2506.05233",
        "the recursion of MesaNet gives the regularised least-squares memory of all pairs at every step",
        check=_least_squares,
    ),
    Claim(
        "P-2.2-gated-deltanet-target",
        "P §2.2",
        "gated DeltaNet's objective is decay plus the recall error ‖S k - v/a‖², with target v/a and not v",
        ("0 < a < 1",),
        check=_gated_target,
    ),
)
