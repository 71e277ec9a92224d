from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from verify.evidence import Claim, Evidence, Finding, Ruling, Table, Verdict
from verify.options import BadInput, blame, integer, option
from verify.session import Session

if TYPE_CHECKING:
    from theorem.rule import Rule
    from theorem.user_rule import Examination, TooSlow


@dataclass(frozen=True)
class Options:
    """Prove what each memory update S -> A S B + C optimises, or decide it for a rule of your own.

    Expressions know S, the key k and the value v of the step, I, scalars such as beta and a, columns such as lam and
    kappa, generic matrices M (d x d) and N (d_v x d_v), + - * / **, .T, and diag, tr, norm2, dot, inv, sqrt, hadamard.
    """

    rule: tuple[str, ...] = option((), help="explain these rules of the catalogue", many=True, metavar="NAME")
    A: str | None = option(None, help="your rule's A, d_v x d_v (I where left out)", metavar="EXPR")
    B: str | None = option(None, help="your rule's B, d x d (I where left out)", metavar="EXPR")
    C: str | None = option(None, help="your rule's C, d_v x d (v*k.T where left out)", metavar="EXPR")
    seed: int = option(0, help="seed of the random instances of your rule", parse=integer(0))


def run(options: Options, session: Session) -> Finding:
    if any(text is not None for text in (options.A, options.B, options.C)):
        if options.rule:
            raise BadInput(f"--rule {options.rule[0]}: expected either --rule or --A, --B, --C")
        return _user(options)
    from theorem.rules import catalogue

    rules = catalogue()
    for name in options.rule:
        if name not in rules:
            raise BadInput(f"--rule {name}: expected one of {', '.join(rules)}")
    return _catalogue(options, session, [rules[n] for n in options.rule or rules])


def _catalogue(options: Options, session: Session, rules: list[Rule]) -> Finding:
    from theorem.rule_proofs import prove
    from verify.claims.p2_2_update import rule_claim, rule_ruling

    points, claims, rows, tables = [], [], [], []
    for number, rule in enumerate(rules, 1):
        session.progress(f"rule {number}/{len(rules)} {rule.name}")
        proofs = prove(rule)
        claim = rule_claim(rule).decided(rule_ruling(rule, proofs))
        claims.append(claim)
        potential = "yes" if proofs.plain else (f"with {rule.preconditioner}" if rule.objective else "no")
        floor = {True: "bounded", False: "unbounded", None: "-"}[rule.bounded]
        assert claim.ruling is not None
        rows.append((rule.name, rule.update, potential, floor, str(claim.ruling.verdict)))
        points.append(_point(rule, proofs))
        if options.rule:
            tables.append(Table(rule.title, ("what", "is"), _explanation(rule, proofs, str(claim.ruling.verdict))))
    if not options.rule:
        tables = [Table("Update rules", ("rule", "S ←", "potential", "objective", "verdict"), rows)]
    held = sum(c.ruling is not None and c.ruling.verdict == Verdict.CONFIRMED for c in claims)
    preconditioned = sum(rule.preconditioner != "Id" for rule in rules if rule.objective)
    without = sum(not rule.objective for rule in rules)
    return Finding(
        "update",
        asdict(options),
        points,
        claims,
        tables,
        f"of {len(rules)} rules {len(rules) - without} are gradient steps of the objective named, {preconditioned} of "
        f"these preconditioned, and {without} of none; {held} of {len(rules)} rows are proved; "
        "explain one with --rule NAME, try your own with --A, --B, --C",
    )


def _point(rule: Rule, proofs: Any) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "update": rule.update,
        "objective": rule.objective or None,
        "preconditioner": rule.preconditioner if rule.objective else None,
        "plain_potential": proofs.plain,
        "kronecker_terms": proofs.terms,
        "gradient_identity": proofs.identity,
        "gradient_identity_every_size": proofs.every_size,
        "gradient_residual": proofs.residual,
        "bounded_below": proofs.bounded.bounded if proofs.bounded else None,
        "bounded_proved": proofs.bounded.proved if proofs.bounded else None,
        "spectrum": [list(pair) for pair in rule.spectrum],
        "spectrum_proved": proofs.spectrum,
        "equivalences": proofs.equivalences,
    }


def _explanation(rule: Rule, proofs: Any, verdict: str) -> list[tuple[str, str]]:
    proved = {True: "proved", False: "NOT proved", None: ""}
    rows = [("rule", f"{rule.name}: {rule.source}"), ("S ←", rule.update)]
    if rule.objective:
        rows += [("objective L", rule.objective)]
        rows += [("step", "S - ∂L/∂S" + (f" · {rule.preconditioner}" if rule.preconditioner != "Id" else ""))]
        sizes = "for every size" if proofs.every_size else "at small sizes"
        rows += [("gradient identity", f"{proved[proofs.identity]} {sizes}; float64 residual {proofs.residual:.1e}")]
        rows += [("bounded below", f"{'yes' if rule.bounded else 'no'}, {proofs.bounded.reason}")]
    if not proofs.plain:
        rows += [("obstruction", f"(J - Jᵀ)/2 at d_v = d = 2 has the entry {_first_entry(proofs.obstruction)}")]
    if proofs.terms > 1:
        rows += [("form", f"a sum of {proofs.terms} terms A S B: not of P's form")]
    rows += [(f"eigenvalue ({count})", value) for value, count in rule.spectrum]
    rows += [("same as", f"{text} ({proved[holds]})") for text, holds in proofs.equivalences.items()]
    return [*rows, *([("note", rule.note)] if rule.note else []), ("verdict", verdict)]


