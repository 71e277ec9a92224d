"""P App. E: can Assumption 1 be met, in how few dimensions, and by which keys?"""

from __future__ import annotations

from fractions import Fraction

from verify.evidence import Claim, Evidence, Ruling, Verdict

EIGHTH = Fraction(1, 8)


def pair_tail(d: int, epsilon: float) -> float:
    """P(|x·y| > ε) for independent uniform unit vectors of R^d: (x·y)² has the law Beta(1/2, (d − 1)/2)."""
    from scipy.special import betaincc

    return float(betaincc(0.5, (d - 1) / 2, epsilon * epsilon))


def union_dimension(n: int, epsilon: float) -> int:
    """The least d at which the union bound over pairs gives random keys of coherence ≤ ε a positive chance."""
    low, high = 1, 2
    while n * (n - 1) / 2 * pair_tail(high, epsilon) >= 1:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if n * (n - 1) / 2 * pair_tail(middle, epsilon) >= 1 else (low, middle)
    return high


def _satisfiable() -> Ruling:
    from theorem.bounds import least_dimension
    from theorem.packings.constructions.quadric import quadric

    keys = quadric(8)
    squared = keys.coherence_squared
    assert squared is not None
    least = least_dimension(keys.n, 1 / 8)["lp"]
    holds = squared < EIGHTH**2
    return Ruling(
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        Evidence.PROOF,
        f"{keys.n} integer keys in R^{keys.d} have coherence² {squared} = {float(squared):.6f} "
        f"{'<' if holds else '≥'} 1/64, every pair compared in integers; no {keys.n} keys do below d = {least}",
        {"n": keys.n, "d": keys.d, "coherence": keys.coherence, "least_d": least},
    )


def _random_keys() -> Ruling:
    from theorem.packings import random_keys

    n, d, draws = 512, 128, 5
    tail = pair_tail(d, float(EIGHTH))
    expected = n * (n - 1) / 2 * tail
    # the products of different pairs are pairwise independent, so Var = Σ p(1 − p) and Chebyshev bounds P(none)
    chance = (1 - tail) / expected
    seen = [random_keys(n, d, seed).coherence for seed in range(draws)]
    return Ruling(
        Verdict.REFUTED if chance < 1e-3 else Verdict.CONFIRMED,
        Evidence.PROOF,
        f"at n = {n}, d = {d} they meet it with probability at most {chance:.1e} (Chebyshev; {expected:.0f} pairs "
        f"beyond 1/8 expected); {draws} draws have coherence {min(seen):.2f} to {max(seen):.2f}",
        {
            "n": n,
            "d": d,
            "probability_at_most": chance,
            "expected_pairs": expected,
            "seen": seen,
        },
    )


def _logarithmic() -> Ruling:
    from math import log

    from theorem.bounds import alon

    sizes = (2**9, 2**14, 2**20, 2**30)
    upper = {n: union_dimension(n, 1 / 8) for n in sizes}
    constants = [upper[n] / log(n) for n in sizes]
    lower = {n: next(d for d in range(1, 10**4) if alon(n, d) <= 1 / 8) for n in sizes}
    bounded = max(constants) <= 256
    rows = ", ".join(f"n = 2^{n.bit_length() - 1}: {lower[n]} to {upper[n]}" for n in sizes)
    return Ruling(
        Verdict.CONFIRMED if bounded else Verdict.REFUTED,
        Evidence.PROOF,
        f"for every n by P(|x·y| > ε) < 2e^(−dε²/2): random keys at d = 4 ln n/ε² = 256 ln n; with the exact tail "
        f"{min(constants):.0f} to {max(constants):.0f} ln n; none below the rank argument's d; {rows}",
        {"upper": {str(n): d for n, d in upper.items()}, "lower": {str(n): d for n, d in lower.items()}},
    )


