from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verify.evidence import Finding
from verify.options import BadInput, blame, integer, option, real
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from snr.estimate import Estimate

DK, N = (64,), (1024,)
LAYOUT = 2  # of a kept point; points of another layout cannot be shown
MOST_GIGABYTES = 8  # of keys and values, of which one memory is held whole
STATISTICS = ("mean", "fixed-probe", "ratio-of-means", "median", "recall-error")


@dataclass(frozen=True)
class Options:
    """Measure the inverse SNR of recall and judge what theory predicts for it.

    Several values of --kernel, --dk, --n or --tau trace curves.
    """

    kernel: tuple[str, ...] = option(
        ("exp",), help="similarity g(x): linear, relu, exp, solu, … or an expression in x, tau, d", many=True
    )
    dk: tuple[int, ...] = option((), help="key width d (default 64)", parse=integer(1, 1 << 20), many=True, metavar="D")
    n: tuple[int, ...] = option(
        (), help="number of pairs N (default 1024)", parse=integer(2, 1 << 24), many=True, metavar="N"
    )
    tau: tuple[str, ...] = option(
        ("sqrt",), help="temperature: sqrt for √d, a number, or an expression in d", many=True
    )
    keys: str = option("gaussian", help="law of the keys, or keys in a file", metavar="gaussian|sphere|FILE[:TENSOR]")
    normalise: bool = option(False, help="scale keys from a file to norm √d")
    heads: int = option(1, help="split the width into this many memories", parse=integer(1, 4096))
    values: str = option("gaussian", help="law of the values", choices=("gaussian", "unit", "signs"))
    dv: int = option(0, help="width of the values (default: that of the keys)", parse=integer(1, 1 << 16))
    statistic: str = option(
        "mean", help="what SNR⁻¹ means; recall-error: ‖o − v‖² of softmax-normalised recall", choices=STATISTICS
    )
    predict: tuple[str, ...] = option(
        (), help="your own formula for it in N, d, tau, to be judged", many=True, metavar="EXPR"
    )
    within: float = option(
        0.01,
        help="declared tolerance of measured/predicted (of typical as a mean's stand-in: at least 0.1)",
        parse=real(0, 10, open_low=True),
    )
    rel_tol: float = option(
        0.0,
        help="stop when half the interval is this share of the value (default 0.02, and less where that decides "
        "--within at little cost)",
        parse=real(0, 10, open_low=True),
    )
    confidence: float = option(0.99, help="of every interval", parse=real(0.5, 0.999999))
    max_seconds: float = option(30.0, help="time limit of a point", parse=real(0, 1e6, open_low=True))
    seed: int = option(0, help="of all random draws", parse=integer(0))
    derive: bool = option(False, help="print the derivation of the formulas and measure nothing")
    plot: str = option("", help="write the curves as FILE.svg or FILE.png", metavar="FILE")
    records: str = option(
        "", help="keep finished points in this JSON Lines file, and reuse those in it", metavar="FILE"
    )
    workers: int = option(1, help="processes that compute points side by side", parse=integer(1, 1024))
    scheduler: str = option("", help="address of a dask cluster that computes the points", metavar="ADDRESS")


def run(options: Options, session: Session) -> Finding:
    _check(options)
    if options.derive:
        from verify.derivations import derivations

        return derivations(options, _spec(options))
    if options.keys not in ("gaussian", "sphere"):
        from verify.stored_keys import measure_stored

        return measure_stored(options, session)
    specs = _specs(options)
    points = _points(options, specs, session)
    files = _draw(options, points)
    from verify.capacity_notes import sentences
    from verify.capacity_point import point_claims
    from verify.capacity_tables import NAMES, curve_tables, point_tables

    judged = [(point, point_claims(point, options.within, session.command)) for point in points]
    summary, cut = sentences(judged, NAMES), len(points) < len(specs)
    if cut:
        summary += f"\nInterrupted: {len(points)} of {len(specs)} points were finished."
    return Finding(
        "snr",
        _spec(options),
        points=points,
        claims=[claim for _, found in judged for claim in found],
        tables=point_tables(*judged[0]) if len(judged) == 1 else curve_tables(judged),
        summary=summary,
        files=files,
        status=130 if cut else None,
    )


def _spec(options: Options) -> dict[str, Any]:
    return {k: v for k, v in vars(options).items() if k not in ("plot", "records", "workers", "scheduler", "derive")}


