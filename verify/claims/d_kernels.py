"""D §3 and App. F, P §2.2.1: DeltaFormer's forms, its special cases, its stability and its published speed.

Everything here is decided without torch, by identities and exact arithmetic; what the kernels do in floating point is
`python -m verify kernel`, and what they cost is read from the recorded runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from verify.evidence import Claim, Evidence, Ruling, Verdict


def proved(holds: bool, detail: str, **numbers: Any) -> Ruling:
    """The ruling of an exact check."""
    return Ruling(Verdict.CONFIRMED if holds else Verdict.REFUTED, Evidence.PROOF, detail, numbers)


def _symbols(length: int) -> tuple[Any, Any]:
    """A general strictly lower triangular A and a column v."""
    import numpy as np
    import sympy as sp

    a = [[sp.Symbol(f"a{t}_{i}") if i < t else sp.Integer(0) for i in range(length)] for t in range(length)]
    return np.array(a), np.array([[sp.Symbol(f"v{t}")] for t in range(length)])


def forms_equal() -> Ruling:
    import numpy as np
    import sympy as sp

    from kernels import exact

    length = 5
    a, v = _symbols(length)
    truth = exact.recurrent(a, v)
    candidates = [exact.chunked(a, v, c, exact.substitution_inverse) for c in range(1, length + 1)]
    solved = np.array(sp.Matrix(a + np.eye(length, dtype=int)).solve(sp.Matrix(v)))
    symbolic = all(sp.expand(x - y) == 0 for u in [solved, *candidates] for x, y in zip(u.flat, truth.flat))
    draw = np.random.default_rng(0)
    size = 97
    a = np.tril(draw.integers(-3, 4, (size, size)), -1).astype(object)
    v = draw.integers(-9, 10, (size, 3)).astype(object)
    truth = exact.recurrent(a, v)
    chunks = (1, 2, 16, 33, 64, 97)
    whole = all((exact.chunked(a, v, c, exact.product_inverse) == truth).all() for c in chunks)
    solves = (((a + exact.identity(size)) @ truth) == v).all()
    return proved(
        symbolic and whole and bool(solves),
        f"symbolic at T = {length} for a general A and every chunk size; exact in integers at T = {size} for chunks "
        f"{', '.join(map(str, chunks))}, entries of u up to {float(np.abs(truth).max()):.1e}",
        symbolic_length=length,
        integer_length=size,
        chunks=list(chunks),
    )


def nilpotent_product() -> Ruling:
    import numpy as np
    import sympy as sp

    from kernels import exact

    x, factors = sp.Symbol("x"), 7
    telescopes = sp.expand((1 + x) * sp.prod(1 + (-x) ** (2**m) for m in range(factors)) - (1 - x ** (2**factors))) == 0
    draw = np.random.default_rng(0)
    sizes = (1, 2, 3, 16, 33, 64, 128)
    holds = []
    for size in sizes:
        a = np.tril(draw.integers(-3, 4, (size, size)), -1).astype(object)
        one = exact.identity(size)
        holds += [(((one + a) @ inverse(a)) == one).all() for inverse in (exact.product_inverse, exact.newton_inverse)]
    return proved(
        telescopes and all(holds),
        f"(1 + x)∏_{{m<M}}(1 + (−x)^(2^m)) = 1 − x^(2^M), proved for M = {factors}, and A^C = 0; both it and Newton's "
        f"iteration give the inverse exactly in integers for C = {', '.join(map(str, sizes))}",
        sizes=list(sizes),
    )


def tied_one_pass() -> Ruling:
    import sympy as sp

    total, weighted, own, u, score, lse = sp.symbols("Z N E u s L", positive=True)
    gate = own / (own + total)
    one_pass = (1 - gate) * weighted / total + gate * u
    two_pass = (weighted + own * u) / (total + own)
    same = sp.simplify(one_pass - two_pass) == 0
    sigmoid = 1 / (1 + sp.exp(-(score - lse)))
    same_gate = sp.simplify(gate.subs({own: sp.exp(score), total: sp.exp(lse)}) - sigmoid) == 0
    return proved(
        same and same_gate,
        "with Z and N the sum of e^s and of e^s u over i < t, (N + E u)/(Z + E) = (1 − g) N/Z + g u and "
        "g = E/(Z + E) = σ(s − log Z): two rational identities, for any t",
    )


def tied_backward() -> Ruling:
    """Theorem of the tied softmax's backward: formulas against derivatives, exactly."""
    import sympy as sp

    length = 3
    e = {(t, i): sp.Symbol(f"E{t}{i}", positive=True) for t in range(length) for i in range(t + 1)}
    v, beta, do = (sp.symbols(f"{name}:{length}") for name in ("v", "b", "g"))
    symbolic = all(sp.cancel(d) == 0 for d in _backward_differences(e, v, beta, do, sp.diff))
    return proved(
        symbolic,
        f"dv, dβ and dS agree with the derivatives of Σ do_t o_t as rational functions at T = {length} "
        f"({2 * length + len(e)} of them)",
        length=length,
    )


