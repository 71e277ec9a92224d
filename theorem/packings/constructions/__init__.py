"""One construction a file, each with `offers(n, d)`: what it promises for n keys in R^d, built only when asked for."""

import importlib
import pkgutil
from collections.abc import Iterator

from theorem.packings.keyset import Offer


def offers(n: int, d: int) -> Iterator[Offer]:
    """The offers of every construction for n keys in R^d."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        yield from importlib.import_module(f"{__name__}.{module.name}").offers(n, d)
