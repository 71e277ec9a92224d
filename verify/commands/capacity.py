from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from verify.evidence import Finding, Table
from verify.options import BadInput, blame, integer, option, real
from verify.session import Session, check_writable

if TYPE_CHECKING:
    from snr.similarity import Similarity, Temperature

STATISTICS = ("paper", "exact", "fixed_probe", "ratio_of_means", "typical")
CONDENSING = ("exp", "solu")  # their condensation line is 2/tau²
SIMULATED = range(2, 200_001)
FEWEST = math.log(2) + 1e-9  # at and below it, every memory that interferes with itself has more than the level
WIDEST = 16384
Points: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True)
class Options:
    """How many pairs does a width hold, how does that scale, and at which temperature is it most?

    N is where the inverse SNR reaches the level, by P's formula (paper), by the exact mean for the key law (exact), for
    a probe of norm √d (fixed_probe), by the ratio of means, and for the median recall (typical).
    """

    kernel: tuple[str, ...] = option(("linear", "exp"), help="names, or expressions in x, tau, d", many=True)
    dk: tuple[int, ...] = option(
        (64, 256, 1024, 4096), help="widths d", parse=integer(1, WIDEST), many=True, metavar="D"
    )
    n: tuple[int, ...] = option(
        (), help="find the width for so many pairs instead", parse=integer(2, 10**18), many=True, metavar="N"
    )
    level: float = option(1.0, help="inverse SNR at which a memory counts as full", parse=real(0, open_low=True))
    tau: str = option("sqrt", help="temperature: sqrt, 3sqrt, a number or an expression in d")
    keys: str = option("gaussian", help="law of the keys", choices=("gaussian", "sphere"))
    statistic: tuple[str, ...] = option(
        ("paper", "exact", "typical"), help="which inverse SNR", choices=STATISTICS, many=True
    )
    temperature: bool = option(False, help="also find the temperature of largest capacity for the first width")
    simulate: bool = option(False, help="also measure memories of the whole N next to the exact one (at most 200,000)")
    rel_tol: float = option(0.05, help="relative half-width at which a measurement stops", parse=real(0, open_low=True))
    max_seconds: float = option(10.0, help="time for one measurement", parse=real(0, open_low=True))
    seed: int = option(0, help="seed of the measurements", parse=integer(0))
    plot: str = option(
        "", help="draw ln N against d (with --temperature: against tau) to FILE.svg or FILE.png", metavar="FILE"
    )


def run(options: Options, session: Session) -> Finding:
    from snr.similarity import similarity, temperature

    if options.n and options.simulate:
        raise BadInput("--simulate: measures the widths of --dk; expected without --n")
    if options.plot and options.temperature and not set(options.kernel) & set(CONDENSING):
        raise BadInput(f"--plot with --temperature: for the kernels {' and '.join(CONDENSING)}")
    if options.plot and options.n:
        raise BadInput("--plot: draws N against d; expected without --n")
    if options.plot:
        if Path(options.plot).suffix not in (".svg", ".png"):
            raise BadInput(f"--plot {options.plot}: expected a name that ends in .svg or .png")
        check_writable("--plot", options.plot)
    kernels = []
    for text in options.kernel:
        with blame("--kernel", text):
            kernels.append(similarity(text))
    if options.temperature and not any(kernel.uses_tau for kernel in kernels):
        raise BadInput(f"--temperature: expected a --kernel with tau in it, not only {', '.join(options.kernel)}")
    with blame("--tau", options.tau):
        tau = temperature(options.tau)
        for d in options.dk:
            tau(d)
    if options.n:
        points = _widths(options, kernels, tau, session)
        tables = [_width_table(options, points)]
    else:
        points = _capacities(options, kernels, tau, session)
        tables = [_capacity_table(options, points), *_fit_tables(options, points)]
    curves: Points = []
    if options.temperature:
        tables.append(_temperature_table(options, kernels, session, curves))
    files = [Path(options.plot)] if options.plot else []
    if files and options.temperature:
        _plot_temperatures(options, curves)
    elif files:
        _plot(options, points)
    return Finding(
        "capacity", asdict(options), points=points, tables=tables, summary=_summary(options, points), files=files
    )