def _backward_differences(e: Any, v: Any, beta: Any, do: Any, diff: Any) -> Iterator[Any]:
    """Formula minus derivative for each input, for E_ti = e^{s_ti} as free variables (dS = E ∂/∂E), one value wide."""
    length = len(v)
    u: list[Any] = []
    a, o, z, z_own = [], [], [], []
    for t in range(length):
        z.append(sum(e[t, i] for i in range(t)))
        a.append(sum(e[t, i] * u[i] for i in range(t)) / z[t] if t else 0)
        u.append(v[t] - beta[t] * a[t])
        z_own.append(z[t] + e[t, t])
        o.append((sum(e[t, i] * u[i] for i in range(t)) + e[t, t] * u[t]) / z_own[t])
    loss = sum(do[t] * o[t] for t in range(length))
    dv: list[Any] = [0] * length
    g: list[Any] = [0] * length
    for t in reversed(range(length)):
        dv[t] = sum(e[s, t] * g[s] for s in range(t + 1, length)) + e[t, t] / z_own[t] * do[t]
        g[t] = do[t] / z_own[t] - (beta[t] * dv[t] / z[t] if t else 0)
    for t in range(length):
        yield dv[t] - diff(loss, v[t])
        yield -dv[t] * a[t] - diff(loss, beta[t])
        yield e[t, t] / z_own[t] * do[t] * (u[t] - o[t]) - e[t, t] * diff(loss, e[t, t])
        for i in range(t):
            c = do[t] * o[t] / z_own[t] - beta[t] * dv[t] * a[t] / z[t]
            yield e[t, i] * (g[t] * u[i] - c) - e[t, i] * diff(loss, e[t, i])


def beta_zero_is_attention() -> Ruling:
    from kernels import exact

    length = 5
    a, v = _symbols(length)
    return proved(
        bool((exact.recurrent(0 * a, v) == v).all()),
        f"diag(β) A = 0 leaves u = v (symbolic at T = {length}), and o_t = Σ_(i≤t) softmax(q_t·k_i) v_i is attention",
    )


def linear_is_deltanet() -> Ruling:
    import sympy as sp

    length, width, values = 4, 2, 2
    k = [sp.Matrix(sp.symbols(f"k{t}_:{width}")) for t in range(length)]
    v = [sp.Matrix(sp.symbols(f"v{t}_:{values}")) for t in range(length)]
    q, b = sp.Matrix(sp.symbols(f"q_:{width}")), sp.symbols(f"b:{length}")
    state = sp.zeros(values, width)
    u: list[Any] = []
    same = []
    for t in range(length):
        state = (state * (sp.eye(width) - b[t] * k[t] * k[t].T) + b[t] * v[t] * k[t].T).expand()
        past = sum(((k[i].dot(k[t])) * u[i] for i in range(t)), sp.zeros(values, 1))
        u.append((b[t] * v[t] - b[t] * past).expand())
        recalled = sum(((k[i].dot(q)) * u[i] for i in range(t + 1)), sp.zeros(values, 1))
        same.append((recalled - state * q).expand() == sp.zeros(values, 1))
    return proved(
        all(same),
        f"with α = β, κ(x, y) = x·y and w = k, o_t = S_t q_t for S_t = S_(t−1)(I − β k kᵀ) + β v kᵀ: polynomial "
        f"identity at T = {length}, d = {width}",
    )


def softmax_growth() -> Ruling:
    from kernels import exact

    upto, length = 7, 24
    growth = [exact.largest_growth(t) for t in range(1, upto + 1)]
    odds = (100, 10_000, 1_000_000)
    near = [exact.row_sum_norm(exact.substitution_inverse(_predecessor_softmax(length, x)[0])) for x in odds]
    rising = near[0] < near[1] < near[2] < length and length - near[2] < Fraction(1, 10)
    shown = ", ".join(f"{float(x):.4g}" for x in near)
    return proved(
        growth == [Fraction(t) for t in range(1, upto + 1)] and rising,
        "by induction |u_t| ≤ |v_t| + max_(i<t)|u_i|; over all row-stochastic A the maximum is exactly T for "
        f"T ≤ {upto} (every vertex). Softmax weights are positive, so from T = 3 on T is approached, not attained: "
        f"{shown} of {length} where the predecessor weighs {', '.join(map(str, odds))} times any other (fractions)",
        maxima=[int(x) for x in growth],
        near=[float(x) for x in near],
    )


