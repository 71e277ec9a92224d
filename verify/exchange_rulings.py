"""What one run of `verify theorem` rules on: Assumption 1, Lemma 1 and the replay, for the keys at hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from verify.evidence import Claim, Evidence, Ruling, Verdict

if TYPE_CHECKING:
    from theorem.exchange import Replay
    from theorem.lemma import GramCondition
    from theorem.packings import KeySet

BOUNDS = {
    "welch": "Welch",
    "orthoplex": "orthoplex",
    "levenshtein": "Levenshtein",
    "moments": "Welch's higher moments",
    "alon": "Alon",
    "lp": "Delsarte's linear programme",
}
MOST_KEYS = 4096  # the lemma takes O(n³) time; beyond, replay on a GPU, where coherence alone decides


def assumption_1(keys: KeySet) -> bool:
    """|k_i·k_j| < 1/8, in integers."""
    assert keys.coherence_squared is not None
    return 64 * keys.coherence_squared < 1


def assumption_claim(keys: KeySet, bounds: Mapping[str, float]) -> Claim:
    holds = assumption_1(keys)
    at_limit = keys.coherence_squared == Fraction(1, 64)
    detail = "the largest |k_i·k_j| is " + ("exactly 1/8" if at_limit else f"{keys.coherence:.4f}")
    name = max((b for b in bounds if b != "lp"), key=bounds.__getitem__)
    if not holds and bounds["lp"] >= 1 / 8:
        name = name if bounds[name] >= 1 / 8 else "lp"
        detail += f"; no {keys.n} unit vectors in R^{keys.d} have less than {bounds[name]:.4f} ({BOUNDS[name]})"
    return Claim(
        "theorem-assumption-1",
        "P App. E Assumption 1",
        f"these {keys.n} keys in R^{keys.d} satisfy |k_i·k_j| < 1/8",
        ruling=Ruling(
            Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, {"coherence": keys.coherence}
        ),
    )


def lemma_claim(rule: str, keys: KeySet, condition: GramCondition | None) -> Claim:
    if condition is None:
        ruling = _lemma_by_coherence(keys)
    else:
        verdict = {True: Verdict.CONFIRMED, False: Verdict.REFUTED, None: Verdict.INCONCLUSIVE}[condition.holds]
        margin = float(condition.margin)
        detail = f"{condition.pairs_checked:,} pairs of swaps, margin {margin:.4f} to a wrong rounding"
        if condition.holds and not margin:
            detail += f": some products are half integers and rounded right by {condition.rule}"
        if condition.witness is not None:
            detail = str(condition.witness)
        ruling = Ruling(verdict, Evidence.PROOF, detail, {"pairs_checked": condition.pairs_checked, "margin": margin})
    return Claim(
        "theorem-lemma-1",
        "P App. E Lemma 1",
        f"f = round ({rule}) gives every product of two written keys its one-hot value, so every sequence of"
        " swaps is exact",
        ruling=ruling,
    )


def _lemma_by_coherence(keys: KeySet) -> Ruling:
    """Too many keys for every pair of swaps: with R = G − I, Lemma 1 follows from |R_ij| < 1/8, diagonal included."""
    import numpy as np

    assert keys.coherence_squared is not None
    assert keys.scale is not None
    norms = np.einsum("ij,ij->i", keys.vectors, keys.vectors, dtype=np.int64)
    off = max(abs(int(norms.min()) - keys.scale), abs(int(norms.max()) - keys.scale))
    # z_i·z_j ≤ coherence · the largest |z|², and 4 max |R| < 1/2 is the Gram condition's worst case
    if 64 * keys.coherence_squared * int(norms.max()) ** 2 < keys.scale**2 and 8 * off < keys.scale:
        length = "length 1" if off == 0 else f"squared length within {off / keys.scale:.1g} of 1"
        return Ruling(
            Verdict.CONFIRMED,
            Evidence.PROOF,
            f"all keys have {length} and cosines up to {keys.coherence:.4f}, exactly: 4 max |G − I| < 1/2 "
            "(ledger: P-E-gram-condition)",
        )
    return Ruling(
        Verdict.INCONCLUSIVE,
        Evidence.PROOF,
        f"more than {MOST_KEYS} keys, whose coherence and lengths do not decide it: 4 max |G − I| may reach 1/2",
    )


def replay_claim(f: str, condition: GramCondition | None, replays: Mapping[str, Replay]) -> Claim:
    wrong = {name: r.first_wrong for name, r in replays.items() if r.first_wrong is not None}
    exact = all(r.exact for r in replays.values())
    steps = sum(r.steps for r in replays.values())
    if len(wrong) == len(replays) and len(set(wrong.values())) == 1:
        detail = f"every sequence is wrong {when(next(iter(wrong.values())))}"
    elif wrong:
        detail = "; ".join(f"{name}: wrong {when(swap)}" for name, swap in wrong.items())
    else:
        errors = max(r.max_error for r in replays.values())
        detail = f"{steps:,} swaps, " + ("every slot exactly right" if exact else f"largest error {errors:.2g}")
    if wrong and condition is not None and condition.holds is False and f.startswith("round"):
        detail += "; these keys are outside the theorem, so this says nothing against it"
    return Claim(
        "theorem-replay",
        "P App. E Theorem 1",
        f"with f = {f} every slot holds the element that the swaps bring there: {', '.join(replays)}",
        ruling=Ruling(
            Verdict.REFUTED if wrong else Verdict.CONFIRMED,
            Evidence.PROOF if exact and all(r.integer for r in replays.values()) else Evidence.MEASURED,
            detail,
            {"swaps": steps, "sequences": len(replays), "exact": exact},
        ),
    )


def when(swap: int) -> str:
    return "before any swap" if swap == 0 else f"after swap {swap:,}"
