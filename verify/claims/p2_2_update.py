"""P §2.2 and App. B: what each memory update optimises, and when there is anything that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from theorem.rules import catalogue
from verify.evidence import Claim, Evidence, Ruling, Verdict

if TYPE_CHECKING:
    from theorem.rule import Rule
    from theorem.rule_proofs import Proofs


def rule_ruling(rule: Rule, proofs: Proofs) -> Ruling:
    """The ruling on one rule of the catalogue from its proofs."""
    from theorem.rule_proofs import verdict_words

    numbers = {"residual": proofs.residual, "plain_potential": proofs.plain, "terms": proofs.terms}
    if not (rule.objective and proofs.identities_hold):
        verdict = Verdict.REFUTED
    else:
        verdict = Verdict.CONFIRMED if proofs.bounded and proofs.bounded.proved else Verdict.INCONCLUSIVE
    return Ruling(verdict, Evidence.PROOF, verdict_words(rule, proofs), numbers)


def rule_claim(rule: Rule) -> Claim:
    """The ledger's row for one rule of the catalogue."""

    def check() -> Ruling:
        from theorem.rule_proofs import prove

        return rule_ruling(rule, prove(rule))

    goal = "one objective" if not rule.objective else "the objective listed"
    step = "a gradient step" if rule.preconditioner == "Id" else "a preconditioned gradient step"
    return Claim(
        f"P-2.2-rule-{rule.name.replace('_', '-')}",
        rule.source,
        f"{rule.title}: S ← {rule.update} is {step} of {goal}",
        check=check,
        command=f"python -m verify update --rule {rule.name}",
    )


CLAIMS = tuple(rule_claim(rule) for rule in catalogue().values())
