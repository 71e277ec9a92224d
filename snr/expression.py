"""Formulas typed by a user: text to a sympy expression through a whitelist over Python's syntax tree.

The text is parsed with `ast`, never evaluated; only the names, functions and operators listed here exist. Size, depth
and constants are bounded, so that every text is answered at once: with an expression or with a one-line ValueError.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sympy

MAX_CHARACTERS = 400
MAX_NODES = 120
MAX_DEPTH = 24
MAX_EXPONENT = 64
MAX_CONSTANT = 1e100
# each function with its value in floats, by which constants are bounded
FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "abs": abs,
    "sign": lambda z: float((z > 0) - (z < 0)),
    "max": max,
    "min": min,
    "floor": math.floor,
    "round": lambda z: math.floor(z + 0.5),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "erf": math.erf,
    "erfc": math.erfc,
    "Phi": lambda z: math.erfc(-z / math.sqrt(2)) / 2,
    "gamma": math.gamma,
    "relu": lambda z: max(z, 0.0),
    "sigmoid": lambda z: (1 + math.tanh(z / 2)) / 2,
}
ALIASES = {"τ": "tau", "π": "pi", "Abs": "abs", "Max": "max", "Min": "min", "ln": "log", "Γ": "gamma", "Φ": "Phi"}
_POSITIVE = {"tau", "d", "N", "H", "n"}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}

_REFUSED: dict[type, str] = {
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitAnd: "&", ast.Invert: "~",
    ast.Not: "not", ast.And: "and", ast.Or: "or", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


@lru_cache(maxsize=256)
def parse(text: str, names: tuple[str, ...]) -> sympy.Expr:
    """The sympy expression that `text` describes in the symbols `names`.

    x is real, every other usual symbol (tau, d, N) positive: the same objects as `symbol(name)`. round(x) is
    floor(x + 1/2), Phi the normal distribution function. Raises ValueError, in one line, for anything else.
    """
    tree = _syntax(text, names)
    _constant(tree, names)  # refuses what is too large to build before sympy sees it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expression = _build(tree, names)
        except (ArithmeticError, TypeError, AttributeError, RecursionError, NotImplementedError, MemoryError) as error:
            raise ValueError(f"cannot be used as a formula ({type(error).__name__})") from error
    if not _is_real(expression):
        raise ValueError("has no finite real value; expected a real formula")
    return expression


@lru_cache(maxsize=64)
def symbol(name: str) -> sympy.Symbol:
    """The symbol that `parse` uses for a name."""
    import sympy

    return sympy.Symbol(name, positive=True) if name in _POSITIVE else sympy.Symbol(name, real=True)


@dataclass(frozen=True)
class Formula:
    """A user's formula in the symbols `names`, with its numeric twins; made by `formula`."""

    text: str
    names: tuple[str, ...]

    @cached_property
    def expression(self) -> sympy.Expr:
        return parse(self.text, self.names)

    @cached_property
    def _twins(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        from snr.signed_log import compile_signed_log, compile_value

        symbols = [symbol(name) for name in self.names]
        return compile_value(self.expression, symbols), compile_signed_log(self.expression, symbols)

    def value(self, *values: Any) -> Any:
        """The formula's value; arguments (floats or arrays that broadcast) in the order of `names`."""
        return self._twins[0](*values)

    def sign_and_log(self, *values: Any) -> tuple[Any, Any]:
        """The sign and the logarithm of the absolute value, free of overflow where the formula's form allows it."""
        return self._twins[1](*values)


def formula(text: str, names: Sequence[str]) -> Formula:
    """The formula that `text` describes in the symbols `names`. Raises ValueError where it describes none."""
    made = Formula(text, tuple(names))
    made.expression  # noqa: B018 (parses now, so that a bad text fails here)
    return made


def _accepted(names: Iterable[str]) -> str:
    return f"{', '.join(names)}, numbers, pi, e, + - * / ** and {', '.join(FUNCTIONS)}"


def _syntax(text: str, names: tuple[str, ...]) -> ast.expr:
    """The syntax tree, checked node by node against the whitelist."""
    if not text.strip():
        raise ValueError(f"empty; expected a formula of {_accepted(names)}")
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"{len(text)} characters; expected at most {MAX_CHARACTERS}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "too deep"
        raise ValueError(f"not a formula ({reason}); expected one of {_accepted(names)}") from None
    budget = [MAX_NODES]
    _check(tree, names, budget, MAX_DEPTH)
    return tree


def _check(node: ast.expr, names: tuple[str, ...], budget: list[int], depth: int) -> None:
    budget[0] -= 1
    if budget[0] < 0 or depth < 0:
        raise ValueError(f"too large; expected at most {MAX_NODES} operations, nested at most {MAX_DEPTH} deep")
    for child in _children(node, names):
        _check(child, names, budget, depth - 1)


def _children(node: ast.expr, names: tuple[str, ...]) -> list[ast.expr]:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float()):
            return []
        case ast.Name(id=name):
            if ALIASES.get(name, name) in (*names, "pi", "e"):
                return []
            raise ValueError(f"unknown name {name!r}; expected {_accepted(names)}")
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return [operand]
        case ast.BinOp(op=ast.BitXor()):
            raise ValueError("^ is not a power here; write ** for powers")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return [left, right]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            name = ALIASES.get(name, name)
            if name not in FUNCTIONS:
                raise ValueError(f"unknown function {name!r}; expected {_accepted(names)}")
            wanted = 2 if name in ("max", "min") else 1
            if any(isinstance(a, ast.Starred) for a in arguments) or not (
                len(arguments) == wanted or (wanted == 2 and 2 <= len(arguments) <= 8)
            ):
                raise ValueError(f"{name} takes {'two or more arguments' if wanted == 2 else 'one argument'}")
            return list(arguments)
        case ast.BinOp(op=ast.FloorDiv()):
            raise ValueError("// is not allowed; write floor(a/b)")
        case ast.BinOp(op=ast.Mod()):
            raise ValueError("% is not allowed; write a - b*floor(a/b)")
        case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op) | ast.Compare(ops=[op, *_]):
            raise ValueError(f"{_REFUSED[type(op)]} is not allowed; expected {_accepted(names)}")
    raise ValueError(f"{type(node).__name__} is not allowed; expected {_accepted(names)}")


