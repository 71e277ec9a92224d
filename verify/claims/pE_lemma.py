"""P App. E: the assumptions, Lemma 1 and Theorem 1; what is proved for every key set and what for one certificate."""

from __future__ import annotations

from typing import Any

from verify.evidence import Claim, Evidence, Ruling, Verdict
from verify.provenance import SOURCE

RECORDED_PROOF = SOURCE / "reports" / "recorded" / "smt.json"
RECORDED_KEYS = SOURCE / "theorem" / "recorded" / "keys-512-128.npz"
BEYOND = tuple(SOURCE / "theorem" / "recorded" / f"keys-{n}-{d}.npz" for n, d in ((128, 42), (512, 62)))
ASSUMPTION_1 = "unit keys, |k_i·k_j| ≤ ε < 1/8 (Assumption 1)"
ROUND = "f = round, κ₁ = κ₂ = f(x·y), w = k, α = β = 1"


def _proved(words: str, *groups: str, numbers: dict[str, Any] | None = None) -> Ruling:
    """Confirmed if the solver decides every obligation of these groups as stated."""
    from theorem.smt import SolverMissing, prove

    try:
        proof = prove(*groups, record=RECORDED_PROOF)
    except SolverMissing as error:
        return Ruling(Verdict.INCONCLUSIVE, Evidence.PROOF, str(error))
    found = {"obligations": len(proof.answers), "solver": proof.solver, "version": proof.version, **(numbers or {})}
    by = f"{proof.solver} {proof.version}" + ("" if proof.origin == "now" else f", recorded in {proof.origin}")
    if proof.complete:
        return Ruling(Verdict.CONFIRMED, Evidence.PROOF, f"{words} ({len(proof.answers)} obligations, {by})", found)
    first = proof.failures[0]
    verdict = Verdict.INCONCLUSIVE if first.result == "unknown" else Verdict.REFUTED
    return Ruling(
        verdict, Evidence.PROOF, f"{first.name}: {first.result}, {first.expected} was to be shown ({by})", found
    )


def _assumption_1() -> Ruling:
    from theorem.checker import Certificate, read_certificate, violation
    from theorem.sharpness import IntegerKeys

    recorded, _ = read_certificate(RECORDED_KEYS)
    reason = violation(Certificate(recorded.z, recorded.scale, recorded.rule, ("coherence",)))
    n, d = recorded.z.shape
    coherence = float(IntegerKeys(recorded.z.astype("int64"), recorded.scale).coherence_squared) ** 0.5
    return Ruling(
        Verdict.REFUTED if reason else Verdict.CONFIRMED,
        Evidence.PROOF,
        reason
        or f"{n} integer keys in {d} dimensions: 64 (z_i·z_j)² < |z_i|²|z_j|² for all pairs; ε = {coherence:.4f}",
        {"n": n, "d": d, "coherence": coherence},
    )


def _certificate() -> Ruling:
    from theorem.checker import read_certificate, violation
    from theorem.lemma import gram_condition

    certificate, carried = read_certificate(RECORDED_KEYS)
    condition = gram_condition(certificate.z, certificate.scale, certificate.rule)
    reason = violation(certificate) or (str(condition.witness) if condition.holds is not True else None)
    if reason is None and certificate.sha256() != carried:
        reason = "the certificate's hash is another one"
    n, d = certificate.z.shape
    return Ruling(
        Verdict.REFUTED if reason else Verdict.CONFIRMED,
        Evidence.PROOF,
        reason
        or (
            f"{n} keys in {d} dimensions: all {condition.pairs_checked} pairs of swaps in integers, by two programs; "
            f"margin {condition.margin} = {float(condition.margin):.4f} ({certificate.rule})"
        ),
        {"n": n, "d": d, "pairs_checked": condition.pairs_checked, "margin": float(condition.margin)},
    )


def _fewer_dimensions() -> Ruling:
    from fractions import Fraction

    from theorem.checker import read_certificate, violation
    from theorem.lemma import gram_condition

    sizes, margins = [], []
    for path in BEYOND:
        certificate, _ = read_certificate(path)
        reason = violation(certificate)
        if reason:
            return Ruling(Verdict.REFUTED, Evidence.PROOF, f"{path.name}: {reason}")
        sizes.append(certificate.z.shape)
        margins.append(float(gram_condition(certificate.z, certificate.scale).margin))
    (n, d), squared = sizes[0], Fraction(1, 64)
    most = int(d * (1 - squared) / (1 - d * squared))  # Welch, for coherence at most 1/8
    return Ruling(
        Verdict.CONFIRMED if n > most else Verdict.REFUTED,
        Evidence.PROOF,
        f"{n} keys in {d} dimensions: margin {margins[0]:.5f}, where coherence 1/8 admits at most {most} keys (Welch); "
        f"{sizes[1][0]} in {sizes[1][1]} with margin {margins[1]:.4f}; all pairs of swaps checked in integers",
        {"sizes": [list(size) for size in sizes], "margins": margins, "welch_most": most},
    )


