from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

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
    points: list[Agreement] = []
    wanted = [form for form in options.form or FORMS if form not in absent]
    for form in wanted:
        for write in options.write:
            session.progress(f"{form}, {write}")
            points.extend(_agreements(options, form, write))
    claims = [_claim(form, write, [p for p in points if (p.form, p.write) == (form, write)], options)
              for form in wanted for write in options.write]  # fmt: skip
    disagree = [c.id for c in claims if c.ruling and c.ruling.verdict != Verdict.CONFIRMED]
    words = f"{len(disagree)} of {len(claims)} disagree with the oracle: {', '.join(disagree)}."
    if not disagree:
        words = f"All {len(claims)} agree with the float64 oracle: no row's error exceeds what rounding can do to it."
    not_run = [f"{form} did not run: it {reason}." for form, reason in absent.items()]
    return Finding(
        "kernel",
        asdict(options),
        points=[p.to_json() for p in points],
        claims=claims,
        tables=[_table(points, options)],
        summary=" ".join([words, *not_run]),
    )


def _prepare(options: Options) -> dict[str, str]:
    """The forms that cannot run here, with the reason; BadInput where the user asked for one of them."""
    if options.device == "cpu" and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is first imported
    try:
        import torch

        from kernels.attention import obstacle
    except ModuleNotFoundError as error:
        raise BadInput("needs torch; install it with: pip install 'associative-memory-verify[kernels]'") from error
    if options.device == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device cuda: no CUDA device is available; expected cpu")
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


def _claim(form: str, write: str, points: list[Agreement], options: Options) -> Claim:
    worst = max(points, key=lambda p: (p.ratio != p.ratio, p.ratio))
    numbers: dict[str, Any] = {"ratio": worst.ratio, "length": worst.length}
    ruling = Ruling(
        Verdict.CONFIRMED if all(p.agrees for p in points) else Verdict.REFUTED,
        Evidence.MEASURED,
        f"worst row at {worst.ratio:.2f} of its bound, T = {worst.length}",
        numbers,
    )
    statement = f"{form}: every row of u and o is within its rounding bound of the float64 oracle, κ₁ = {write}"
    assumptions = (f"{options.dtype} on {options.device}", f"seed {options.seed}")
    return Claim(f"kernel-{form}-{write}", "P eq. 41-42", statement, assumptions).decided(ruling)


def _table(points: list[Agreement], options: Options) -> Table:
    columns = ("form", "κ₁", "κ₂", "T", "‖∂u/∂v‖", "error of u", "error of o", "of its bound", "agrees")
    rows = [
        (
            p.form,
            p.write,
            p.read,
            str(p.length),
            f"{p.amplification:.3g}",
            f"{p.u_error:.1e}",
            f"{p.o_error:.1e}",
            f"{p.ratio:.2f}",
            "yes" if p.agrees else "NO",
        )
        for p in points
    ]
    title = (
        f"Worst row against the float64 oracle, {options.dtype} on {options.device}, d = {options.d}, dv = {options.dv}"
    )
    return Table(title, columns, rows)
