"""Matrix expressions of an update rule, read from text and never executed as Python.

The language has the names it is told of (each with a shape in the dimensions v, d and 1), numbers, + - * / **, `.T`,
and the functions in FUNCTIONS. Shapes are checked while reading, in the symbols v and d, so that a wrong product is
reported as such and does not depend on the sizes tried. A product of a row and a column is a scalar.

The same expression is evaluated in several algebras: `SYMBOLIC` (sympy matrices with generic entries) for proofs at one
size, `theorem.words` for proofs at every size, and `NUMERIC` (numpy arrays) for large random instances.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Shape = tuple[str, str]
SCALAR: Shape = ("1", "1")
STATE: Shape = ("v", "d")
KEY: Shape = ("d", "1")
VALUE: Shape = ("v", "1")
MAX_LENGTH = 400
MAX_DEPTH = 40
MAX_POWER = 8
FUNCTIONS = ("diag", "tr", "norm2", "dot", "inv", "sqrt", "hadamard")
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.MatMult: "*", ast.Div: "/", ast.Pow: "**"}


@dataclass(frozen=True)
class Node:
    """One operation with its shape; `op` is "name", "number", "neg", ".T", an operator or a function."""

    op: str
    shape: Shape
    args: tuple[Node, ...] = ()
    value: str = ""

    def degree(self) -> int:
        """Its degree as a polynomial in S; no divisor, root or inverse contains S."""
        degrees = [a.degree() for a in self.args]
        match self.op:
            case "name":
                return int(self.value == "S")
            case "+" | "-":
                return max(degrees)
            case "**":
                return degrees[0] * int(self.args[1].value)
            case "norm2":
                return 2 * degrees[0]
        return sum(degrees)

    def names(self) -> frozenset[str]:
        """The names that occur in it."""
        own = frozenset([self.value]) if self.op == "name" else frozenset()
        return own.union(*(a.names() for a in self.args))


def parse(text: str, names: Mapping[str, Shape], shape: Shape | None = None) -> Node:
    """The expression `text` over `names`, of shape `shape` if one is given.

    Raises ValueError in one line: a name, function or syntax outside the language, or shapes that do not fit.
    """
    if not text.strip():
        raise ValueError("expected an expression, got nothing")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} characters, got {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("expected an expression such as I - beta*k*k.T") from None
    node = _read(tree, names, 0)
    if shape is not None and node.shape != shape:
        raise ValueError(f"expected shape {_words(shape)}, got {_words(node.shape)}")
    return node


def _words(shape: Shape) -> str:
    return "scalar" if shape == SCALAR else "×".join({"v": "d_v"}.get(n, n) for n in shape)


def _read(tree: ast.expr, names: Mapping[str, Shape], depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    match tree:
        case ast.Constant(value=bool()):
            raise ValueError("expected a number, got True or False")
        case ast.Constant(value=int() | float()):
            number = tree.value
            if not (abs(number) <= 1e12 and math.isfinite(number)):  # type: ignore[operator,arg-type]
                raise ValueError("expected finite numbers of at most 1e12 in size")
            return Node("number", SCALAR, value=repr(number))
        case ast.Name(id=name):
            if name not in names:
                raise ValueError(f"unknown name {name}; known are {', '.join(sorted(names))}")
            return Node("name", names[name], value=name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            inner = _read(operand, names, depth + 1)
            return inner if isinstance(sign, ast.UAdd) else Node("neg", inner.shape, (inner,))
        case ast.Attribute(value=value, attr="T"):
            inner = _read(value, names, depth + 1)
            return Node(".T", (inner.shape[1], inner.shape[0]), (inner,))
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _OPERATORS:
            return _binary(_OPERATORS[type(op)], _read(left, names, depth + 1), _read(right, names, depth + 1))
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if function in FUNCTIONS:
            return _call(function, [_read(a, names, depth + 1) for a in args])
    raise ValueError(f"only names, numbers, + - * / **, .T and {', '.join(FUNCTIONS)} are understood")


def _binary(op: str, left: Node, right: Node) -> Node:
    one, two = left.shape, right.shape
    if op in "+-":
        if one != two:
            raise ValueError(f"cannot add {_words(one)} and {_words(two)}")
        return Node(op, one, (left, right))
    if op == "*":
        if SCALAR in (one, two):
            return Node("scale", two if one == SCALAR else one, (left, right) if one == SCALAR else (right, left))
        if one[1] != two[0]:
            raise ValueError(f"cannot multiply {_words(one)} by {_words(two)}")
        return Node("matmul", (one[0], two[1]), (left, right))
    if two != SCALAR:
        raise ValueError("can divide only by a scalar" if op == "/" else "expected a number as exponent")
    if op == "/":
        _without_state(right, "a divisor")
        return Node("/", one, (left, right))
    if one != SCALAR or right.op != "number" or not right.value.isdigit() or int(right.value) > MAX_POWER:
        raise ValueError(f"expected a scalar to a power of 0 to {MAX_POWER}")
    return Node("**", SCALAR, (left, right))


def _call(function: str, args: list[Node]) -> Node:
    if len(args) != (2 if function in ("dot", "hadamard") else 1):
        raise ValueError(f"{function} takes {'two arguments' if function in ('dot', 'hadamard') else 'one argument'}")
    shape = args[0].shape
    if function == "diag":
        if shape[1] != "1" or shape == SCALAR:
            raise ValueError(f"diag expects a column, got {_words(shape)}")
        return Node(function, (shape[0], shape[0]), tuple(args))
    if function in ("tr", "inv") and (shape[0] != shape[1] or shape == SCALAR):
        raise ValueError(f"{function} expects a square matrix, got {_words(shape)}")
    if function in ("dot", "hadamard") and shape != args[1].shape:
        raise ValueError(f"{function} expects two of one shape, got {_words(shape)} and {_words(args[1].shape)}")
    if function == "sqrt" and shape != SCALAR:
        raise ValueError(f"sqrt expects a scalar, got {_words(shape)}")
    if function in ("inv", "sqrt"):
        _without_state(args[0], f"the argument of {function}")
    return Node(function, shape if function in ("inv", "hadamard") else SCALAR, tuple(args))


def _without_state(node: Node, place: str) -> None:
    # the potential is found by integrating along a ray from 0, which needs a polynomial in S
    if "S" in node.names():
        raise ValueError(f"S may not occur in {place}")


class _Symbolic:
    """sympy: matrices with symbolic entries, numbers exact."""

    def number(self, text: str) -> Any:
        import sympy

        return sympy.Rational(text)

    def matmul(self, x: Any, y: Any) -> Any:
        return x * y

    def diag(self, x: Any) -> Any:
        import sympy

        return sympy.diag(*x)

    def inv(self, x: Any) -> Any:
        import sympy

        try:
            return x.inv()
        except sympy.matrices.exceptions.NonInvertibleMatrixError:
            raise ValueError(f"inv of a singular matrix, at {x.rows}×{x.cols}") from None

    def sqrt(self, x: Any) -> Any:
        import sympy

        if x.is_negative:
            raise ValueError(f"sqrt of a negative number, {x}")
        return sympy.sqrt(x)

    def hadamard(self, x: Any, y: Any) -> Any:
        return x.multiply_elementwise(y)

    def inner(self, x: Any, y: Any) -> Any:
        return sum(self.hadamard(x, y), self.number("0"))


class _Numeric:
    """numpy in float64."""

    def number(self, text: str) -> Any:
        return float(text)

    def matmul(self, x: Any, y: Any) -> Any:
        return x @ y

    def diag(self, x: Any) -> Any:
        import numpy as np

        return np.diag(x[:, 0])

    def inv(self, x: Any) -> Any:
        import numpy as np

        if np.linalg.matrix_rank(x) < len(x):
            raise ValueError("inv of a singular matrix")
        return np.linalg.inv(x)

    def sqrt(self, x: Any) -> Any:
        if x < 0:
            raise ValueError(f"sqrt of a negative number, {x:g}")
        return math.sqrt(x)

    def hadamard(self, x: Any, y: Any) -> Any:
        return x * y

    def inner(self, x: Any, y: Any) -> Any:
        return float((x * y).sum())


SYMBOLIC = _Symbolic()
NUMERIC = _Numeric()


def evaluate(node: Node, values: Mapping[str, Any], algebra: Any) -> Any:
    """The value of `node`: scalars are numbers of the algebra, everything else its two-dimensional matrices."""
    if node.op == "name":
        return values[node.value]
    if node.op == "number":
        return algebra.number(node.value)
    x, *rest = (evaluate(a, values, algebra) for a in node.args)
    match node.op:
        case "neg":
            return -x
        case ".T":
            return x if node.shape == SCALAR else x.T
        case "+":
            return x + rest[0]
        case "-":
            return x - rest[0]
        case "scale":
            return x * rest[0]
        case "matmul":
            product = algebra.matmul(x, rest[0])
            return product[0, 0] if node.shape == SCALAR else product
        case "/":
            if rest[0] == 0:
                raise ValueError("division by zero")
            return x / rest[0]
        case "**":
            return x ** int(node.args[1].value)
        case "tr":
            return x.trace()
        case "norm2" | "dot":
            y = rest[0] if rest else x
            return x * y if node.args[0].shape == SCALAR else algebra.inner(x, y)
        case "diag" | "inv" | "sqrt" | "hadamard":
            return getattr(algebra, node.op)(x, *rest)
    raise AssertionError(f"operation {node.op} is read but not evaluated")