def _tight() -> Ruling:
    from theorem.rounding import RULES
    from theorem.sharpness import four_keys, replay

    keys = four_keys(39, 5)
    wrong = {rule: replay(keys, [(1, 0), (3, 2)], rule) for rule in RULES}
    coherence = float(keys.coherence_squared) ** 0.5
    if None in wrong.values():
        return Ruling(Verdict.REFUTED, Evidence.PROOF, f"{keys.z.tolist()} swap rightly at coherence {coherence:.5f}")
    step = max(w.step for w in wrong.values() if w)
    return _proved(
        f"4ε > 1/2 beyond 1/8; the keys {keys.z.tolist()} in R⁴ (ε = {coherence:.5f}) read wrongly at swap {step}",
        "above-eighth",
        numbers={"coherence": coherence, "keys": keys.z.tolist()},
    )


def _exactly_an_eighth(rule: str, holds: bool) -> Ruling:
    from fractions import Fraction

    from theorem.sharpness import every_two_swaps, worst_case

    keys = worst_case(Fraction(1, 8))
    wrong = every_two_swaps(keys, rule)
    if (wrong is None) is not holds:
        return Ruling(Verdict.REFUTED, Evidence.PROOF, f"replay of four keys at exactly 1/8 says otherwise: {wrong}")
    seen = "reads rightly" if wrong is None else f"reads wrongly at swap {wrong.step}"
    words = "½ is rounded to 0 and 3/2, 5/2 are out of reach" if holds else "(k_i − k_j)·(k_l − k_m) = 4ε = ½ becomes 1"
    return _proved(f"{words}; the worst case in 16 integer dimensions {seen}", f"eighth-{rule}")


def _ordering() -> Ruling:
    from fractions import Fraction

    from theorem.rounding import HALF_EVEN
    from theorem.sharpness import blind_below, replay, worst_case

    keys = worst_case(Fraction(1, 10))
    printed = blind_below(Fraction(-3, 2), HALF_EVEN)
    readings = {
        "ordered": replay(keys, [(1, 0), (1, 0)], printed),
        "reversed": replay(keys, [(1, 0), (0, 1)], printed),
        "reversed, round": replay(keys, [(1, 0), (0, 1)], HALF_EVEN),
    }
    wrong = [name for name, reading in readings.items() if reading is not None]
    if wrong != ["reversed"]:
        return Ruling(Verdict.REFUTED, Evidence.PROOF, f"wrong readings in the replays: {', '.join(wrong) or 'none'}")
    return _proved(
        "with (j, i) after (i, j) the argument −2 + 2 k_i·k_j occurs, of which Assumption 2 says nothing; exactness "
        "within 2ε of −2 repairs it, and round, being odd, never needed the order",
        "order",
        "lemma-1/swap j i",
    )


def _simplex() -> Ruling:
    from theorem.lemma import gram_condition
    from theorem.rounding import HALF_AWAY, HALF_EVEN
    from theorem.sharpness import every_two_swaps, simplex

    scaled, unit, tied = simplex(3, unit=False), simplex(6, unit=True), simplex(5, unit=True)
    margins = [gram_condition(k.z, k.scale, HALF_AWAY) for k in (scaled, unit)]
    tie = gram_condition(tied.z, tied.scale, HALF_EVEN)
    right = all(m.holds for m in margins) and tie.holds and every_two_swaps(scaled, HALF_AWAY) is None
    numbers = {"coherence": [0.5, 0.2, 0.25], "margin": [float(m.margin) for m in (*margins, tie)]}
    words = (
        f"3 keys in 2 dimensions, |cos| = 1/2: margin {margins[0].margin}; 6 unit keys in 5, |cos| = 1/5: margin "
        f"{margins[1].margin}; 5 unit keys in 4, |cos| = 1/4: a tie that half-even rounds rightly"
    )
    return Ruling(Verdict.CONFIRMED if right else Verdict.REFUTED, Evidence.PROOF, words, numbers)


