"""Theorem 1's construction as the weights of an ordinary layer: can linear projections of token embeddings express it?

They can. A token's embedding is three blocks, [key | value | query], and W_k, W_v, W_q each copy one of them:

    token                    key                 value    query
    element i is in slot i   k_i                 v_i      the watched slot's
    swap slots a > b         k_a − k_b           0        the watched slot's
    what is in slot l?       0                   0        that of slot l

so one embedding a token is all there is to learn; a question writes nothing, because f(0) = 0. W_o puts what is read
back into the value block and the unembedding compares it with every v_e. With κ₁ = κ₂ = round every answer is exact.

κ₂ = softmax can only average, with positive weights. It reads one slot, the last in the order: that slot's key enters
every token that touches it with a plus sign, so its content is the plain sum of those tokens' u. A key coordinate of
its own (1 for the last slot, 0 for the others) lets the query weigh them alike, whatever the other products are:

    o_t = (Σ_touching u + e^{−L} Σ_others u)/(m + e^{−L}(t − m))  →  content/m,

and dividing by m, the number of touching tokens, changes no answer. A slot in the middle of the order enters with both
signs; a single softmax head then averages u with the wrong sign, and is not realised here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from theorem.exchange import binary_codes
from theorem.swaps import Swaps

if TYPE_CHECKING:
    from kernels import DeltaFormer

Array = NDArray[np.float64]

ATTENTION_LOGIT = 50.0  # L: e^{−50} leaves 2·10^−22 of any other token's u


@dataclass(frozen=True)
class Realisation:
    """Weights of a one-head layer for n slots; x ↦ W x for each W of shape [out, in].

    embedding [tokens, width] holds the n initial writes, then the n(n−1)/2 swaps, then the n questions; `unembedding`
    [n, width] scores elements. κ₁ is round(scale[0]·x); κ₂ is `read`, round or softmax, of scale[1]·x. `watched` is the
    slot that every token but a question reads.
    """

    n: int
    watched: int
    read: str
    scale: tuple[float, float]
    embedding: Array
    w_q: Array
    w_k: Array
    w_v: Array
    w_o: Array
    unembedding: Array

    def initial_tokens(self) -> NDArray[np.int64]:
        """The n tokens that put element i into slot i."""
        return np.arange(self.n)

    def swap_tokens(self, swaps: Swaps) -> NDArray[np.int64]:
        """One token a swap; rows of `swaps` are (later, earlier)."""
        later, earlier = swaps[:, 0], swaps[:, 1]
        return self.n + later * (later - 1) // 2 + earlier

    def question_tokens(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """One token a question. Raises ValueError for κ₂ = softmax, which reads the watched slot only."""
        if self.read != "round":
            raise ValueError(f"with κ₂ = {self.read} only slot {self.watched} is read")
        return self.n + self.n * (self.n - 1) // 2 + np.asarray(slots)

    def forward(self, tokens: NDArray[np.int64]) -> Array:
        """The layer's ordinary forward in float64: [T] tokens ↦ [T, width], P eq. 41–42 with w = k, α = β = 1."""
        x = self.embedding[tokens]
        q, k, v = x @ self.w_q.T, x @ self.w_k.T, x @ self.w_v.T
        written = np.tril(np.rint(self.scale[0] * (k @ k.T)), -1)
        u = np.linalg.solve(np.eye(len(tokens)) + written, v)
        return np.tril(_READ[self.read](self.scale[1] * (q @ k.T))) @ u @ self.w_o.T

    def answers(self, output: Array) -> NDArray[np.int64]:
        """The element with the highest score at each position, [T]; −1 where two share it."""
        scores = np.asarray(output) @ self.unembedding.T
        best = scores.argmax(axis=1)
        top = scores.max(axis=1, keepdims=True)
        return np.where((scores == top).sum(axis=1) == 1, best, -1)

    def layer(self, form: str = "recurrent") -> DeltaFormer:
        """The same weights in `kernels.DeltaFormer`, float64. Raises ImportError without torch."""
        from kernels import DeltaFormer  # first: without torch it says how to install it

        import torch  # isort: skip

        head, values = self.w_k.shape[0], self.w_v.shape[0]
        layer = DeltaFormer(
            self.embedding.shape[1],
            1,
            head_width=head,
            value_width=values,
            write="round",
            read=self.read,
            scale=self.scale,
            form=form,
        ).double()
        with torch.no_grad():
            for linear, weight in (
                (layer.to_q, self.w_q),
                (layer.to_k, self.w_k),
                (layer.to_v, self.w_v),
                (layer.to_o, self.w_o),
            ):
                linear.weight.copy_(torch.from_numpy(weight))
        return layer


def realise(
    keys: NDArray[np.float64] | NDArray[np.int64], scale: int = 1, read: str = "round", values: Array | None = None
) -> Realisation:
    """The construction for keys [n, d] with inner products keys_i·keys_j / scale that satisfy the Gram condition.

    `values` [n, d_v] are the elements' codes, all of one length (default `binary_codes`). The watched slot is 0 for
    κ₂ = round (as in P Fig. 4), n − 1 for softmax, whose extra key coordinate adds 1/scale to the watched slot's
    squared length. Raises ValueError for another κ₂ or values of different lengths.
    """
    if read not in _READ:
        raise ValueError(f"read {read!r}: expected one of {', '.join(_READ)}")
    keys = np.asarray(keys, dtype=np.float64)
    n = len(keys)
    values = binary_codes(n) if values is None else np.asarray(values, dtype=np.float64)
    lengths = (values**2).sum(axis=1)
    if len(values) != n or np.ptp(lengths) > 1e-12 * lengths.max():
        raise ValueError("expected one value an element, all of one length, so that the highest score is the nearest")
    watched = 0
    queries = keys
    if read == "softmax":
        watched = n - 1
        mark = np.zeros((n, 1))
        mark[watched] = 1.0
        keys = np.hstack([keys, mark])
        queries = np.zeros_like(keys)
        queries[watched, -1] = ATTENTION_LOGIT
    later, earlier = np.tril_indices(n, -1)
    swaps = len(later)
    watching = np.tile(queries[watched], (n + swaps, 1))
    key_block = np.vstack([keys, keys[later] - keys[earlier], np.zeros_like(keys)])
    value_block = np.vstack([values, np.zeros((swaps + n, values.shape[1]))])
    query_block = np.vstack([watching, queries])
    d, d_v = keys.shape[1], values.shape[1]
    block = np.eye(2 * d + d_v)
    w_k, w_v, w_q = block[:d], block[d : d + d_v], block[d + d_v :]
    return Realisation(
        n=n,
        watched=watched,
        read=read,
        scale=(1.0 / scale, 1.0 if read == "softmax" else 1.0 / scale),
        embedding=np.hstack([key_block, value_block, query_block]),
        w_q=w_q,
        w_k=w_k,
        w_v=w_v,
        w_o=w_v.T.copy(),
        unembedding=values @ w_v,
    )


def _softmax(scores: Array) -> Array:
    visible = np.tril(np.ones_like(scores, dtype=bool))
    shifted = np.where(visible, scores, -np.inf)
    weight = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


_READ: dict[str, Callable[[Array], Array]] = {"round": np.rint, "softmax": _softmax}
