"""MesaNet: the memory is at every step the regularised least-squares solution of all pairs so far.

With R = Λ + Σ_{j<t} k_j k_jᵀ the recursion S R → S R + v kᵀ, R → R + k kᵀ is recursive least squares. A forgetting
factor g (on the regulariser as well) replaces R by g R.
"""

from theorem.rule import Equivalence, Rule

RULES = (
    Rule(
        name="mesa",
        title="MesaNet, recursive least squares",
        source="von Oswald et al. 2025, arXiv:2506.05233; Wang, Shi and Fox 2025, arXiv:2501.12352",
        terms=(("I", "R*inv(R + k*k.T)"),),
        c="v*k.T*inv(R + k*k.T)",
        names={"R": "precision"},
        objective="norm2(S*k - v)/2",
        preconditioner="inv(R + k*k.T)",
        bounded=True,
        witness="v*k.T/norm2(k)",
        spectrum=(("1", "d_v*(d - 1)"), ("1 - k.T*inv(R + k*k.T)*k", "d_v")),
        equivalences=(
            Equivalence(
                "a white past (R = r I) is Longhorn with step 1/r",
                "longhorn",
                here={"R": "r*Id"},
                there={"beta": "1/r"},
                free={"r": "real"},
            ),
        ),
        note="no plain potential; DeltaNet's objective with Newton's preconditioner",
    ),
)