CLAIMS = (
    Claim(
        id="P-E-assumption-1",
        source="P App. E Assumption 1",
        statement="Many more keys than dimensions can have |k_i·k_j| ≤ ε < 1/8: here 512 in 128",
        check=_assumption_1,
        command=f"python -m verify check {RECORDED_KEYS.relative_to(SOURCE)}",
    ),
    Claim(
        id="P-E-assumption-2",
        source="P App. E Assumption 2",
        statement="Lemma 1 asks no more of f than to be exact within 4ε of 0, 3ε of ±1 and 2ε of 2, and no less",
        assumptions=(ASSUMPTION_1, "each swap names its later slot first"),
        check=lambda: _proved(
            "every pattern of coinciding slots; every radius is reached at every ε",
            "assumption-2",
            "radii",
        ),
    ),
    Claim(
        id="P-E-lemma-1",
        source="P App. E Lemma 1",
        statement="f((k_i − k_j)·k_l) = f(k_i·k_l) − f(k_j·k_l) for every written key k_l, slot or swap",
        assumptions=(ASSUMPTION_1, "f = round, ties broken in any way"),
        check=lambda: _proved("for every key set: every pattern of coinciding slots, every ε < 1/8", "lemma-1"),
    ),
    Claim(
        id="P-E-theorem-1",
        source="P App. E Theorem 1",
        statement="Writing k_t1 − k_t2 with value 0 exchanges what two slots read and nothing else, time after time",
        assumptions=(ASSUMPTION_1, f"{ROUND}, or any f as in Assumption 2 if each swap names its later slot first"),
        check=lambda: _proved(
            "for every key set, n and number of swaps: Lemma 1, and an induction slot by slot and entry by entry",
            "lemma-1",
            "assumption-2",
            "induction",
        ),
    ),
    Claim(
        id="P-E-theorem-1-certified",
        source="P App. E Theorem 1",
        statement="Theorem 1 holds for the recorded 512 integer keys in 128 dimensions, for every sequence of swaps",
        assumptions=(ROUND,),
        check=_certificate,
        command=f"python -m verify check {RECORDED_KEYS.relative_to(SOURCE)}",
    ),
    Claim(
        id="P-E-gram-condition",
        source="P App. E, sharpened",
        statement="With R = G − I: |R_il − R_jl − R_im + R_jm|, |R_il − R_jl|, |R_il| < 1/2 for all slots is enough "
        "for Theorem 1, and needed for it, whatever the norms and the coherence",
        assumptions=(ROUND, "equality is decided by the rounding rule"),
        check=lambda: _proved(
            "Assumption 1 implies it, it implies Lemma 1, Lemma 1 with right readings implies it, and where it fails "
            "one swap or two read wrongly",
            "gram-",
            "necessary",
        ),
    ),
    Claim(
        id="P-E-eighth-tight",
        source="P App. E Assumption 1",
        statement="1/8 cannot be raised: for every ε > 1/8 some four unit keys of coherence at most ε break Theorem 1",
        assumptions=(ROUND,),
        check=_tight,
    ),
    Claim(
        id="P-E-fewer-dimensions",
        source="P App. E Assumption 1",
        statement="Theorem 1 can hold in fewer dimensions than Assumption 1: for 128 keys in 42, where it needs 43",
        assumptions=(ROUND,),
        check=_fewer_dimensions,
        command=f"python -m verify check {BEYOND[0].relative_to(SOURCE)}",
    ),
    Claim(
        id="P-E-quarter-necessary",
        source="P App. E Assumption 1",
        statement="Unit keys of coherence above 1/4 break Theorem 1: some swap done twice reads wrongly",
        assumptions=("unit keys", ROUND),
        check=lambda: _proved(
            "|k_i − k_j|² = 2 − 2 k_i·k_j leaves [3/2, 5/2] and no longer rounds to 2; a simplex of 5 keys attains 1/4",
            "quarter",
            "necessary/two swaps, swap i j",
        ),
    ),
    Claim(
        id="P-E-eighth-half-even",
        source="P App. E Assumption 1, at equality",
        statement="Under rounding half to even, ε = 1/8 exactly is still enough",
        assumptions=("unit keys", ROUND),
        check=lambda: _exactly_an_eighth("half-even", True),
    ),
    Claim(
        id="P-E-eighth-half-away",
        source="P App. E Assumption 1, at equality",
        statement="Under rounding half away from zero, some unit keys of coherence exactly 1/8 break Theorem 1",
        assumptions=("unit keys", ROUND),
        check=lambda: _exactly_an_eighth("half-away", False),
    ),
    Claim(
        id="P-E-three-slots",
        source="P App. E Assumption 1, for n = 3",
        statement="With three slots every ε < 1/6 is enough: 4ε needs four different slots",
        assumptions=("unit keys", ROUND),
        check=lambda: _proved("every pattern with at most three slots", "three-slots"),
    ),
    Claim(
        id="P-E-ordering",
        source="P App. E Theorem 1",
        statement="The order t2 < t1 is needed for Assumption 2 as printed (no −2), and not for round",
        assumptions=(ASSUMPTION_1,),
        check=_ordering,
    ),
    Claim(
        id="P-E-simplex",
        source="P App. E Assumption 1",
        statement="Assumption 1 is not necessary: keys at the corners of a simplex exchange exactly far outside it",
        assumptions=(ROUND,),
        check=_simplex,
    ),
)