def _cheaper_than_one_hot() -> Ruling:
    n, d = 512, union_dimension(512, 1 / 8)
    crossing = next(m for m in range(64, 10**5) if union_dimension(m, 1 / 8) < m)
    return Ruling(
        Verdict.REFUTED if d >= n else Verdict.CONFIRMED,
        Evidence.PROOF,
        f"the union bound needs d = {d} for n = {n}, one-hot keys d = {n}; it needs fewer from n = {crossing} on",
        {"n": n, "union_bound_d": d, "crossing_n": crossing},
    )


def _constructed_cheaper() -> Ruling:
    from theorem.packings.constructions.quadric import quadric
    from theorem.packings.constructions.taylor import taylor

    exact, nearly = quadric(8), taylor(9)
    holds = exact.coherence < 1 / 8 and exact.d < exact.n
    return Ruling(
        Verdict.CONFIRMED if holds else Verdict.REFUTED,
        Evidence.PROOF,
        f"n = {exact.n} in d = {exact.d} at {exact.coherence:.6f} in integers; n = {nearly.n} in d = {nearly.d} at "
        f"1/9 (equiangular, integer Seidel matrix); descent goes lower still (`verify keys --n 512`)",
        {"n": exact.n, "d": exact.d, "coherence": exact.coherence},
    )


def _falsifiers() -> Ruling:
    settings = ((5, 3), (5, 4), (128, 7))
    squares = {pair: Fraction(pair[0] - pair[1], pair[1] * (pair[0] - 1)) for pair in settings}
    outside = all(square >= EIGHTH**2 for square in squares.values())
    rows = ", ".join(f"n = {n}, d = {d}: coherence ≥ {float(s) ** 0.5:.3f}" for (n, d), s in squares.items())
    return Ruling(
        Verdict.REFUTED if outside else Verdict.CONFIRMED,
        Evidence.PROOF,
        f"Welch's bound in rational arithmetic: {rows}; a failure there says nothing against Theorem 1",
        {f"n{n}_d{d}": float(s) ** 0.5 for (n, d), s in squares.items()},
    )


CLAIMS = (
    Claim(
        "P-E-keys-exist",
        "P App. E, Assumption 1",
        "There are unit keys with |k_i·k_j| ≤ ε < 1/8 in far fewer dimensions than keys (n = 512).",
        check=_satisfiable,
        command="python -m verify keys --n 512 --d 71",
    ),
    Claim(
        "P-E-keys-random",
        "P App. E, Assumption 1; P Fig. 5 (n = 512, d = 128)",
        "Independent uniform unit keys at the paper's largest setting meet Assumption 1.",
        assumptions=("keys uniform on the sphere",),
        check=_random_keys,
        command="python -m verify keys --n 512 --d 128 --construction random",
    ),
    Claim(
        "P-E-keys-log",
        "P App. E, Theorem 1: d = O(log n)",
        "d = O(log n) dimensions suffice for Assumption 1, and Ω(log n) are needed.",
        assumptions=("ε = 1/8 held fixed",),
        check=_logarithmic,
    ),
    Claim(
        "P-E-keys-log-512",
        "P App. E, Theorem 1: d = O(log n)",
        "By that argument (random keys) Assumption 1 costs fewer dimensions than one-hot keys at n = 512.",
        assumptions=("keys uniform on the sphere, union bound over pairs",),
        check=_cheaper_than_one_hot,
    ),
    Claim(
        "P-E-keys-log-512-constructed",
        "P App. E, Theorem 1: d = O(log n)",
        "Constructed keys meet Assumption 1 in fewer dimensions than one-hot keys at n = 512.",
        check=_constructed_cheaper,
        command="python -m verify keys --n 512",
        repairs="P-E-keys-log-512",
    ),
    Claim(
        "P-E-keys-falsifiers",
        "P App. E, Theorem 1; falsifiers proposed in review",
        "n = 5 with d = 3 or 4 and n = 128 with d = 7 meet Assumption 1, so a failure there refutes Theorem 1.",
        check=_falsifiers,
        command="python -m verify keys --n 128 --d 7",
    ),
)
