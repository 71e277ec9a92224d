"""RWKV-7: the generalised delta rule with a decay, a removal key and an in-context learning rate per channel."""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="rwkv7",
        title="RWKV-7",
        source="Peng et al. 2025, arXiv:2503.14456",
        terms=(("I", "diag(w) - kappa*kappa.T*diag(a)"),),
        c="v*k.T",
        names={"w": "key rates", "kappa": "key", "a": "key rates"},
        objective="tr(S*(Id - diag(w))*inv(diag(a))*S.T)/2 + norm2(S*kappa)/2 - v.T*S*inv(diag(a))*k",
        preconditioner="diag(a)",
        bounded=True,
        witness="v*k.T*inv(diag(a))*inv((Id - diag(w))*inv(diag(a)) + kappa*kappa.T)",
        equivalences=(
            Equivalence(
                "no decay, one learning rate and the removal key as write key is DeltaNet",
                "deltanet",
                here={"w": "ones", "a": "r*ones", "kappa": "k", "v": "r*y"},
                there={"beta": "r", "v": "y"},
                free={"r": "real", "y": "value"},
            ),
            Equivalence(
                "learning rate 0 is gated linear attention", "gated_linear", here={"a": "0*ones"}, there={"lam": "w"}
            ),
        ),
        note="no plain potential; with positive learning rates a it is a gradient step preconditioned by diag(a)",
    ),
)