def _capacities(
    options: Options, kernels: list[Similarity], tau: Temperature, session: Session
) -> list[dict[str, Any]]:
    from snr.capacity import capacity

    points: Points = []
    for kernel in kernels:
        for d in options.dk:
            session.progress(f"capacity of {kernel.name}, d = {d}")
            with blame("--kernel", kernel.name):
                asked = dict.fromkeys((*options.statistic, *(("exact",) if options.simulate else ())))
                found = {name: capacity(kernel, d, tau(d), options.level, name, options.keys) for name in asked}
            point: dict[str, Any] = {"kernel": kernel.name, "d": d, "tau": tau(d), "keys": options.keys}
            point |= {"level": options.level, **_bounded({name: found[name].log for name in options.statistic})}
            absent = {name: found[name].reason for name, log in point["log_n"].items() if log is None}
            point["reasons"] = _why_none(kernel, d, tau(d), options.keys, absent) if absent else {}
            if options.simulate:
                exact = found["exact"].log
                point["not_simulated"] = _why_not_simulated(exact)
                point["measured"] = None
                if exact is not None and not point["not_simulated"]:
                    point["measured"] = _measured(options, kernel, d, tau(d), exact, len(points), session)
            points.append(point)
    return points


def _bounded(logs: dict[str, float | None]) -> dict[str, Any]:
    """ln N by statistic, and where it is only a bound: "at most" ln 2, or "more than" the largest that is followed."""
    from snr.capacity import LARGEST

    bounds = {}
    for name, log in logs.items():
        if log is not None and log <= FEWEST:
            logs, bounds[name] = logs | {name: math.log(2)}, "at most"
        elif log == math.inf:
            logs, bounds[name] = logs | {name: LARGEST}, "more than"
    return {"log_n": logs, "bounds": bounds}


def _why_none(kernel: Similarity, d: int, tau: float, keys: str, absent: dict[str, str]) -> dict[str, str]:
    """Why a statistic has no number of pairs: in terms of the kernel that was given, or else the reason found."""
    from snr.predictions import predict
    from verify.capacity_point import reasons

    found = reasons(kernel, predict(kernel, 2, d, tau, keys, typical=False))
    return {name: why if name == "typical" else found.get(name, why) for name, why in absent.items()}


def _whole(log_n: float) -> int:
    """The whole number of pairs next to N: at least two, or nothing interferes."""
    return max(round(math.exp(log_n)), SIMULATED.start)


def _why_not_simulated(log_n: float | None) -> str:
    if log_n is None:
        return "no N exact"
    return f"N above {SIMULATED.stop - 1:,}" if log_n > 20 or _whole(log_n) not in SIMULATED else ""


def _measured(
    options: Options, kernel: Similarity, d: int, tau: float, log_n: float, point: int, session: Session
) -> dict[str, Any]:
    """The measured mean inverse SNR at the whole N next to the real one where theory says it is the level."""
    from snr.estimators import measure  # type: ignore[import-not-found]
    from snr.keys import Gaussian, Sphere  # type: ignore[import-not-found]
    from snr.stopping import MaxSeconds, RelTol  # type: ignore[import-not-found]

    n = _whole(log_n)
    found = measure(
        kernel,
        n,
        d,
        tau,
        Gaussian() if options.keys == "gaussian" else Sphere(),
        stop=RelTol(options.rel_tol) | MaxSeconds(options.max_seconds),
        seed=options.seed,
        point=point,
        progress=lambda e: session.progress(f"{kernel.name}, d = {d}, N = {n}: {e.low:.4g} to {e.high:.4g}"),
    )
    return {"n": n, "snr": found.best.plain.to_json(), "flags": list(found.flags)}


def _widths(options: Options, kernels: list[Similarity], tau: Temperature, session: Session) -> Points:
    from snr.capacity import width

    points = []
    for kernel in kernels:
        for n in options.n:
            session.progress(f"width for {kernel.name}, N = {n}")
            with blame("--kernel", kernel.name):
                found = {
                    name: width(kernel, math.log(n), tau, options.level, name, options.keys)
                    for name in options.statistic
                }
            point = {"kernel": kernel.name, "n": n, "tau": options.tau, "keys": options.keys, "level": options.level}
            why = {name: _why_no_width(kernel, tau(WIDEST), options, name) for name, d in found.items() if d is None}
            points.append(point | {"d": found, "reasons": why})
    return points


