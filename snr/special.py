"""Functions that sympy lacks or spoils, with which expressions keep their digits in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy
from scipy import special

Array = Any


class Phi(sympy.Function):
    """The standard normal distribution function. A function of its own because sympy turns erfc(-x) into 2 - erfc(x),
    which loses the left tail."""

    nargs = 1

    @classmethod
    def eval(cls, z: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Half if z.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return sympy.exp(-(self.args[0] ** 2) / 2) / sympy.sqrt(2 * sympy.pi)

    def _eval_is_extended_real(self) -> bool:
        return True

    def _eval_rewrite_as_erf(self, z: sympy.Expr, **_: object) -> sympy.Expr:
        return (1 + sympy.erf(z / sympy.sqrt(2))) / 2

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return self.rewrite(sympy.erf)._eval_evalf(prec)


class Expm1(sympy.Function):
    """e^u − 1."""

    nargs = 1


class Conjugated(sympy.Function):
    """a + b, with a² − b² as third argument: the sum is that over a − b, which does not cancel where a + b does."""

    nargs = 3


class Repeated(sympy.Function):
    """base**n for an integer n, multiplied out: numpy's power of an array takes as long as fifty products."""

    nargs = 2


def repeated(base: Array, n: Array) -> Array:
    power: Any = 1.0
    square, left = base, abs(int(n))
    while left:
        if left % 2:
            power = power * square
        square, left = square * square, left // 2
    return power if n > 0 else 1 / power


def conjugated(a: Array, b: Array, difference: Array) -> Array:
    return np.where(np.sign(a) * np.sign(b) < 0, difference / (a - b), a + b)


NUMERIC = {
    "Phi": special.ndtr,
    "Expm1": np.expm1,
    "Conjugated": conjugated,
    "Repeated": repeated,
    "erf": special.erf,
    "erfc": special.erfc,
    "gamma": special.gamma,
}
"""The functions of this module, and those of sympy that numpy lacks, in floating point."""
