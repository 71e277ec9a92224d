"""The similarity functions κ of DeltaFormer in torch, applied to scaled scores.

Softmax is exp divided by its row's sum over what the row may see; the others act on each score alone. `round` rounds
halves to the even integer, as IEEE, numpy and torch do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Similarity:
    """κ = pointwise(score), divided by its row's sum where `normalised`.

    `by_width` says whether scores are by default scaled by 1/√D (functions that take an exponential) or not at all.
    """

    pointwise: Callable[[Tensor], Tensor]
    by_width: bool = False
    normalised: bool = False


SIMILARITIES = {
    "softmax": Similarity(torch.exp, by_width=True, normalised=True),
    "exp": Similarity(torch.exp, by_width=True),
    "linear": Similarity(lambda x: x),
    "relu": Similarity(torch.relu),
    "round": Similarity(torch.round),
    "solu": Similarity(lambda x: x * torch.exp(x), by_width=True),
}


def default_scale(name: str, width: int) -> float:
    """1/√D for softmax, exp and solu, 1 for linear, relu and round."""
    return 1 / math.sqrt(width) if SIMILARITIES[name].by_width else 1.0


def scaled(products: Tensor, scale: float) -> Tensor:
    """scale · products; where scale is 1/s for a whole number s, products / s rounded once.

    Integers divided so are halves exactly where they should be, and `round` sees the ties that x/s has; x · (1/s) need
    not have them: 147 · (1/98) is below 3/2 in float64.
    """
    s = whole_divisor(scale)
    if s is None:
        return scale * products
    # a tensor on the device, because division by a number is multiplication by its reciprocal on CUDA
    return products / torch.full((), float(s), dtype=products.dtype, device=products.device)


def whole_divisor(scale: float) -> int | None:
    """s > 1 where scale is 1/s for a whole number s that float64 holds, else None."""
    if not 2.0**-53 <= scale < 1:
        return None
    s = round(1 / scale)
    return s if s > 1 and 1 / s == scale else None


def weights(name: str, scores: Tensor, visible: Tensor) -> Tensor:
    """κ over the last axis of `scores`; zero where `visible` is False, and a row that sees nothing is zero.

    The scores are masked before κ and again after it, so that neither a value nor a gradient can be spoilt by a score
    that the row does not see. To a softmax a score of −∞ is one that the row does not see.
    """
    similarity = SIMILARITIES[name]
    if similarity.normalised:
        visible = visible & (scores != -math.inf)
        return torch.softmax(_lowest(scores, visible), -1).masked_fill(~visible, 0.0)
    return similarity.pointwise(scores.masked_fill(~visible, 0.0)).masked_fill(~visible, 0.0)


def log_sum_exp(scores: Tensor, visible: Tensor) -> Tensor:
    """log Σ e^score over what each row sees, the last axis kept; the lowest finite number where it sees nothing."""
    return torch.logsumexp(_lowest(scores, visible), -1, keepdim=True)


def _lowest(scores: Tensor, visible: Tensor) -> Tensor:
    # finite rather than −inf: a row of −inf has a NaN softmax and, even when masked away, a NaN gradient
    return scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