def _why_no_width(kernel: Similarity, tau: float, options: Options, statistic: str) -> str:
    from snr.capacity import capacity

    widest = capacity(kernel, WIDEST, tau, options.level, statistic, options.keys)
    return widest.reason if widest.log is None else f"d = {WIDEST} holds only N = {count(widest.log)}"


def count(log_n: float | None, bound: str = "") -> str:
    """A number of pairs from its logarithm: digits while they mean something, then a power of ten."""
    if log_n is None:
        return "–"
    if bound == "more than":
        return f"> e^{log_n:.0f}"
    digits = f"{math.exp(log_n):.4g}" if log_n < 23 else f"10^{log_n / math.log(10):.2f}"
    return f"≤ {digits}" if bound else digits


def _capacity_table(options: Options, points: Points) -> Table:
    columns = ["kernel", "d", "tau", *(f"N {name}" for name in options.statistic)]
    rows = []
    for p in points:
        row = [
            p["kernel"],
            str(p["d"]),
            f"{p['tau']:.4g}",
            *(count(log, p["bounds"].get(name, "")) for name, log in p["log_n"].items()),
        ]
        if options.simulate:
            row.append(_told(p))
        rows.append(row)
    if options.simulate:
        columns.append("mean SNR⁻¹ measured near N exact")
    return Table(f"Pairs at which SNR⁻¹ reaches {options.level:g}, {options.keys} keys", columns, rows)


def _told(point: dict[str, Any]) -> str:
    if point["measured"] is None:
        return f"not simulated: {point['not_simulated']}"
    snr = point["measured"]["snr"]
    return f"at N = {point['measured']['n']}: {snr['value']:.4g} [{snr['low']:.4g}, {snr['high']:.4g}]"


def _width_table(options: Options, points: Points) -> Table:
    rows = [
        (p["kernel"], str(p["n"]), *("–" if p["d"][s] is None else str(p["d"][s]) for s in options.statistic))
        for p in points
    ]
    title = f"Smallest width d ≤ {WIDEST} that holds N pairs at SNR⁻¹ = {options.level:g}, {options.keys} keys"
    return Table(title, ("kernel", "N", *(f"d {name}" for name in options.statistic)), rows)


def _fit_tables(options: Options, points: Points) -> list[Table]:
    """The claimed scaling of each kernel and statistic: √d against ½ ln N where there is a temperature (at √d), else
    ln N against ln d."""
    from snr.similarity import similarity

    rows = []
    for name in dict.fromkeys(p["kernel"] for p in points):
        for statistic in options.statistic:
            known = [
                (p["d"], p["log_n"][statistic])
                for p in points
                if p["kernel"] == name and p["log_n"][statistic] is not None and statistic not in p["bounds"]
            ]
            if len({d for d, _ in known}) >= 3:
                rows.append((name, statistic, *_fit(known, root=similarity(name).uses_tau)))
    if not rows:
        return []
    columns = ("kernel", "statistic", "fit", "slope", "intercept")
    return [Table("Scaling: least squares, 99 % intervals from the residuals (curvature, not noise)", columns, rows)]


def _fit(known: list[tuple[int, float]], root: bool) -> tuple[str, str, str]:
    from snr.capacity import fit_line

    if root:
        words, fit = "√d against ½ ln N", fit_line([log_n / 2 for _, log_n in known], [math.sqrt(d) for d, _ in known])
    else:
        words, fit = "ln N against ln d", fit_line([math.log(d) for d, _ in known], [log_n for _, log_n in known])
    slope = f"{fit.slope:.4f} [{fit.slope_low:.4f}, {fit.slope_high:.4f}]"
    return words, slope, f"{fit.intercept:.3f} [{fit.intercept_low:.3f}, {fit.intercept_high:.3f}]"