def _predecessor_softmax(length: int, odds: int) -> tuple[Any, Any]:
    """κ₁ over i < t and κ₂ over i ≤ t, where a token's predecessor weighs e^s = `odds` times any other."""
    import numpy as np

    weights = np.ones((length, length), dtype=int)
    weights[np.arange(1, length), np.arange(length - 1)] = odds
    return _softmax_pair(weights)


def _softmax_pair(weights: Any) -> tuple[Any, Any]:
    """Both softmax matrices from positive integer weights e^s, in fractions."""
    import numpy as np

    lower = np.array([[Fraction(int(w)) for w in row] for row in weights], dtype=object)
    write, read = np.tril(lower, -1) + Fraction(0), np.tril(lower) + Fraction(0)
    write[1:] = write[1:] / write[1:].sum(1, keepdims=True)
    return write, read / read.sum(1, keepdims=True)


def o_is_no_less_stable() -> Ruling:
    import numpy as np

    from kernels import exact

    length = 24
    draw = np.random.default_rng(0)
    pairs = {
        "random weights 1 to 9": _softmax_pair(draw.integers(1, 10, (length, length))),
        "a predecessor that weighs 10,000 times any other": _predecessor_softmax(length, 10_000),
    }
    norms, averages = {}, True
    for name, (write, read) in pairs.items():
        inverse = exact.substitution_inverse(write)
        averages = averages and (read >= 0).all() and (read.sum(1) == 1).all()
        norms[name] = (exact.row_sum_norm(inverse), exact.row_sum_norm(read @ inverse))
    words = "; ".join(f"{name}: {float(u):.4g} and {float(o):.4g}" for name, (u, o) in norms.items())
    return proved(
        bool(averages) and all(o <= u for u, o in norms.values()),
        "o_t is an average of u_i, i ≤ t, so no change of v moves o further than u. It may move it as far: "
        f"‖∂u/∂v‖∞ and ‖∂o/∂v‖∞ at T = {length}, tied softmax in fractions, {words}",
        norms={name: {"u": float(u), "o": float(o)} for name, (u, o) in norms.items()},
    )


def unnormalised_growth() -> Ruling:
    import numpy as np

    from kernels import exact

    size = 64
    a = np.tril(np.full((size, size), 3), -1).astype(object)
    inverse = exact.substitution_inverse(a)
    norm = int(np.abs(inverse).sum(1).max())
    with np.errstate(over="ignore", invalid="ignore"):
        by_product = exact.product_inverse(a.astype(np.float32)).astype(object)
        by_substitution = exact.substitution_inverse(a.astype(np.float32)).astype(object)
    lost, kept = (float(np.abs(x - inverse).max() / np.abs(inverse).max()) for x in (by_product, by_substitution))
    return proved(
        norm == 1 + 3 * (2 ** (size - 1) - 1) and lost > 1 > kept,
        f"A = 3 strictly below the diagonal, T = {size}: ‖(I+A)⁻¹‖∞ = {norm} exactly ({norm:.2e}). In float32 the "
        f"product form's error is {lost:.1e} times the inverse, substitution's {kept:.1e}",
        norm=norm,
        product_error=lost,
        substitution_error=kept,
    )


def published_ratios() -> Ruling:
    from verify.claims.slips import published

    entry = published("forms' times")
    times, stated = entry["ms"], entry["speedups"]
    ratios = {name: times[name] / times["chunk-wise"] for name in stated}
    agree = all(round(ratios[name]) == stated[name] for name in stated)
    words = ", ".join(
        f"{times[name]}/{times['chunk-wise']} = {ratio:.2f}, stated as {stated[name]} ({name})"
        for name, ratio in ratios.items()
    )
    return Ruling(
        Verdict.CONFIRMED if agree else Verdict.REFUTED,
        Evidence.LITERATURE,
        f"the table's own figures give {words}; the times are the paper's, not measured here",
        {name: float(ratio) for name, ratio in ratios.items()},
    )


def _speeds(case: str, length: int) -> tuple[str, list[dict[str, Any]]]:
    """The GPU of the record and its rows of that case and length; empty where it has not been run."""
    from verify.kernel_speeds import recorded_speeds

    record = recorded_speeds()
    if record is None:
        return "", []
    return record["device"], [r for r in record["rows"] if r["case"] == case and r["shape"][1] == length]


def _not_run() -> Ruling:
    from verify.kernel_speeds import NOT_RUN

    return Ruling(Verdict.INCONCLUSIVE, Evidence.MEASURED, NOT_RUN)


