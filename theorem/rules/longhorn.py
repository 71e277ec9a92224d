"""Longhorn: the implicit (proximal) step on one regression loss, which no step size can make unstable."""

from theorem.rule import Equivalence, Rule

SOURCE = "Liu et al. 2024, arXiv:2407.14207"
RULES = (
    Rule(
        name="longhorn",
        title="Longhorn, one step size",
        source=SOURCE,
        terms=(("I", "I - beta/(1 + beta*norm2(k))*k*k.T"),),
        c="beta/(1 + beta*norm2(k))*v*k.T",
        names={"beta": "positive"},
        objective="beta/(1 + beta*norm2(k))*norm2(S*k - v)/2",
        bounded=True,
        witness="v*k.T/norm2(k)",
        spectrum=(("1", "d_v*(d - 1)"), ("1/(1 + beta*norm2(k))", "d_v")),
        equivalences=(
            Equivalence("DeltaNet with step β/(1+β‖k‖²)", "deltanet", there={"beta": "beta/(1 + beta*norm2(k))"}),
        ),
    ),
    Rule(
        name="longhorn_channels",
        title="Longhorn, a step size per value channel",
        source=SOURCE,
        terms=(("I", "I"), ("-diag(delta)", "k*k.T")),
        c="diag(delta)*v*k.T",
        names={"delta": "value rates"},
        objective="dot(diag(delta)*(S*k - v), S*k - v)/2",
        bounded=True,
        witness="v*k.T/norm2(k)",
        spectrum=(("1", "d_v*(d - 1)"), ("onesv - norm2(k)*delta", "1")),
        equivalences=(
            Equivalence(
                "equal steps are DeltaNet",
                "deltanet",
                here={"delta": "r*onesv"},
                there={"beta": "r"},
                free={"r": "real"},
            ),
        ),
        note="a sum of two terms A S B: outside P's form A S B + C, yet with a potential",
    ),
    Rule(
        name="longhorn_diagonal",
        title="Longhorn as implemented, k kᵀ replaced by its diagonal",
        source=SOURCE,
        terms=(("I", "I"), ("-diag(delta)", "diag(hadamard(k, k))")),
        c="diag(delta)*v*k.T",
        names={"delta": "value rates"},
        objective="dot(diag(delta)*(S*diag(k) - v*ones.T), S*diag(k) - v*ones.T)/2",
        bounded=True,
        witness="v*ones.T*inv(diag(k))",
        note="its objective is not recall: each S_ij alone is fitted so that S_ij k_j = v_i",
    ),
)