def _temperature_table(
    options: Options, kernels: list[Similarity], session: Session, curves: list[dict[str, Any]]
) -> Table:
    """The best temperatures; `curves` receives the scanned (ln N)/d."""
    from snr.capacity import best_temperature
    from snr.expectation import condensation_line

    d = options.dk[0]
    rows = []
    settings = [
        ("P's formula", "paper", "gaussian"),
        ("exact mean, Gaussian keys", "exact", "gaussian"),
        ("typical, probe of norm √d", "typical", "fixed-probe"),
        ("exact mean, keys of norm √d", "exact", "sphere"),
        ("typical, keys of norm √d", "typical", "sphere"),
    ]
    for kernel in kernels:
        if not kernel.uses_tau:
            continue
        for words, statistic, keys in settings:
            session.progress(f"best temperature of {kernel.name}: {words}")
            best = best_temperature(kernel, d, options.level, statistic, keys)
            if best is None:
                continue
            curves += [
                {"kernel": kernel.name, "statistic": words, "tau": t, "log_n/d": y / d}
                for t, y in zip(best.taus, best.log_ns)
                if y is not None and FEWEST < y < math.inf
            ]
            edge = " (coldest tried)" if best.tau == best.taus[0] else ""
            line = condensation_line(kernel, d, best.tau, "sphere" if keys == "sphere" else "gaussian")
            told = "condensed" if best.log_n < line else "self-averaging"
            rows.append(
                (kernel.name, words, f"{best.tau:.3g}{edge}", f"{best.log_n / d:.4f}", f"{line / d:.4f}, {told}")
            )
    columns = ("kernel", "statistic", "best tau", "(ln N)/d there", "condensation line")
    return Table(f"Temperature of largest capacity at d = {d}, SNR⁻¹ = {options.level:g}", columns, rows)


def _plot_temperatures(options: Options, curves: Points) -> None:
    from verify.report.exhibits.capacity import draw_temperatures
    from verify.report.style import save

    first = next(name for name in options.kernel if name in CONDENSING)
    rows = [c for c in curves if c["kernel"] == first and c["statistic"] != "typical, keys of norm √d"]
    figure = draw_temperatures({"rows": rows, "d": options.dk[0]})
    figure.axes[0].set_ylabel(f"(ln N)/d of {first} at d = {options.dk[0]}, SNR⁻¹ = {options.level:g}")
    save(figure, options.plot)


def _summary(options: Options, points: Points) -> str:
    if options.n:
        lines = ["d is the smallest width whose capacity at the level is N or more."]
        ns: dict[tuple[str, str, str], list[str]] = {}
        for p in points:
            for name, why in p["reasons"].items():
                ns.setdefault((p["kernel"], name, why), []).append(str(p["n"]))
        return "\n".join(
            lines
            + [f"{kernel}, d {name}: none for N = {', '.join(of)}: {why}." for (kernel, name, why), of in ns.items()]
        )
    lines = ["N is a real number, between whole numbers by interpolation."]
    if any("at most" in p["bounds"].values() for p in points):
        lines[0] += " ≤ 2: a single other pair makes as much noise as the level, or more."
    told: dict[tuple[str, str, str], list[str]] = {}
    for p in points:
        for name, why in p["reasons"].items():
            told.setdefault((p["kernel"], name, why), []).append(str(p["d"]))
    lines += [f"{kernel}, N {name}: none at d = {', '.join(ds)}: {why}." for (kernel, name, why), ds in told.items()]
    skipped = _without_temperature(options) if options.temperature else []
    return "\n".join(lines + [f"{name} has no temperature." for name in skipped])


def _without_temperature(options: Options) -> list[str]:
    from snr.similarity import similarity

    return [text for text in options.kernel if not similarity(text).uses_tau]


def _plot(options: Options, points: Points) -> None:
    from verify.report.exhibits.capacity import draw_capacity
    from verify.report.style import save

    rows = [
        {"kernel": p["kernel"], "statistic": s, "d": p["d"], "log_n": p["log_n"][s]}
        for p in points
        for s in options.statistic
        if p["log_n"][s] is not None and s not in p["bounds"]
    ]
    save(draw_capacity({"rows": rows, "level": options.level}), options.plot)