def _check(options: Options) -> None:
    """Everything that can be refused before anything is computed."""
    from snr.similarity import similarity, temperature

    if options.normalise and options.keys in ("gaussian", "sphere"):
        raise BadInput("--normalise: for keys from a file; --keys sphere has ‖k‖ = √d")
    for text in options.kernel:
        with blame("--kernel", text):
            similarity(text)
    for text in options.tau:
        with blame("--tau", text):
            temperature(text)
    if options.keys in ("gaussian", "sphere"):
        _check_grid(options)
    if options.derive and options.plot:
        raise BadInput(f"--plot {options.plot}: --derive measures nothing to draw; expected without it")
    if options.plot:
        if options.records and os.path.realpath(options.plot) == os.path.realpath(options.records):
            raise BadInput(f"--plot {options.plot}: the same file as --records")
        if not options.plot.endswith((".svg", ".png")):
            raise BadInput(f"--plot {options.plot}: expected a file name that ends in .svg or .png")
        check_writable("--plot", options.plot)
    if options.records:
        check_writable("--records", options.records)


def _check_grid(options: Options) -> None:
    """Temperatures and the user's predictions at every place of the grid, and the grid's own limits."""
    from snr.similarity import temperature
    from verify.capacity_point import user_log

    for d in options.dk or DK:
        if d % options.heads:
            raise BadInput(f"--heads {options.heads}: expected a divisor of --dk {d}")
        for n in options.n or N:
            gigabytes = n * (d + (options.dv or d)) * 4 / 1e9
            if gigabytes > MOST_GIGABYTES:
                raise BadInput(
                    f"--n {n} --dk {d}: a memory of {gigabytes:.0f} GB; expected at most {MOST_GIGABYTES} GB"
                )
            for text in options.tau:
                with blame("--tau", text):
                    tau = temperature(text)(d / options.heads)
                for prediction in options.predict:
                    with blame("--predict", prediction):
                        user_log(prediction, n, d, tau)


def _specs(options: Options) -> list[dict[str, Any]]:
    from verify.sweep import grid

    shared = _spec(options)
    axes = {"kernel": options.kernel, "d": options.dk or DK, "n": options.n or N, "tau": options.tau}
    rest = {k: v for k, v in shared.items() if k not in ("kernel", "dk", "n", "tau", "dv", "normalise")}
    return [{**rest, **place, "d_v": options.dv or place["d"] // options.heads} for place in grid(axes)]


def _points(options: Options, specs: Sequence[dict[str, Any]], session: Session) -> list[dict[str, Any]]:
    """The points in the order of the grid; after an interrupt, those that were finished."""
    from verify.capacity_point import measure_point
    from verify.records import Records, spec_hash
    from verify.sweep import executor, sweep

    records = None
    if options.records:
        with blame("--records", options.records):
            kept = _spec(options) | {"layout": LAYOUT}
            records = Records(Path(options.records), kept, session.provenance(kept))
    found: dict[str, dict[str, Any]] = {}
    here = options.workers == 1 and not options.scheduler

    def show(estimate: Estimate) -> None:
        session.progress(
            f"point {len(found) + 1}/{len(specs)}: {estimate.value:.4g} in [{estimate.low:.4g}, {estimate.high:.4g}], "
            f"{estimate.samples} units of {estimate.method}"
        )

    def compute(spec: Mapping[str, Any]) -> dict[str, Any]:
        with blame("--kernel", spec["kernel"]):
            return measure_point(spec, show)

    with ExitStack() as stack:
        with blame("--scheduler", options.scheduler):
            pool = stack.enter_context(executor(options.workers, options.scheduler))
        with blame("--kernel", " ".join(options.kernel)) if not here else nullcontext():
            try:
                for spec, point, _ in sweep(compute if here else measure_point, specs, pool, records):
                    found[spec_hash(spec)] = point
                    session.progress(f"{len(found)}/{len(specs)} points")
            except KeyboardInterrupt:
                if not found:
                    raise
    return [found[key] for spec in specs if (key := spec_hash(spec)) in found]


def _draw(options: Options, points: Sequence[Mapping[str, Any]]) -> list[Path]:
    if not options.plot:
        return []
    from matplotlib import rc_context

    from verify.report.curves import draw_curves
    from verify.report.style import STYLE, save

    with rc_context(STYLE):
        save(draw_curves(points), options.plot)
    return [Path(options.plot)]
