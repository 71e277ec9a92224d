"""The delta rule and its gated and multi-step forms: the stored value under k is corrected before v is written."""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="deltanet",
        title="DeltaNet",
        source="P §2.2; Schlag et al. 2021, arXiv:2102.11174; Yang et al. 2024, arXiv:2406.06484",
        terms=(("I", "I - beta*k*k.T"),),
        c="beta*v*k.T",
        names={"beta": "positive"},
        objective="beta*norm2(S*k - v)/2",
        bounded=True,
        witness="v*k.T/norm2(k)",
        spectrum=(("1", "d_v*(d - 1)"), ("1 - beta*norm2(k)", "d_v")),
    ),
    Rule(
        name="gated_deltanet",
        title="gated DeltaNet",
        source="P §2.2; Yang et al. 2024, arXiv:2412.06464",
        terms=(("I", "a*(I - b*k*k.T)"),),
        c="b*v*k.T",
        names={"a": "rate", "b": "positive"},
        objective="(1 - a)*norm2(S)/2 + a*b*norm2(S*k)/2 - b*(v.T*S*k)",
        bounded=True,
        witness="b*v*k.T/(1 - a + a*b*norm2(k))",
        spectrum=(("a", "d_v*(d - 1)"), ("a*(1 - b*norm2(k))", "d_v")),
        equivalences=(Equivalence("no decay is DeltaNet", "deltanet", here={"a": "1"}, there={"beta": "b"}),),
        note="the regression target is v/a, not v: L = (1-a)/2 ‖S‖² + (ab/2) ‖S k - v/a‖² up to a constant",
    ),
    Rule(
        name="kda",
        title="DeltaNet with a gate per channel (KDA)",
        source="Kimi Team 2025, arXiv:2510.26692",
        terms=(("I", "diag(lam)*(I - beta*k*k.T)"),),
        c="beta*v*k.T",
        names={"lam": "key rates", "beta": "positive"},
        objective="tr(S*(diag(lam) - diag(lam)*diag(lam) + beta*diag(lam)*k*k.T*diag(lam))*S.T)/2"
        " - beta*(v.T*S*diag(lam)*k)",
        preconditioner="inv(diag(lam))",
        bounded=True,
        witness="beta*v*k.T*diag(lam)*inv(diag(lam) - diag(lam)*diag(lam) + beta*diag(lam)*k*k.T*diag(lam))",
        equivalences=(
            Equivalence(
                "equal gates are gated DeltaNet",
                "gated_deltanet",
                here={"lam": "r*ones"},
                there={"a": "r", "b": "beta"},
                free={"r": "real"},
            ),
        ),
        note="no plain potential; a gradient step in the inner product weighted by the gates",
    ),
    Rule(
        name="deltaproduct",
        title="DeltaProduct, two delta steps a token (n_h = 2)",
        source="Siems et al. 2025, arXiv:2502.10297",
        terms=(("I", "(I - beta*k*k.T)*(I - beta2*k2*k2.T)"),),
        c="beta*v*k.T*(Id - beta2*k2*k2.T) + beta2*v2*k2.T",
        names={"beta": "positive", "k2": "key", "v2": "value", "beta2": "positive"},
        equivalences=(
            Equivalence("one step is DeltaNet", "deltanet", here={"beta2": "0"}, there={"beta": "beta"}),
            Equivalence(
                "the same pair twice is DeltaNet with step 2β - β²‖k‖²",
                "deltanet",
                here={"k2": "k", "v2": "v", "beta2": "beta"},
                there={"beta": "2*beta - beta**2*norm2(k)"},
            ),
        ),
        note="each of its steps has DeltaNet's objective; their product has none unless the keys are parallel or "
        "orthogonal, and with negative eigenvalues (beta |k|² near 2) it can rotate, which no inner product mends",
    ),
)