def third_of_flash() -> Ruling:
    device, rows = _speeds("tied", 8192)
    shares = {str(r["shape"]): r["ms"]["fa2"] / r["ms"]["fla"] for r in rows if {"fa2", "fla"} <= r["ms"].keys()}
    if not shares:
        return _not_run()
    words = ", ".join(f"{share:.3f} at {shape}" for shape, share in shares.items())
    return Ruling(
        Verdict.CONFIRMED if min(shares.values()) >= 1 / 3 else Verdict.REFUTED,
        Evidence.MEASURED,
        f"flash-linear-attention's DeltaFormer has {words} of FlashAttention-2's speed (forward, {device})",
        shares,
    )


def faster_than_published() -> Ruling:
    from verify.claims.slips import published

    printed = float(published("forms' times")["ms"]["chunk-wise"])
    device, rows = _speeds("tied", 8192)
    times = [r["ms"]["ours"] for r in rows if r["shape"] == [2, 8192, 32, 128] and "ours" in r["ms"]]
    if not times:
        return _not_run()
    return Ruling(
        Verdict.CONFIRMED if times[0] < printed else Verdict.REFUTED,
        Evidence.MEASURED,
        f"u and o together take {times[0]:.2f} ms on {device}; D's chunk-wise form takes {printed} ms for u (H100)",
        {"ms": times[0], "published_ms": printed},
    )


CLAIMS = (
    Claim(
        "D-3-forms-equal",
        "D §3, P eq. 41",
        "The recurrent, parallel (one triangular solve) and chunk-wise forms compute the same u",
        check=forms_equal,
    ),
    Claim(
        "D-3-nilpotent-product",
        "D §3",
        "In a chunk of C tokens ∏_{m<log₂C}(I + (−A)^(2^m)) is (I + A)⁻¹, and so is Newton's iterate after log₂C steps",
        assumptions=("A strictly lower triangular",),
        check=nilpotent_product,
    ),
    Claim(
        "D-3-tied-one-pass",
        "D §3, P eq. 41-42",
        "With w = q and one softmax for both stages, o_t = (1 − g) a_t + g u_t needs no second pass over the keys",
        assumptions=("κ₁ = κ₂ = softmax with one scale", "w = q"),
        check=tied_one_pass,
    ),
    Claim(
        "D-3-tied-backward",
        "D §3",
        "The tied softmax's gradient is one attention backward: one reverse solve for dv, then dS from g and c",
        assumptions=("κ₁ = κ₂ = softmax with one scale", "w = q"),
        check=tied_backward,
    ),
    Claim(
        "P-2.2.1-attention-case",
        "P §2.2.1 eq. 41-42",
        "With β = 0, α = 1 and a softmax κ₂ DeltaFormer is causal attention",
        check=beta_zero_is_attention,
    ),
    Claim(
        "P-2.2.1-deltanet-case",
        "P §2.2.1 eq. 41-42",
        "With linear kernels and w = k DeltaFormer is DeltaNet",
        assumptions=("α = β",),
        check=linear_is_deltanet,
    ),
    Claim(
        "D-F-growth",
        "D App. F",
        "With a softmax κ₁ and 0 ≤ β ≤ 1, ‖u‖∞ ≤ T‖v‖∞, and no smaller factor does",
        assumptions=("α = 1",),
        check=softmax_growth,
    ),
    Claim(
        "D-F-u-less-stable-than-o",
        "D App. F",
        "u is less stable than o: no change of the values moves o further than it moves u",
        assumptions=("κ₂ = softmax",),
        check=o_is_no_less_stable,
    ),
    Claim(
        "D-F-unnormalised-growth",
        "D App. F",
        "Without normalisation u has no such bound, and the product form of a chunk's inverse is unsafe in float32",
        check=unnormalised_growth,
    ),
    Claim(
        "D-T6-ratios",
        "D Table 6",
        "The chunk-wise form is 22 times faster than the recurrent one and 8 times faster than the parallel one",
        check=published_ratios,
    ),
    Claim(
        "D-T6-third-of-flash",
        "D §3, Table 6",
        "At 8k tokens DeltaFormer runs at a third of FlashAttention's speed or better",
        assumptions=("its public implementation, w = q", "bfloat16 forward"),
        check=third_of_flash,
        command="python -m kernels.bench",
    ),
    Claim(
        "D-T6-one-launch",
        "D Table 6",
        "u and o at [2, 8192, 32, 128] can be had in less than the 12.7 ms published for u",
        assumptions=("tied softmax, bfloat16", "another GPU than the paper's, named in the ruling"),
        check=faster_than_published,
        command="python -m kernels.bench",
    ),
)