def _constant(node: ast.expr, names: tuple[str, ...]) -> float | None:
    """The float value of a part without symbols, None with symbols; refuses constants that are too large or not real.

    Works in floats only, so that no integer of a billion digits is ever formed.
    """
    parts = [_constant(child, names) for child in _children(node, names)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        exponent = parts[1]
        if exponent is not None and abs(exponent) > MAX_EXPONENT:
            raise ValueError(f"exponent {exponent:.6g}; expected at most {MAX_EXPONENT}")
    if any(part is None for part in parts) or (
        isinstance(node, ast.Name) and ALIASES.get(node.id, node.id) not in ("pi", "e")
    ):
        return None
    try:
        value = float(_constant_value(node, [part for part in parts if part is not None]))
    except (ArithmeticError, ValueError, TypeError):
        raise ValueError("a constant in it has no finite real value") from None
    if not abs(value) <= MAX_CONSTANT:
        raise ValueError(f"a constant in it is beyond {MAX_CONSTANT:.0e}")
    return value


def _constant_value(node: ast.expr, parts: list[float]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return {"pi": math.pi, "e": math.e}.get(ALIASES.get(name, name))
        case ast.UnaryOp(op=op):
            return -parts[0] if isinstance(op, ast.USub) else parts[0]
        case ast.BinOp(op=op):
            return _OPERATORS[type(op)](*parts)
        case ast.Call(func=ast.Name(id=name)):
            return FUNCTIONS[ALIASES.get(name, name)](*parts)
    raise TypeError(type(node).__name__)


def _build(node: ast.expr, names: tuple[str, ...]) -> Any:
    import sympy

    match node:
        case ast.Constant(value=value):
            return _number(value)
        case ast.Name(id=name):
            name = ALIASES.get(name, name)
            if name in names:
                return symbol(name)
            return sympy.pi if name == "pi" else sympy.E
        case ast.UnaryOp(op=op, operand=operand):
            inner = _build(operand, names)
            return -inner if isinstance(op, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _build(left, names), _build(right, names)
            if isinstance(op, ast.Pow) and a.is_number and b.is_number and not b.is_Integer and b != sympy.S.Half:
                return sympy.Float(float(a) ** float(b))  # an exact root of a long number would factor it
            return _OPERATORS[type(op)](a, b)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _symbolic(ALIASES.get(name, name))(*(_build(a, names) for a in arguments))
    raise TypeError(type(node).__name__)


def _number(value: Any) -> Any:
    """Integers and short decimals exactly, so that 0.5 stays one half; longer decimals as floats."""
    import sympy

    if isinstance(value, int):
        return sympy.Integer(value)
    exact = sympy.Rational(repr(value))
    return exact if exact.q <= 10**6 and abs(exact.p) <= 10**12 else sympy.Float(value)


@lru_cache(maxsize=64)
def _symbolic(name: str) -> Callable[..., Any]:
    import sympy

    from snr.special import Phi

    special: dict[str, Callable[..., Any]] = {
        "abs": sympy.Abs,
        "max": sympy.Max,
        "min": sympy.Min,
        "Phi": Phi,
        "round": lambda z: sympy.floor(z + sympy.S.Half),
        "relu": lambda z: sympy.Max(0, z),
        "sigmoid": lambda z: 1 / (1 + sympy.exp(-z)),
    }
    return special.get(name) or getattr(sympy, name)


def _is_real(expression: Any) -> bool:
    import sympy

    return not expression.has(sympy.I, sympy.nan, sympy.zoo, sympy.oo, -sympy.oo, sympy.AccumBounds)
