"""A DeltaFormer layer: projections to heads, optional norm, rotation and gates, `deltaformer`, projection back."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from kernels.arguments import Scale
from kernels.attention import deltaformer
from kernels.cache import Cache

WRITE_QUERIES = ("key", "query", "own")
GATES = ("alpha", "beta")


class DeltaFormer(nn.Module):
    """x [B, T, width] ↦ [B, T, width] through P eq. 41-42 with linear W_q, W_k, W_v, W_o and no biases.

    width, heads: of the model and of its queries; `kv_heads` (default: as many) divides `heads`. A head is `head_width`
      wide (default width / heads), its values `value_width` (default head_width).
    write, read, scale, form: as for `kernels.deltaformer`.
    write_query: what w is. "key": k (D App. E). "query": q, tied, as in flash-linear-attention; needs kv_heads = heads.
      "own": a fourth projection.
    gates: any of alpha, beta; each named one is the sigmoid of a linear function of x, each other is 1.
    qk_norm: RMS-norm q, k and an own w over each head.  rope_base: rotate them by position with this base, or not.

    Raises ValueError where widths or names do not fit.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        value_width: int | None = None,
        write: str = "softmax",
        read: str = "softmax",
        scale: Scale = None,
        write_query: str = "key",
        gates: Collection[str] = (),
        qk_norm: bool = False,
        rope_base: float | None = None,
        form: str = "auto",
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if min(width, heads, kv_heads) < 1 or heads % kv_heads:
            raise ValueError(f"width {width}, heads {heads}, kv_heads {kv_heads}: expected kv_heads to divide heads")
        if head_width is None and width % heads:
            raise ValueError(f"width {width} is no multiple of heads {heads}; give head_width")
        head_width = width // heads if head_width is None else head_width
        value_width = head_width if value_width is None else value_width
        if write_query not in WRITE_QUERIES:
            raise ValueError(f"write_query {write_query!r} is unknown; expected one of {', '.join(WRITE_QUERIES)}")
        if write_query == "query" and kv_heads != heads:
            raise ValueError(f"write_query 'query' with heads {heads}, kv_heads {kv_heads}: expected as many of both")
        unknown = [name for name in gates if name not in GATES]
        if unknown:
            raise ValueError(f"gate {unknown[0]!r} is unknown; expected any of {', '.join(GATES)}")
        if rope_base is not None and (rope_base <= 0 or head_width % 2):
            raise ValueError(f"rope_base {rope_base}, head width {head_width}: expected a positive base, an even width")
        self.write, self.read, self.scale, self.form = write, read, scale, form
        self.write_query = write_query
        self.rope_base = rope_base
        self.head_width, self.value_width = head_width, value_width
        self.to_q = nn.Linear(width, heads * head_width, bias=False)
        self.to_k = nn.Linear(width, kv_heads * head_width, bias=False)
        self.to_w = nn.Linear(width, kv_heads * head_width, bias=False) if write_query == "own" else None
        self.to_v = nn.Linear(width, kv_heads * value_width, bias=False)
        self.to_o = nn.Linear(heads * value_width, width, bias=False)
        self.gates = nn.ModuleDict({name: nn.Linear(width, kv_heads) for name in GATES if name in gates})
        named = ("q", "k", "w") if write_query == "own" else ("q", "k")
        self.norms = nn.ModuleDict({name: nn.RMSNorm(head_width) for name in named} if qk_norm else {})

    def new_cache(self) -> Cache:
        """An empty cache for decoding with this layer."""
        return Cache(write=self.write, read=self.read, scale=self.scale)

    def forward(self, x: Tensor, *, cu_seqlens: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """[B, T, width]. With `cache` the T tokens follow those it holds, and are added to it (no gradient then)."""
        if cache is not None and cu_seqlens is not None:
            raise ValueError("cache with cu_seqlens; expected one of them: a cache holds one sequence a row")
        positions = _positions(x.shape[1], x.device, cu_seqlens, 0 if cache is None else cache.length)
        q = self._heads("q", self.to_q(x), positions)
        k = self._heads("k", self.to_k(x), positions)
        v = self.to_v(x).unflatten(-1, (-1, self.value_width))
        w = k if self.write_query == "key" else q
        if self.to_w is not None:
            w = self._heads("w", self.to_w(x), positions)
        alpha, beta = (torch.sigmoid(self.gates[name](x)) if name in self.gates else None for name in GATES)
        if cache is not None:
            o = cache.append(q, k, v, w=w, alpha=alpha, beta=beta)
        else:
            o = deltaformer(  # type: ignore[assignment]  # without return_u it is one tensor
                q,
                k,
                v,
                w=w,
                alpha=alpha,
                beta=beta,
                write=self.write,
                read=self.read,
                scale=self.scale,
                form=self.form,
                cu_seqlens=cu_seqlens,
            )
        return self.to_o(o.flatten(2))

    def _heads(self, name: str, x: Tensor, positions: Tensor) -> Tensor:
        x = x.unflatten(-1, (-1, self.head_width))
        if name in self.norms:
            x = self.norms[name](x)
        return x if self.rope_base is None else rotate(x, positions, self.rope_base)


def rotate(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Rotary position embedding: turn the pair (x_j, x_{j+D/2}) of x [B, T, H, D] by angle position · base^(−2j/D)."""
    half = x.shape[-1] // 2
    frequency = base ** -(torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angle = (positions.double()[:, None] * frequency)[:, None]  # [T, 1, D/2]; float64 keeps far positions apart
    cosine, sine = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), -1)


def _positions(length: int, device: torch.device, cu_seqlens: Tensor | None, offset: int) -> Tensor:
    """Each token's place in its own sequence, found on the device."""
    place = torch.arange(length, device=device)
    if cu_seqlens is None:
        return place + offset
    return place - cu_seqlens[torch.searchsorted(cu_seqlens, place, right=True) - 1]
