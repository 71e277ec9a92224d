from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from verify.evidence import Claim, Evidence, Finding, Ruling, Table, Verdict
from verify.options import BadInput, integer, option, real
from verify.session import Session

if TYPE_CHECKING:
    from kernels.agreement import Agreement

CASES = ("ungated", "tied", "separate", "alpha", "beta", "tied-gated", "grouped", "packed")
FORMS = ("recurrent", "parallel", "chunked", "triton")
SIMILARITIES = ("softmax", "exp", "linear", "relu", "round", "solu")


@dataclass(frozen=True)
class Options:
    """Check the DeltaFormer kernels of this machine against the float64 oracle, row by row.

    Every form and similarity computes u and o of a random problem; each row's error is set against what rounding can
    do to that row. A form agrees where no row exceeds its bound, and loosely where a bound exceeds all entries. Where
    there is a GPU the defaults run the kernels that the benchmarks time. Cases: ungated (w = k, no gates), tied
    (w = q), separate (w of its own), alpha or beta (with that gate), tied-gated (w = q, both gates), grouped (four
    query heads to a key head), packed (several sequences).
    """

    form: tuple[str, ...] = option((), help="forms to check (default: all that run here)", choices=FORMS, many=True)
    case: tuple[str, ...] = option(("ungated", "tied", "beta"), help="problems", choices=CASES, many=True)
    write: tuple[str, ...] = option(SIMILARITIES, help="similarities κ₁", choices=SIMILARITIES, many=True)
    read: str = option("", help="similarity κ₂ (default: the same as κ₁)", choices=SIMILARITIES)
    length: tuple[int, ...] = option((17, 130), help="tokens T", parse=integer(0, 4096), many=True, metavar="T")
    d: int = option(64, help="width of keys", parse=integer(1, 256))
    dv: int = option(64, help="width of values", parse=integer(1, 256))
    beta: float | None = option(
        None, help="β in cases that have it (default: 1 for softmax, 1/T for the others)", parse=real(), metavar="BETA"
    )
    dtype: str = option(
        "",
        help="precision (default: bfloat16 on cuda, float32 on cpu)",
        choices=("float64", "float32", "bfloat16", "float16"),
    )
    device: str = option("", help="where tensors live (default: cuda where there is one)", choices=("cpu", "cuda"))
    seed: int = option(0, help="seed of the problem", parse=integer(0))


def run(options: Options, session: Session) -> Finding:
    options = _with_defaults(options)
    absent = _prepare(options)
    cases: list[list[Agreement]] = []
    for form in options.form or FORMS:
        for write in options.write:
            if form not in absent:
                session.progress(f"{form}, {write}")
                cases.append(list(_agreements(options, form, write)))
    claims = [_claim(points, options) for points in cases]
    verdicts = [c.ruling.verdict for c in claims if c.ruling]
    disagree = [c.id for c, verdict in zip(claims, verdicts) if verdict == Verdict.REFUTED]
    words = f"{len(disagree)} of {len(claims)} disagree with the oracle: {', '.join(disagree)}."
    if not disagree:
        words = (
            f"{verdicts.count(Verdict.CONFIRMED)} of {len(claims)} agree with the float64 oracle and none disagrees: "
            "no row's error exceeds what rounding can do to it."
        )
    not_run = [f"{form} did not run: it {reason}." for form, reason in absent.items()]
    return Finding(
        "kernel",
        asdict(options),
        points=[p.to_json() for points in cases for p in points],
        claims=claims,
        tables=[_table(cases, options)],
        summary=" ".join([words, *not_run]),
    )


