from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from verify.evidence import Claim, Evidence, Finding, Ruling, Table, Verdict
from verify.options import BadInput, integer, option, real
from verify.session import Session

if TYPE_CHECKING:
    from kernels.agreement import Agreement

FORMS = ("recurrent", "parallel", "chunked", "triton")
SIMILARITIES = ("softmax", "exp", "linear", "relu", "round", "solu")


@dataclass(frozen=True)
class Options:
    """Check the DeltaFormer kernels of this machine against the float64 oracle, row by row.

    Every form and similarity computes u and o of a random problem; each row's error is set against what rounding can
    do to that row. A form agrees where no row exceeds its bound.
    """

    form: tuple[str, ...] = option((), help="forms to check (default: all that run here)", choices=FORMS, many=True)
    write: tuple[str, ...] = option(SIMILARITIES, help="similarities κ₁", choices=SIMILARITIES, many=True)
    read: str = option("", help="similarity κ₂ (default: the same as κ₁)", choices=SIMILARITIES)
    length: tuple[int, ...] = option((17, 130), help="tokens T", parse=integer(0, 4096), many=True, metavar="T")
    d: int = option(64, help="width of keys", parse=integer(1, 256))
    dv: int = option(48, help="width of values", parse=integer(1, 256))
    beta: float | None = option(
        None, help="the gate β (default: 1 for softmax, 1/T for the others)", parse=real(), metavar="BETA"
    )
    tied: bool = option(False, help="write queries w = q instead of w = k")
    dtype: str = option("float32", help="precision", choices=("float64", "float32", "bfloat16", "float16"))
    device: str = option("cpu", help="where tensors live", choices=("cpu", "cuda"))
    seed: int = option(0, help="seed of the problem", parse=integer(0))


def run(options: Options, session: Session) -> Finding:
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


def _prepare(options: Options) -> dict[str, str]:
    """The forms that cannot run here, with the reason; BadInput where the user asked for one of them."""
    try:
        import torch

        from kernels.attention import obstacle
    except ModuleNotFoundError as error:
        raise BadInput("needs torch; install it with: pip install 'associative-memory-verify[kernels]'") from error
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

    from kernels.agreement import agreement, gaussian_problem, gentle_beta

    for length in options.length:
        problem = gaussian_problem(
            length,
            options.d,
            options.dv,
            beta=gentle_beta(write, length) if options.beta is None else options.beta,
            dtype=getattr(torch, options.dtype),
            device=options.device,
            seed=options.seed,
        )
        if options.tied:
            problem["w"] = problem["q"]
        yield agreement(form, write, options.read or write, problem)


def _claim(points: Sequence[Agreement], options: Options) -> Claim:
    worst, unbounded = _worst(points), sum(p.unbounded for p in points)
    verdict = Verdict.INCONCLUSIVE if unbounded else Verdict.CONFIRMED
    detail = f"worst row at {worst.ratio:.2g} of its bound, T = {worst.length}"
    if unbounded:
        detail += f"; {unbounded} rows may leave the range of {options.dtype} and have no bound"
    ruling = Ruling(
        verdict if worst.agrees else Verdict.REFUTED,
        Evidence.MEASURED,
        detail,
        {"ratio": worst.ratio, "length": worst.length, "unbounded": unbounded},
    )
    return Claim(
        f"kernel-{worst.form}-{worst.write}",
        "P eq. 41-42",
        f"{worst.form}: every row of u and o is within its rounding bound of the float64 oracle, κ₁ = {worst.write}",
        (f"{options.dtype} on {options.device}", f"seed {options.seed}"),
    ).decided(ruling)


def _worst(points: Sequence[Agreement]) -> Agreement:
    """The point whose ratio is largest, or is not a number."""
    return max(points, key=lambda p: (p.ratio != p.ratio, p.ratio))


def _word(points: Sequence[Agreement]) -> str:
    if not all(p.agrees for p in points):
        return "NO"
    return "overflows" if any(p.unbounded for p in points) else "yes"


def _table(cases: Sequence[Sequence[Agreement]], options: Options) -> Table:
    columns = ("form", "κ₁", "κ₂", "worst T", "‖∂u/∂v‖", "error of u", "error of o", "of its bound", "agrees")
    rows = [
        (
            worst.form,
            worst.write,
            worst.read,
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