def _first_entry(matrix: Any) -> str:
    i, j = next((i, j) for i in range(matrix.rows) for j in range(matrix.cols) if matrix[i, j] != 0)
    return f"[{i + 1},{j + 1}] = {matrix[i, j]}"


def _user(options: Options) -> Finding:
    from theorem.user_rule import TooSlow, examine, user_rule

    given = {"A": ("I", options.A), "B": ("I", options.B), "C": ("v*k.T", options.C)}
    a, b, c = (default if text is None else text for default, text in given.values())
    claim = Claim("user-potential", "user", "", command=f"python -m verify update --A '{a}' --B '{b}' --C '{c}'")
    with blame("--A/--B/--C", f"{a} / {b} / {c}"):
        rule = user_rule(a, b, c)
        claim = replace(claim, statement=f"S ← {rule.update} is a gradient step of some objective")
        try:
            found = examine(rule, options.seed)
        except TooSlow as slow:
            claim = claim.decided(_undecided(slow))
            return Finding(
                "update", asdict(options), claims=[claim], summary=claim.ruling.detail if claim.ruling else ""
            )
    claim = claim.decided(_user_ruling(rule, found))
    return Finding(
        "update",
        asdict(options),
        [_user_point(rule, found)],
        [claim],
        [Table(f"S ← {rule.update}", ("what", "is"), _user_rows(found))],
        claim.ruling.detail if claim.ruling else "",
    )


def _undecided(slow: TooSlow) -> Ruling:
    from theorem.user_rule import LARGE

    at = f"; a random instance in float64 at {LARGE[0]}×{LARGE[1]} has "
    seen = {True: f"{at}a symmetric Jacobian", False: f"{at}no symmetric Jacobian", None: ""}
    return Ruling(Verdict.INCONCLUSIVE, Evidence.PROOF, f"undecided: {slow}{seen[slow.symmetric]}")


def _user_ruling(rule: Rule, found: Examination) -> Ruling:
    from theorem.user_rule import LARGE, PROOF_SIZES

    numbers = _user_point(rule, found)
    check = {True: f" (float64 at {LARGE[0]}×{LARGE[1]} agrees)", None: ""}
    if found.agrees is False:
        return Ruling(Verdict.INCONCLUSIVE, Evidence.PROOF, "small sizes and a large instance disagree", numbers)
    if found.decision.exists:
        sizes = "for every size, and " if found.every_size else ""
        detail = f"the Jacobian is symmetric {sizes}for generic entries at all of {len(PROOF_SIZES)} sizes"
        return Ruling(Verdict.CONFIRMED, Evidence.PROOF, detail + check[found.agrees], numbers)
    entry = _first_entry(found.decision.obstruction)
    detail = f"(J - Jᵀ)/2 at d_v×d = {found.size[0]}×{found.size[1]} has the entry {entry}"
    return Ruling(Verdict.REFUTED, Evidence.PROOF, detail + check[found.agrees], numbers)


def _user_point(rule: Rule, found: Examination) -> dict[str, Any]:
    return {
        "rule": "user",
        "update": rule.update,
        "potential_exists": found.decision.exists,
        "every_size": found.every_size,
        "potential": (found.potential or str(found.decision.potential)) if found.decision.exists else None,
        "obstruction": None
        if found.decision.exists
        else [[str(e) for e in row] for row in found.decision.obstruction.tolist()],
        "size": list(found.size),
        "bounded_draws": found.bounded,
        "other_inner_product_draws": found.mended,
        "spectral_radius": list(found.radius) if found.radius else None,
    }


def _user_rows(found: Examination) -> list[tuple[str, str]]:
    from theorem.user_rule import DRAWS

    rows = [("potential", "exists" if found.decision.exists else "none")]
    if found.decision.exists:
        entrywise = f"{found.decision.potential} (at d_v×d = {found.size[0]}×{found.size[1]})"
        rows += [("L", found.potential or entrywise)]
    else:
        rows += [("(J - Jᵀ)/2", str(row)) for row in found.decision.obstruction.tolist()]
    if found.bounded is not None:
        why = f"; {found.direction}" if found.direction else ""
        rows += [("bounded below", f"at {found.bounded} of {DRAWS} random draws{why}")]
    if found.mended is not None:
        rows += [("in another inner product", f"has a potential at {found.mended} of {DRAWS} exact random draws")]
    if found.radius:
        rows += [("spectral radius", f"{found.radius[0]:.3g} to {found.radius[1]:.3g} over {DRAWS} draws, d_v×d = 2×3")]
    return rows
