"""Decoding: the keys and u of the tokens so far, extended by one token or many."""

import torch
from torch import Tensor

from kernels.arguments import Scale, both_scales, check, choose_write_query, heads_first
from kernels.chunked import CHUNK, step


class Cache:
    """What DeltaFormer must remember of a batch of sequences: k and u, T (D + Dv) numbers a key head.

    `append` the parts of any split of a sequence in turn and the outputs are those of `deltaformer` on the whole.
    Numbers are kept in the precision the chunked form computes in, float32 for half-precision inputs: rounding a u
    that later ones are built from would be remembered for good.
    """

    def __init__(self, *, write: str = "softmax", read: str = "softmax", scale: Scale = None) -> None:
        self.write = write
        self.read = read
        self.scale = scale
        self.length = 0
        self._k: Tensor | None = None  # [B, H, room, D]
        self._u: Tensor | None = None  # [B, H, room, Dv]

    @torch.no_grad()
    def append(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        w: Tensor | None = None,
        alpha: Tensor | None = None,
        beta: Tensor | None = None,
        tied: bool | None = None,
    ) -> Tensor:
        """o [B, L, H_q, Dv] of L ≥ 0 further tokens, without gradient; arguments as for `kernels.deltaformer`.

        Raises ValueError, and forgets nothing, where batch, heads, widths, precision or device differ from before.
        """
        write_query = choose_write_query(q, k, w, tied)
        check(q, k, v, write_query, alpha, beta, None)
        scale = both_scales(self.scale, self.write, self.read, k)
        q_, k_, v_, w_, a, b = heads_first(q, k, v, write_query, alpha, beta)
        assert q_ is not None
        keys, u = self._reserve(k_, v_)
        outputs = []
        for start in range(0, k.shape[1], CHUNK):
            rows = slice(start, min(start + CHUNK, k.shape[1]))
            end = self.length + rows.stop - rows.start
            keys[:, :, self.length : end] = k_[:, :, rows]
            new = (v_[:, :, rows], w_[:, :, rows], a[:, :, rows], b[:, :, rows])
            o, u[:, :, self.length : end] = step(
                q_[:, :, :, rows],
                keys[:, :, :end],
                u[:, :, : self.length],
                *new,
                self.write,
                self.read,
                scale,
                write_query is q,
            )
            assert o is not None
            outputs.append(o)
            self.length = end
        if not outputs:
            return v.new_zeros(*q.shape[:3], v.shape[3])
        return torch.cat(outputs, 3).flatten(1, 2).transpose(1, 2).to(v.dtype)

    def _reserve(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """The two buffers, with room for the new tokens; room doubles, so that T appends copy O(T) rows in all."""
        needed = self.length + k.shape[2]
        if self._k is None or self._u is None:
            self._k, self._u = (x.new_empty(*x.shape[:2], needed, x.shape[3]) for x in (k, v))
        for name, new, old in (("k", k, self._k), ("v", v, self._u)):
            if (*new.shape[:2], new.shape[3]) != (*old.shape[:2], old.shape[3]):
                was, now = ([x.shape[0], "L", x.shape[1], x.shape[3]] for x in (old, new))
                raise ValueError(f"{name} has shape {now}; the cache holds {was}".replace("'", ""))
            if new.dtype != old.dtype or new.device != old.device:
                raise ValueError(
                    f"{name} computes in {new.dtype} on {new.device}; the cache holds {old.dtype} on {old.device}"
                )
        if needed > self._k.shape[2]:
            room = max(needed, 2 * self._k.shape[2])
            grown = []
            for x in (self._k, self._u):
                larger = x.new_empty(*x.shape[:2], room, x.shape[3])
                larger[:, :, : self.length] = x[:, :, : self.length]
                grown.append(larger)
            self._k, self._u = grown
        return self._k, self._u
