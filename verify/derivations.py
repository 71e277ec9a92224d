"""`verify snr --derive`: the steps to every prediction that the command prints, and the numbers they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from verify.capacity_tables import NAMES, number
from verify.evidence import Finding, Table
from verify.options import blame

if TYPE_CHECKING:
    from snr.derivation import Step
    from snr.predictions import Prediction
    from verify.commands.snr import Options

DK, N = 64, 1024
RECALL_ERROR = (
    "Softmax-normalised recall, p_j the softmax weights: the error is E[(1−p_i)² + Σ_{j≠i} p_j²]. With w = e^{(X−s)/τ} "
    "and φ(θ) = E e^{−θw} given s, 1/(1+ρ)^m = ∫ θ^{m−1} e^{−θ(1+ρ)} dθ/(m−1)! "
    "makes it a single integral, averaged over s:"
)


def derivations(options: Options, spec: dict[str, Any]) -> Finding:
    """One table a kernel: what is done and what it gives, then the numbers."""
    from snr.similarity import similarity

    tables, points = [], []
    for text in options.kernel:
        with blame("--kernel", text):
            steps = _stored(options, text) if _in_file(options) else _drawn(options, text)
        rows = [(step.why, step.plain) for step in steps]
        tables.append(Table(f"Derivation for {similarity(text).name}", ("step", "formula"), rows))
        listed = [{"why": s.why, "formula": r[1], "mathml": s.mathml} for s, r in zip(steps, rows)]
        points.append({"kernel": text, "steps": listed})
    return Finding("snr", spec, points=points, tables=tables)


def _in_file(options: Options) -> bool:
    return options.keys not in ("gaussian", "sphere")


def _drawn(options: Options, text: str) -> Sequence[Step]:
    from snr.derivation import Step, derive
    from snr.predictions import predict
    from snr.similarity import similarity, temperature

    steps = list(derive(text).steps)
    if options.statistic == "recall-error":
        steps += _recall_error()
    if options.heads > 1:
        steps.append(
            Step(f"Each of {options.heads} heads is a memory of width d/{options.heads}, and they are alike in law.")
        )
    for d in options.dk or (DK,):
        for n in options.n or (N,):
            for tau in options.tau:
                at = temperature(tau)(d / options.heads)
                d_v = (options.dv or d // options.heads) if options.values == "gaussian" else None
                found = predict(similarity(text), n, d, at, options.keys, heads=options.heads, d_v=d_v)
                where = f"At d = {d}, N = {n}, τ = {at:.4g}, {options.keys} keys: "
                steps += [
                    _numbers(where, name, getattr(found, name))
                    for name in found.to_json()
                    if _told(getattr(found, name))
                ]
    return steps


def _told(prediction: Prediction) -> bool:
    return prediction.log is not None or bool(prediction.method)


def _numbers(where: str, name: str, prediction: Prediction) -> Step:
    from snr.derivation import Step

    if prediction.log is None:
        return Step(f"{where}{NAMES[name]}: not resolved by {prediction.method}: {prediction.reason}.")
    value = number(prediction.to_json(), prediction.log)
    reason = f", {prediction.reason}" if prediction.reason else ""
    return Step(f"{where}{NAMES[name]} = {value} ({prediction.method}{reason}).")


def _recall_error() -> list[Step]:
    import sympy

    from snr.derivation import N as PAIRS
    from snr.derivation import Step

    theta, w = sympy.symbols("theta w", positive=True)
    phi, e = sympy.Function("phi"), sympy.Function("E")
    inside = (2 - theta) * (1 - phi(theta) ** (PAIRS - 1)) + (PAIRS - 1) * theta * e(
        w**2 * sympy.exp(-theta * w)
    ) * phi(theta) ** (PAIRS - 2)
    value = sympy.Integral(sympy.exp(-theta) * inside, (theta, 0, sympy.oo))
    return [Step(RECALL_ERROR, sympy.Eq(sympy.Symbol("error"), value))]


def _stored(options: Options, text: str) -> Sequence[Step]:
    from snr.derivation import Step
    from snr.derivation_stored import derive_stored
    from snr.similarity import similarity, temperature
    from snr.stored import predict_stored
    from verify.stored_keys import PREDICTIONS, read

    keys = read(options)
    steps = list(derive_stored(text))
    for tau in options.tau:
        at = temperature(tau)(keys.d)
        found = predict_stored(similarity(text), keys, at)
        where = f"{keys.name}, N = {keys.n}, d = {keys.d}, d_eff = {found.d_eff:.4g}, τ = {at:.4g}: "
        if keys.heads > 1:
            where += f"mean over {keys.heads} heads: "
        for name, log in ((n, getattr(found, n)) for n in PREDICTIONS if n != "exact"):
            if log is not None:
                value = "inf" if log == math.inf else (math.exp(log) if log < 709 else None)
                steps.append(Step(f"{where}{PREDICTIONS[name]} = {number(value, log)}."))
    return steps
