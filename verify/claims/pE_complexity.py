"""P App. E: what tracking permutations says about circuit classes, and what that rests on."""

from __future__ import annotations

from verify.evidence import Claim, Evidence, Ruling, Verdict


def _not_solvable() -> Ruling:
    from theorem.groups import symmetric_group

    four, five = symmetric_group(4), symmetric_group(5)
    holds = four.solvable and not five.solvable and five.perfect and five.generated == five.order
    return Ruling(
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        Evidence.PROOF,
        f"derived series of S₅: orders {', '.join(map(str, five.derived_series))}, where it stops since A₅ is perfect; "
        f"of S₄: {', '.join(map(str, four.derived_series))}. The transpositions generate all {five.generated} "
        "permutations",
        {"derived_series": five.derived_series, "generated": five.generated},
    )


def _swap_counts() -> Ruling:
    from theorem.groups import symmetric_group

    counts = symmetric_group(5).by_swaps
    return Ruling(
        Verdict.CONFIRMED if counts == (1, 10, 35, 50, 24) else Verdict.REFUTED,
        Evidence.PROOF,
        f"permutations of 5 that need 0, 1, 2, … swaps: {', '.join(map(str, counts))}; a word of T swaps reaches those "
        "of T's parity only, a shorter word being padded by one swap done twice",
        {"by_swaps": counts},
    )


def _barrington() -> Ruling:
    return Ruling(
        Verdict.CONFIRMED,
        Evidence.LITERATURE,
        "Barrington 1989: the word problem of any finite group that is not solvable is complete for NC¹; that S₅ is "
        "one is checked in P-E-s5-not-solvable",
    )


def _surpasses_tc0() -> Ruling:
    return Ruling(
        Verdict.CONDITIONAL,
        Evidence.LITERATURE,
        "rests on TC⁰ ≠ NC¹, which is open: if they were equal, TC⁰ would hold the word problem of S₅ too, and no "
        "computation here can tell. What is checked: DeltaFormer tracks S_n (P-E-theorem1-replay) and S₅ is not "
        "solvable",
    )


def _within_nc2() -> Ruling:
    import numpy as np

    tokens, rng = 100, np.random.default_rng(9)
    a = np.tril(rng.integers(-1, 3, size=(tokens, tokens)), -1).astype(object)
    product, power, factors = np.eye(tokens, dtype=object).astype(int).astype(object), -a, 0
    while 2**factors < tokens:
        product = product + product @ power
        power = power @ power
        factors += 1
    inverse = bool(((np.eye(tokens, dtype=int).astype(object) + a) @ product == np.eye(tokens, dtype=int)).all())
    bits = max(int(abs(x)).bit_length() for x in product.ravel())
    return Ruling(
        Verdict.CONFIRMED if inverse else Verdict.REFUTED,
        Evidence.LITERATURE,
        f"(I + A)⁻¹ = Π (I + (−A)^(2^m)) over ⌈log₂ T⌉ factors, exact in integers at T = {tokens} ({factors} factors, "
        f"entries up to {bits} bits): log T products of matrices with polynomially long entries, each of depth O(log "
        "T) (NC¹), hence NC²",
        {"tokens": tokens, "factors": factors, "bits": bits},
    )


CLAIMS = (
    Claim(
        "P-E-s5-not-solvable",
        "P App. E",
        "S₅ is not solvable, A₅ is perfect, and swaps generate S₅",
        check=_not_solvable,
    ),
    Claim(
        "P-E-s5-swap-counts",
        "P Fig. 4's task; elementary",
        "1, 10, 35, 50, 24 permutations of five elements need 0, 1, 2, 3, 4 swaps",
        check=_swap_counts,
    ),
    Claim(
        "P-E-s5-word-problem",
        "P App. E; Barrington 1989",
        "the word problem of S₅ is complete for NC¹",
        check=_barrington,
    ),
    Claim(
        "P-E-surpasses-tc0",
        "P §2.2.1, App. E; D §5",
        "DeltaFormer's expressive power goes beyond TC⁰, a Transformer's does not",
        ("TC⁰ ≠ NC¹", "precision grows with log of the length, as in the TC⁰ bound for Transformers"),
        _surpasses_tc0,
    ),
    Claim(
        "D-5-within-nc2",
        "D §5",
        "DeltaFormer is within NC²",
        ("κ takes integers of O(log T) bits, as round does",),
        _within_nc2,
    ),
)
