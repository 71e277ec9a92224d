"""The catalogue of update rules: one rule or family a file, each a tuple `RULES`; a new rule is one new entry."""

import importlib
import pkgutil

from theorem.rule import Rule


def catalogue() -> dict[str, Rule]:
    """Every rule by name, in the order of the files' names and of the entries in them.

    Raises ValueError where two rules share a name or an equivalence names a rule that does not exist.
    """
    rules: dict[str, Rule] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        for rule in importlib.import_module(f"{__name__}.{module.name}").RULES:
            if rule.name in rules:
                raise ValueError(f"two rules are called {rule.name}")
            rules[rule.name] = rule
    for rule in rules.values():
        for claim in rule.equivalences:
            if claim.other not in rules:
                raise ValueError(f"rule {rule.name} compares itself with {claim.other}, which is not in the catalogue")
    return rules
