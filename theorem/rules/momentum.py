"""Momentum: the last change Z = S_{t-1} - S_{t-2} is written again, and counted as a constant (P App. B)."""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="momentum",
        title="gated linear attention with momentum",
        source="P App. B",
        terms=(("I", "diag(lam)"),),
        c="v*k.T + eta*Z",
        names={"lam": "key rates", "eta": "rate", "Z": "state"},
        objective="tr(S*(Id - diag(lam))*S.T)/2 - v.T*S*k - eta*tr(Z.T*S)",
        bounded=True,
        witness="(v*k.T + eta*Z)*inv(Id - diag(lam))",
        spectrum=(("lam", "d_v"),),
        equivalences=(
            Equivalence(
                "no momentum is gated linear attention", "gated_linear", here={"eta": "0"}, there={"lam": "lam"}
            ),
        ),
    ),
    Rule(
        name="deltanet_momentum",
        title="DeltaNet with momentum",
        source="P App. B, applied to DeltaNet",
        terms=(("I", "I - beta*k*k.T"),),
        c="beta*v*k.T + eta*Z",
        names={"beta": "positive", "eta": "rate", "Z": "state"},
        objective="beta*norm2(S*k - v)/2 - eta*tr(Z.T*S)",
        bounded=False,
        witness="Z*(Id - k*k.T/norm2(k))",
        spectrum=(("1", "d_v*(d - 1)"), ("1 - beta*norm2(k)", "d_v")),
        equivalences=(Equivalence("no momentum is DeltaNet", "deltanet", here={"eta": "0"}, there={"beta": "beta"}),),
        note="without decay the linear term is unopposed on keys orthogonal to k (for d = 1 there are none)",
    ),
    Rule(
        name="titans",
        title="Titans' linear memory: decay and momentum",
        source="Behrouz et al. 2025, arXiv:2501.00663",
        terms=(("I", "(1 - alpha)*I - theta*k*k.T"),),
        c="theta*v*k.T + eta*Z",
        names={"alpha": "rate", "theta": "positive", "eta": "rate", "Z": "state"},
        objective="alpha*norm2(S)/2 + theta*norm2(S*k - v)/2 - eta*tr(Z.T*S)",
        bounded=True,
        witness="(theta*v*k.T + eta*Z)*inv(alpha*Id + theta*k*k.T)",
        spectrum=(("1 - alpha", "d_v*(d - 1)"), ("1 - alpha - theta*norm2(k)", "d_v")),
        equivalences=(
            Equivalence(
                "no decay is DeltaNet with P's momentum",
                "deltanet_momentum",
                here={"alpha": "0"},
                there={"beta": "theta", "eta": "eta", "Z": "Z"},
            ),
            Equivalence("neither is DeltaNet", "deltanet", here={"alpha": "0", "eta": "0"}, there={"beta": "theta"}),
        ),
        note="a potential in S with the surprise Z held fixed; the pair (S, Z) moves together and has none; "
        "theta is twice the paper's rate, whose loss has no factor 1/2",
    ),
)
