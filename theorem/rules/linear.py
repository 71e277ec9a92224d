"""The Hebbian write and its decayed forms: no error term, so nothing stored is ever corrected."""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="linear",
        title="linear attention",
        source="P §2.2; Katharopoulos et al. 2020, arXiv:2006.16236",
        terms=(("I", "I"),),
        c="v*k.T",
        objective="-(v.T*S*k)",
        bounded=False,
        witness="v*k.T",
        spectrum=(("1", "d_v*d"),),
    ),
    Rule(
        name="gated_linear",
        title="gated linear attention",
        source="P §2.2; Yang et al. 2023, arXiv:2312.06635",
        terms=(("I", "diag(lam)"),),
        c="v*k.T",
        names={"lam": "key rates"},
        objective="tr(S*(Id - diag(lam))*S.T)/2 - v.T*S*k",
        bounded=True,
        witness="v*k.T*inv(Id - diag(lam))",
        spectrum=(("lam", "d_v"),),
        equivalences=(Equivalence("no decay is linear attention", "linear", here={"lam": "ones"}),),
    ),
    Rule(
        name="mamba2",
        title="Mamba-2 (SSD): one scalar decay",
        source="Dao and Gu 2024, arXiv:2405.21060",
        terms=(("I", "a*I"),),
        c="delta*v*k.T",
        names={"a": "rate", "delta": "positive"},
        objective="(1 - a)*norm2(S)/2 - delta*(v.T*S*k)",
        bounded=True,
        witness="delta*v*k.T/(1 - a)",
        spectrum=(("a", "d_v*d"),),
        equivalences=(
            Equivalence(
                "gated linear attention with one gate for all channels and values scaled by the step",
                "gated_linear",
                there={"lam": "a*ones", "v": "delta*v"},
            ),
        ),
    ),
)
