"""Near-orthogonal keys: `build(n, d)` gives the best within reach, a `KeySet` says what was built and how good it is."""

from theorem.packings.keyset import KeySet, quantise
from theorem.packings.random import random_keys
from theorem.packings.search import Attempt, Built, build

__all__ = ["Attempt", "Built", "KeySet", "build", "quantise", "random_keys"]
