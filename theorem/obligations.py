"""Theorem 1 for every key set, as statements for an SMT solver (P App. E): SMT-LIB 2 text, no solver here.

Lemma 1 names at most four slots, so for each way in which its indices can coincide it is a statement about a handful of
inner products, bounded reals, and of rounded values, integers. The induction of Theorem 1 touches one slot's reading at
a time, and the sum over the memory grows by one entry at a time, so it too is a few lines of arithmetic that hold for
all n and every number of steps. An obligation asserts the hypotheses and the *negation* of what is to be shown: `unsat`
is the proof. Those with `expected = "sat"` are refutations: the model is a counterexample.

What f is in an obligation:
    nearest      any integer within 1/2 of the argument, ties broken in any way whatever, even differently each time
    half-even, half-away      the two rules of `theorem.rounding`, spelt out again in integer arithmetic
    a table      an unknown function, exact only where Assumption 2 says so: |x - t| <= c eps for the table's (t, c)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from theorem.rounding import HALF_AWAY, HALF_EVEN, RULES, rounds_to

NEAREST = "nearest"
PRINTED_RADII = {-1: 3, 0: 4, 1: 3, 2: 2}  # P App. E: f exact within c eps of t
FOUR_SLOTS = "distinct"

Key = tuple[str, ...]  # ("l",) is the slot l, ("l", "m") the swap that writes k_l - k_m
SWAP: Key = ("i", "j")


@dataclass(frozen=True)
class Obligation:
    """One statement in SMT-LIB: hypotheses, a conclusion, and whether its negation is to be unsat or sat with them.

    An unsat counts only where the hypotheses alone are satisfiable; `theorem.smt` decides that as well.
    """

    name: str
    statement: str
    expected: str
    hypotheses: str
    conclusion: str

    @property
    def smtlib(self) -> str:
        """The script to decide: all hypotheses, and not the conclusion."""
        return f"{self.hypotheses}(assert (not {self.conclusion}))\n(check-sat)\n"

    @property
    def sha256(self) -> str:
        """Names the statement: a recorded answer is about this text and no other."""
        return hashlib.sha256(self.smtlib.encode()).hexdigest()


def patterns(ordered: bool) -> dict[str, Key]:
    """Every way in which a written key's slots can coincide with those of the swap (i, j), by name.

    With `ordered` (each swap names its later slot first, P's t2 < t1) the swap (j, i) does not occur.
    """
    slots = {"slot i": ("i",), "slot j": ("j",), "slot l": ("l",)}
    swaps = {
        FOUR_SLOTS if (a, b) == ("l", "m") else f"swap {a} {b}": (a, b)
        for a, b in product(("i", "j", "l"), ("i", "j", "m"))
        if a != b and not (ordered and (a, b) == ("j", "i"))
    }
    return {**slots, **swaps}


def obligations() -> dict[str, Obligation]:
    """Every obligation by name; the part before the slash says which statement it belongs to."""
    groups = (_lemma, _assumption_2, _eighth, _tight, _quarter, _three_slots, _gram_condition, _induction, _necessity)
    return {o.name: o for group in groups for o in group()}


def _obligation(name: str, statement: str, lines: list[str], conclusion: str, expected: str = "unsat") -> Obligation:
    return Obligation(name, statement, expected, "\n".join(["(set-logic ALL)", *lines]) + "\n", conclusion)


class _Script:
    """An SMT-LIB script in the making: Gram entries on demand, f applied to linear terms, assertions."""

    def __init__(self, f: str | Mapping[int, int] = NEAREST, unit: bool = True, open_at: int | None = None) -> None:
        self.f, self.unit, self.open_at = f, unit, open_at
        self.lines: list[str] = []
        self.values: dict[str, str] = {}
        if not isinstance(f, str):
            self.lines.append("(declare-fun f (Real) Real)")
        if unit:
            self.declare("eps", "Real")
            self.require("(<= 0 eps)")

    def declare(self, name: str, sort: str) -> str:
        self.lines.append(f"(declare-const {name} {sort})")
        return name

    def require(self, formula: str) -> None:
        self.lines.append(f"(assert {formula})")

    def gram(self, a: str, b: str) -> str:
        """k_a . k_b: a variable; for unit keys 1 where a = b and otherwise within eps, as Assumption 1 has it."""
        if self.unit and a == b:
            return "1.0"
        name = f"g_{min(a, b)}{max(a, b)}"
        if f"(declare-const {name} Real)" not in self.lines:
            self.declare(name, "Real")
            if self.unit:
                self.require(f"(<= (- eps) {name} eps)")
        return name

    def dot(self, first: Key, second: Key) -> str:
        terms = [self.gram(a, b) if sign > 0 else f"(- {self.gram(a, b)})" for sign, a, b in _signed(first, second)]
        return terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"

    def value(self, first: Key, second: Key) -> str:
        """f(first . second)."""
        x = self.dot(first, second)
        if x not in self.values:
            if isinstance(self.f, str):
                self.values[x] = self.declare(f"f{len(self.values)}", "Int")
                self.require(_rounded(x, self.values[x], self.f))
            else:
                self.values[x] = f"(f {x})"
                for t, c in self.f.items():
                    order = "<" if t == self.open_at else "<="
                    near = f"({order} (- (* {c} eps)) (- {x} {_number(t)}) (* {c} eps))"
                    self.require(f"(=> {near} (= {self.values[x]} {_number(t)}))")
        return self.values[x]

    def obligation(self, name: str, statement: str, conclusion: str, expected: str = "unsat") -> Obligation:
        return _obligation(name, statement, self.lines, conclusion, expected)


def _number(t: int) -> str:
    return f"{t}" if t >= 0 else f"(- {-t})"


def _rounded(x: str, r: str, rule: str) -> str:
    """r is x rounded to the nearest integer."""
    low, high = f"(- (to_real {r}) 0.5)", f"(+ (to_real {r}) 0.5)"
    if rule == NEAREST:
        return f"(<= {low} {x} {high})"
    if rule == HALF_EVEN:
        return f"(and (<= {low} {x} {high}) (=> (or (= {x} {low}) (= {x} {high})) (= (mod {r} 2) 0)))"
    return f"(ite (>= {x} 0) (and (<= {low} {x}) (< {x} {high})) (and (< {low} {x}) (<= {x} {high})))"


def _signed(first: Key, second: Key) -> list[tuple[int, str, str]]:
    """The terms of first . second: sign and the two slots."""
    return [(1 if p == q else -1, a, b) for p, a in enumerate(first) for q, b in enumerate(second)]


def _expected(first: Key, second: Key) -> int:
    """first . second for one-hot keys."""
    return sum(sign for sign, a, b in _signed(first, second) if a == b)


def _identity(script: _Script, written: Key) -> str:
    """Lemma 1 as printed, for one written key: f((k_i - k_j) . x) = f(k_i . x) - f(k_j . x)."""
    left, at_i, at_j = (script.value(key, written) for key in (SWAP, ("i",), ("j",)))
    return f"(= {left} (- {at_i} {at_j}))"


def _lemma_obligation(group: str, name: str, written: Key, script: _Script, expected: str, words: str) -> Obligation:
    """Lemma 1 for one pattern; where it is to be proved, with the value that one-hot keys give."""
    conclusion = _identity(script, written)
    if expected == "unsat":
        conclusion = f"(and {conclusion} (= {script.value(SWAP, written)} {_number(_expected(SWAP, written))}))"
    shown = f"f((k_i - k_j).x) = f(k_i.x) - f(k_j.x) for x = {' - '.join('k_' + s for s in written)}"
    return script.obligation(f"{group}/{name}", f"{shown}: {words}", conclusion, expected)


def _small(script: _Script) -> _Script:
    """The script with Assumption 1: eps < 1/8."""
    script.require("(< eps 0.125)")
    return script


def _reading(script: _Script) -> str:
    """What is read of one slot alone: f(k_i . k_i) = 1 and f(k_i . k_j) = 0."""
    return f"(and (= {script.value(('i',), ('i',))} 1) (= {script.value(('i',), ('j',))} 0))"


def _lemma() -> Iterator[Obligation]:
    script = _small(_Script())
    words = "f(k_i.k_i) = 1, f(k_i.k_j) = 0: unit keys, any eps < 1/8, any rounding"
    yield script.obligation("lemma-1/reading", words, _reading(script))
    for name, written in patterns(ordered=False).items():
        yield _lemma_obligation(
            "lemma-1", name, written, _small(_Script()), "unsat", "unit keys, any eps < 1/8, any rounding"
        )


def _assumption_2() -> Iterator[Obligation]:
    words = "f exact only within 4 eps of 0, 3 eps of 1 and -1, 2 eps of 2"
    script = _small(_Script(PRINTED_RADII))
    yield script.obligation("assumption-2/reading", f"f(k_i.k_i) = 1, f(k_i.k_j) = 0: {words}", _reading(script))
    for name, written in patterns(ordered=True).items():
        yield _lemma_obligation("assumption-2", name, written, _small(_Script(PRINTED_RADII)), "unsat", words)
    reverse = patterns(ordered=False)["swap j i"]
    script = _small(_Script(PRINTED_RADII))
    yield _lemma_obligation("order", "reversed swap", reverse, script, "sat", f"{words}, t1 < t2 allowed")
    script = _small(_Script({**PRINTED_RADII, -2: 2}))
    yield _lemma_obligation("order", "reversed swap, f exact at -2", reverse, script, "unsat", f"{words} and of -2")
    for target, name in {0: FOUR_SLOTS, 1: "swap i m", -1: "swap j m", 2: "swap i j"}.items():
        written = patterns(ordered=True)[name]
        script = _small(_Script(PRINTED_RADII, open_at=target))
        script.require("(< 0 eps)")
        for sign, a, b in _signed(SWAP, written):
            if a != b:
                script.require(f"(= {script.gram(a, b)} {'eps' if sign > 0 else '(- eps)'})")
        script.require(f"(not (= {script.value(SWAP, written)} {_number(target)}))")
        reached = f"{PRINTED_RADII[target]} eps from {target}"
        words = f"the argument {reached} occurs for every 0 < eps < 1/8, and f must be exact there"
        yield script.obligation(f"radii/{target}", words, f"(not {_identity(script, written)})")


def _eighth() -> Iterator[Obligation]:
    for rule in RULES:
        for name, written in patterns(ordered=False).items():
            script = _Script(rule)
            script.require("(= eps 0.125)")
            fails = rule == HALF_AWAY and name == FOUR_SLOTS
            yield _lemma_obligation(
                f"eighth-{rule}", name, written, script, "sat" if fails else "unsat", f"unit keys, eps = 1/8, {rule}"
            )


def _tight() -> Iterator[Obligation]:
    written = patterns(ordered=True)[FOUR_SLOTS]
    script = _Script(HALF_EVEN)
    script.require("(= eps 0.126)")
    yield _lemma_obligation("above-eighth", "eps = 0.126", written, script, "sat", "unit keys, eps = 0.126")
    script = _Script(NEAREST)
    script.require("(< 0.125 eps 0.25)")
    for a, b, value in (("i", "l", "eps"), ("j", "m", "eps"), ("i", "m", "(- eps)"), ("j", "l", "(- eps)")):
        script.require(f"(= {script.gram(a, b)} {value})")
    yield script.obligation(
        "above-eighth/every eps",
        "k_i.k_l = k_j.k_m = eps, k_i.k_m = k_j.k_l = -eps break Lemma 1 for every 1/8 < eps < 1/4, however f rounds",
        f"(not {_identity(script, written)})",
    )


def _quarter() -> Iterator[Obligation]:
    for sign, words in (("", "k_i.k_j > 1/4"), ("- ", "k_i.k_j < -1/4")):
        script = _Script(NEAREST)
        entry = script.gram("i", "j")
        script.require("(<= eps 1)")
        script.require(f"(> {f'({sign}{entry})' if sign else entry} 0.25)")
        wrong = f"(not (= {script.value(SWAP, SWAP)} 2))"
        yield script.obligation(f"quarter/{words}", f"f((k_i - k_j).(k_i - k_j)) is not 2: unit keys, {words}", wrong)


def _three_slots() -> Iterator[Obligation]:
    for name, written in patterns(ordered=False).items():
        if name != FOUR_SLOTS:
            script = _Script(NEAREST)
            script.require("(< eps (/ 1.0 6.0))")
            yield _lemma_obligation("three-slots", name, written, script, "unsat", "unit keys, n = 3, any eps < 1/6")


def _within(script: _Script, first: Key, second: Key, rule: str | None) -> str:
    """The Gram condition for one product: its second difference is below 1/2, or a tie that `rule` breaks rightly."""
    target = _expected(first, second)
    excess = f"(- {script.dot(first, second)} {_number(target)})"
    clauses = [f"(< (- 0.5) {excess} 0.5)"]
    for above, half in ((True, "0.5"), (False, "(- 0.5)")):
        if rule and rounds_to(target, above, rule):
            clauses.append(f"(= {excess} {half})")
    return f"(or {' '.join(clauses)})"


def _gram_condition() -> Iterator[Obligation]:
    for name, written in patterns(ordered=False).items():
        script = _small(_Script())
        words = f"Assumption 1 implies the Gram condition without ties: the swap (i, j) with {name}"
        conclusion = _within(script, SWAP, written, None)
        yield script.obligation(f"gram-from-assumption-1/{name}", words, conclusion)
        parts = [(SWAP, written), (("i",), written), (("j",), written)]
        for rule in RULES:
            script = _Script(rule, unit=False)
            for first, second in parts:
                script.require(_within(script, first, second, rule))
            yield _lemma_obligation(
                f"gram-sufficient-{rule}", name, written, script, "unsat", f"any Gram matrix in the condition, {rule}"
            )
            script = _Script(rule, unit=False)
            for a, b in product(sorted({"i", "j", *written}), repeat=2):
                if a <= b:
                    script.require(f"(= {script.value((a,), (b,))} {int(a == b)})")
            script.require(_identity(script, written))
            if len(written) == 2:  # f(k_i . (k_l - k_m)) is the lemma for the swap (l, m) and the slot i; f is odd
                for slot in SWAP:
                    at = [script.value((a,), (slot,)) for a in written]
                    script.require(f"(= {script.value((slot,), written)} (- {at[0]} {at[1]}))")
            yield script.obligation(
                f"gram-implied-{rule}/{name}",
                f"Lemma 1 with f(k_a.k_b) = [a = b] implies the Gram condition, {rule}: the swap (i, j) with {name}",
                _within(script, SWAP, written, rule),
            )


def _reals(*names: str) -> list[str]:
    return [f"(declare-const {name} Real)" for name in names]


def _induction() -> Iterator[Obligation]:
    """Theorem 1 from the lemma, for all n and any number of steps.

    The memory is a list of entries (x, u). Reading a key k gives S(k) = sum over entries of f(k . x) u. The invariant:
    S(k_l) is the current item of slot l, for every l. Values are shown one coordinate at a time.
    """
    lines = _reals("s_i", "s_j", "s_ij", "f_i", "f_j", "f_ij", "u")
    lines += ["(assert (= s_ij (- s_i s_j)))", "(assert (= f_ij (- f_i f_j)))"]
    yield _obligation(
        "induction/sum",
        "if S(k_i - k_j) = S(k_i) - S(k_j) over some entries and Lemma 1 holds at the next, it holds over all of them",
        lines,
        "(= (+ s_ij (* f_ij u)) (- (+ s_i (* f_i u)) (+ s_j (* f_j u))))",
    )
    for slot, f, before, after in (("i", 1, "a", "b"), ("j", -1, "b", "a"), ("other", 0, "c", "c")):
        lines = _reals("a", "b", "c", "u")
        lines += ["(assert (= u (- (- a b))))"]  # u = 0 - S(k_i - k_j) = -(S(k_i) - S(k_j)) = -(a - b)
        yield _obligation(
            f"induction/swap, slot {slot}",
            f"slots i, j hold a, b; after writing k_i - k_j with value 0, slot {slot} reads {after}",
            lines,
            f"(= (+ {before} (* {_number(f)} u)) {after})",
        )
    for slot, f, before, after in (("a", 1, "r", "v"), ("other", 0, "c", "c")):
        lines = _reals("r", "c", "v", "u")
        lines += ["(assert (= u (- v r)))"]  # r = S(k_a): 0 at an initial write, the item overwritten at a later one
        yield _obligation(
            f"induction/write, slot {slot}",
            f"after writing k_a with value v, slot {slot} reads {after}",
            lines,
            f"(= (+ {before} (* {_number(f)} u)) {after})",
        )


def _necessity() -> Iterator[Obligation]:
    """Where the Gram condition fails, so does Theorem 1: after the initial writes, one swap, or two."""
    lines = _reals("d_i", "d_j", "d_l") + [f"(declare-const b_{s} Int)" for s in "ijl"]
    lines += [f"(assert {_rounded(f'd_{s}', f'b_{s}', NEAREST)})" for s in "ijl"]
    lines += ["(assert (>= (- d_i d_j) 0))"]  # |k_i - k_j|^2
    swapped = {"i": "j", "j": "i", "l": "l"}
    for read, held in product("ijl", repeat=2):  # value 1 in slot `held`, 0 elsewhere
        lines.append(f"(assert (= (- {int(read == held)} (* b_{read} b_{held})) {int(swapped[read] == held)}))")
    yield _obligation(
        "necessary/one swap",
        "if one swap of i and j reads out rightly for every value, then f((k_i - k_j).k_s) is 1, -1, 0 at s = i, j, l",
        lines,
        "(and (= b_i 1) (= b_j (- 1)) (= b_l 0))",
    )
    for name, written in patterns(ordered=False).items():
        if len(written) == 1:
            continue
        l, m = written
        e_l, e_m = _expected(SWAP, (l,)), _expected(SWAP, (m,))
        lines = [*_reals("v_l", "v_m", "u1", "u2"), "(declare-const w Int)"]
        lines += [f"(assert (and (not (= u1 0)) (not (= w {_number(e_l - e_m)}))))"]
        lines += ["(assert (= u2 (- (+ (- v_l v_m) (* w u1)))))"]
        held, read = f"(+ v_m (* {_number(e_m)} u1))", f"(+ v_l (* {_number(e_l)} u1) u2)"
        yield _obligation(
            f"necessary/two swaps, {name}",
            f"if f((k_i - k_j).(k_{l} - k_{m})) is wrong, slot {l} reads wrongly after the swaps (i, j), ({l}, {m})",
            lines,
            f"(not (= {read} {held}))",
        )
