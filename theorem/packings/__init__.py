"""Near-orthogonal keys: `build(n, d)` gives the best within reach, a `KeySet` says how good it is."""

from theorem.packings.keyset import KeySet, quantise
from theorem.packings.random import random_keys
from theorem.packings.search import Attempt, Built, build, most_offered, smallest

__all__ = ["Attempt", "Built", "KeySet", "build", "most_offered", "quantise", "random_keys", "smallest"]
