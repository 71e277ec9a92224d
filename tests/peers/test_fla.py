"""flash-linear-attention's naive DeltaFormer, the tied case (w = q) with softmax twice.

Runs where flash-linear-attention 0.6.0 is installed (pip install flash-linear-attention==0.6.0). Its reference computes
u in float32 whatever it is given, so it is compared within what float32 may do to a row, not to the last digit.
"""

import pytest
import torch

from kernels import deltaformer
from kernels.error_model import arithmetic, bound

naive = pytest.importorskip("fla.ops.deltaformer.naive", exc_type=ImportError)


@pytest.mark.parametrize("length", [1, 2, 17, 63, 65, 130])
@pytest.mark.parametrize("gated", [False, True])
def test_our_forms_agree_with_flas_naive_reference(length, gated):
    draw = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn(2, length, 3, 16, generator=draw) for _ in range(3))
    beta = torch.rand(2, length, 3, generator=draw) if gated else None
    theirs = naive.naive_deltaformer_attn(q, k, v, beta)
    exact = [None if x is None else x.double() for x in (q, k, v, beta)]
    o_bound, _ = bound(*exact[:3], w=exact[0], beta=exact[3], arithmetic=arithmetic("parallel", torch.float32))
    for form in ("recurrent", "parallel", "chunked"):
        ours = deltaformer(*exact[:3], tied=True, beta=exact[3], form=form)
        assert ((theirs - ours).abs().amax(-1) <= o_bound).all()
