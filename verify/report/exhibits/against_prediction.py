"""Empirical against predicted curves of the four kernels, over d, N and τ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from verify.report.exhibits import Exhibit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("linear", "relu", "exp", "solu")
SHARED = {
    "keys": "gaussian",
    "heads": 1,
    "values": "gaussian",
    "statistic": "mean",
    "predict": (),
    "confidence": 0.99,
    "seed": 0,
    "within": 0.01,
    "max_seconds": 1e9,  # stopped by tolerance and work alone: the same numbers on every machine
}


def _measure(quick: bool, axes: dict[str, tuple[Any, ...]], kernels: tuple[str, ...] = KERNELS) -> dict[str, Any]:
    from verify.capacity_point import measure_point
    from verify.sweep import grid

    shared = SHARED | {"rel_tol": 0.05 if quick else 0.01}
    points = [measure_point({**shared, **place, "d_v": place["d"]}) for place in grid({"kernel": kernels, **axes})]
    return {"points": points, "rows": [_row(p) for p in points]}


def _row(p: dict[str, Any]) -> dict[str, Any]:
    best = p["measured"]["importance"] or p["measured"]["mean"]
    row = {name: p[name] for name in ("kernel", "d", "n", "tau")}
    row |= {name: p["predicted"][name] for name in ("paper", "exact", "fixed_probe", "typical")}
    row |= {"mean": best["value"], "mean_low": best["low"], "mean_high": best["high"]}
    median = p["measured"]["median"]
    return row | {"median": median["value"], "median_low": median["low"], "median_high": median["high"]}


def over_d(quick: bool) -> dict[str, Any]:
    return _measure(quick, {"d": (8, 32, 128) if quick else (8, 16, 32, 64, 128, 256), "n": (256,), "tau": ("sqrt",)})


def over_n(quick: bool) -> dict[str, Any]:
    return _measure(
        quick, {"d": (32,), "n": (16, 128, 1024) if quick else (4, 16, 64, 256, 1024, 4096), "tau": ("sqrt",)}
    )


def over_tau(quick: bool) -> dict[str, Any]:
    taus = ("1.5", "4", "12") if quick else ("1", "1.5", "2", "3", "5", "8", "13", "20")
    return _measure(quick, {"d": (32,), "n": (256,), "tau": taus}, ("exp", "solu"))


def draw(numbers: dict[str, Any]) -> Figure:
    from verify.report.curves import draw_curves

    return draw_curves(numbers["points"])


def ratios(numbers: dict[str, Any]) -> Figure:
    from verify.report.curves import draw_ratios

    return draw_ratios(numbers["points"])


def residuals(numbers: dict[str, Any]) -> Figure:
    from verify.report.curves import draw_residuals

    return draw_residuals(numbers["points"])


def formula() -> str:
    """P eq. 13 in MathML."""
    import sympy

    n, d, tau = sympy.symbols("N d tau", positive=True)
    equation = sympy.Eq(sympy.Symbol("SNR") ** -1, n * sympy.exp(-2 * (tau - 1) * d / tau**2))
    return str(sympy.mathml(equation, printer="presentation"))


def headline(numbers: dict[str, Any]) -> str:
    ratios = [(j["name"], j["ratio"], p) for p in numbers["points"] for j in p["judged"] if j["ratio"]]
    exact = [r for name, r, _ in ratios if name == "exact"]
    worst, point = max(((r["value"], p) for name, r, p in ratios if name == "paper"), key=lambda found: found[0])
    inside = sum(r["low"] <= 1 <= r["high"] for r in exact)
    return (
        f"The paper’s closed forms miss the mean inverse SNR of Gaussian keys by up to a factor {worst:.3g} "
        f"({point['kernel']}, d = {point['d']}); the exact ones lie in {inside} of {len(exact)} measured, "
        "asymptotic 99 % intervals."
    )


CAPTION = (
    "Inverse SNR ‖r‖²/(c²‖v‖²) of vectors recalled from actual memories. Filled marks: the mean over memories with its "
    "asymptotic 99 % interval (importance-sampled where the law of the keys allows it); open marks: the median over "
    "recalls. Solid lines are the exact mean for Gaussian keys, dotted ones the paper’s closed forms (a probe of fixed "
    "norm √d), dashed ones the typical value; small marks on a line tell its series. The second view divides the "
    "measured mean by each formula, the third shows what is left beside the exact mean in half-widths of the interval."
)
VIEWS = (("measured / predicted", ratios), ("residuals", residuals))
RARE = " At small τ the mean is carried by rare draws, and the median lies orders of magnitude below it."
ASSUMES = ("keys N(0, I_d)", "values N(0, I) independent of the keys")
COMMAND = "python -m verify snr --kernel linear relu exp solu"
EXHIBITS = (
    Exhibit(
        id="snr-over-d",
        section="capacity",
        title="Predicted and measured noise over the key width",
        caption=CAPTION,
        command=COMMAND + " --n 256 --dk 8 16 32 64 128 256",
        compute=over_d,
        draw=draw,
        alt="Four curves that fall with d; measured marks lie on the exact lines and above the paper’s.",
        assumptions=ASSUMES,
        views=VIEWS,
        headline=headline,
    ),
    Exhibit(
        id="snr-over-n",
        section="capacity",
        title="Over the number of pairs",
        caption=CAPTION,
        command=COMMAND + " --dk 32 --n 4 16 64 256 1024 4096",
        compute=over_n,
        draw=draw,
        alt="Straight lines of slope one in N.",
        assumptions=ASSUMES,
        views=VIEWS,
    ),
    Exhibit(
        id="snr-over-tau",
        section="capacity",
        title="Over the temperature",
        caption=CAPTION + RARE,
        command="python -m verify snr --kernel exp solu --dk 32 --n 256 --tau 1 1.5 2 3 5 8 13 20",
        compute=over_tau,
        draw=draw,
        alt="The mean falls, reaches a least value and rises again; the median lies far below it at small τ.",
        assumptions=ASSUMES,
        formula=formula,
        views=VIEWS,
    ),
)
