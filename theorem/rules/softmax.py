"""Softmax attention as a memory in feature space: phi is the feature map of exp, φ(q)·φ(k) = e^{q·k/τ}."""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="softmax",
        title="softmax attention, unnormalised",
        source="P §2.2",
        terms=(("I", "I"),),
        c="v*phi.T",
        names={"phi": "key"},
        objective="-(v.T*S*phi)",
        bounded=False,
        witness="v*phi.T",
        spectrum=(("1", "d_v*d"),),
        equivalences=(Equivalence("linear attention on the features", "linear", there={"k": "phi"}),),
    ),
    Rule(
        name="softmax_normalised",
        title="softmax attention, normalised by its mean t·c",
        source="P §2.2, App. F",
        terms=(("I", "(1 - 1/t)*I"),),
        c="v*phi.T/(t*c)",
        names={"phi": "key", "t": "positive", "c": "positive"},
        objective="(norm2(S)/2 - (v.T*S*phi)/c)/t",
        bounded=True,
        witness="v*phi.T/c",
        spectrum=(("1 - 1/t", "d_v*d"),),
        equivalences=(
            Equivalence(
                "Mamba-2's decay with a rate that tends to 1",
                "mamba2",
                there={"a": "1 - 1/t", "delta": "1/(t*c)", "k": "phi"},
            ),
        ),
        note="c replaces the true normaliser Σ_j e^{q·k_j/τ} / t, which depends on the query: an approximation",
    ),
    Rule(
        name="gated_softmax",
        title="gated softmax attention",
        source="P §2.2",
        terms=(("I", "diag(lam)"),),
        c="v*phi.T",
        names={"phi": "key", "lam": "key rates"},
        objective="tr(S*(Id - diag(lam))*S.T)/2 - v.T*S*phi",
        bounded=True,
        witness="v*phi.T*inv(Id - diag(lam))",
        spectrum=(("lam", "d_v"),),
        equivalences=(
            Equivalence("gated linear attention on the features", "gated_linear", there={"k": "phi", "lam": "lam"}),
        ),
    ),
)