def _with_defaults(options: Options) -> Options:
    """Device and dtype chosen where the user did not; BadInput where options contradict each other."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise BadInput("needs torch; install it with: pip install 'associative-memory-verify[kernels]'") from error
    if options.beta is not None and not {"beta", "tied-gated"} & set(options.case):
        raise BadInput(f"--beta {options.beta}: no case here has a β; expected --case beta or tied-gated")
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    return replace(options, device=device, dtype=options.dtype or ("bfloat16" if device == "cuda" else "float32"))


def _prepare(options: Options) -> dict[str, str]:
    """The forms that cannot run here, with the reason; BadInput where the user asked for one of them."""
    import torch

    from kernels.attention import obstacle

    if options.device == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device cuda: no CUDA device is available; expected cpu")
    if not torch.cuda.is_available() and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
    probe = torch.zeros(1, 1, 1, max(options.d, options.dv), dtype=getattr(torch, options.dtype), device=options.device)
    reason = obstacle([probe])
    if reason is None:
        return {}
    if "triton" in options.form:
        raise BadInput(f"--form triton: {reason}")
    return {} if options.form else {"triton": reason}


def _agreements(options: Options, form: str, write: str) -> Iterator[Agreement]:
    import torch

    from kernels.agreement import agreement, case_problem

    for case, length in product(options.case, options.length):
        problem = case_problem(
            case,
            write,
            length,
            options.d,
            options.dv,
            beta=options.beta,
            dtype=getattr(torch, options.dtype),
            device=options.device,
            seed=options.seed,
        )
        yield agreement(form, write, options.read or write, problem, case)


def _claim(points: Sequence[Agreement], options: Options) -> Claim:
    worst, unbounded = _worst(points), sum(p.unbounded for p in points)
    loosest = max(points, key=_looseness)
    loose = _looseness(loosest) > 1
    verdict = Verdict.INCONCLUSIVE if unbounded or loose else Verdict.CONFIRMED
    detail = f"worst row at {worst.ratio:.2g} of its bound, {worst.case}, T = {worst.length}"
    if unbounded:
        detail += f"; {unbounded} rows may leave the range of {options.dtype} and have no bound"
    elif loose:
        detail += f"; the bound could hide an error: {_looseness(loosest):.2g} of the largest entry"
        detail += f", {loosest.case}, T = {loosest.length}"
    ruling = Ruling(
        verdict if worst.agrees else Verdict.REFUTED,
        Evidence.MEASURED,
        detail,
        {"ratio": worst.ratio, "case": worst.case, "length": worst.length, "unbounded": unbounded},
    )
    return Claim(
        f"kernel-{worst.form}-{worst.write}",
        "P eq. 41-42",
        f"{worst.form}: every row of u and o is within its rounding bound of the float64 oracle, κ₁ = {worst.write}",
        (f"{options.dtype} on {options.device}", f"cases {', '.join(options.case)}", f"seed {options.seed}"),
    ).decided(ruling)


def _worst(points: Sequence[Agreement]) -> Agreement:
    """The point whose ratio is largest, or is not a number."""
    return max(points, key=lambda p: (p.ratio != p.ratio, p.ratio))


def _looseness(point: Agreement) -> float:
    """The largest bound over the largest entry; above 1 a row could be anything."""
    return max(point.u_bound, point.o_bound)


def _word(points: Sequence[Agreement]) -> str:
    if not all(p.agrees for p in points):
        return "NO"
    if any(p.unbounded for p in points):
        return "overflows"
    return "loosely" if any(_looseness(p) > 1 for p in points) else "yes"


def _table(cases: Sequence[Sequence[Agreement]], options: Options) -> Table:
    columns = ("form", "κ₁", "κ₂", "worst case", "T", "‖∂u/∂v‖", "error of u", "error of o", "of its bound", "agrees")
    rows = [
        (
            worst.form,
            worst.write,
            worst.read,
            worst.case,
            str(worst.length),
            f"{worst.amplification:.3g}",
            f"{worst.u_error:.1e}",
            f"{worst.o_error:.1e}",
            f"{worst.ratio:.2g}",
            _word(points),
        )
        for points in cases
        for worst in [_worst(points)]
    ]
    where = f"{options.dtype} on {options.device}, d = {options.d}, dv = {options.dv}"
    return Table(f"Worst row against the float64 oracle, {where}", columns, rows)
