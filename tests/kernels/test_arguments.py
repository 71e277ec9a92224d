"""Wrong arguments get one line that says what would be right."""

import sys
from fractions import Fraction

import numpy as np
import pytest
import torch

import kernels
from kernels import deltaformer, write_values
from kernels.similarity import SIMILARITIES

Q, K, V = torch.zeros(2, 5, 4, 8), torch.zeros(2, 5, 2, 8), torch.zeros(2, 5, 2, 6)
GATE = torch.zeros(2, 5, 2)
WRONG = [
    ({"q": Q[0]}, r"q has shape \[5, 4, 8\]; expected \[2, 5, a multiple of 2, 8\]"),
    ({"q": Q[:, :4]}, "q has shape"),
    ({"q": Q[..., :7]}, "q has shape"),
    ({"q": Q[:, :, :3]}, "a multiple of 2"),
    ({"q": Q[:, :, :0]}, "a multiple of 2"),
    ({"k": K[0]}, r"k has shape \[5, 2, 8\]; expected \[B, T, H, D\]"),
    ({"k": K[..., :0]}, "D at least 1"),
    ({"v": V[:1]}, r"v has shape \[1, 5, 2, 6\]; expected \[2, 5, 2\]"),
    ({"v": V[..., :0]}, "width of at least 1"),
    ({"w": Q}, r"w has shape \[2, 5, 4, 8\]; expected k's \[2, 5, 2, 8\]"),
    ({"tied": True}, "tied case needs as many query heads"),
    ({"tied": True, "w": K}, "tied=True means w = q"),
    ({"q": K, "w": K, "tied": False}, "leave tied out"),
    ({"alpha": GATE[..., None]}, "alpha has shape"),
    ({"beta": GATE[:, :4]}, r"beta has shape \[2, 4, 2\]; expected \[2, 5, 2\]"),
    ({"k": K.long()}, "k has dtype int64; expected one of bfloat16, float16, float32, float64"),
    ({"v": V.double()}, "v has dtype float64; expected k's, float32"),
    ({"q": Q.bfloat16()}, "q has dtype bfloat16"),
    ({"beta": GATE.double()}, "beta has dtype float64; expected k's, float32$"),
    ({x: y.half() for x, y in zip("qkv", (Q, K, V))} | {"beta": GATE.double()}, "expected k's, float16, or float32$"),
    ({"q": [1.0]}, "q is a list; expected a torch tensor"),
    ({"beta": 0.5}, "beta is a float; expected a torch tensor"),
    ({"v": V.to("meta")}, "v is on meta; expected k's device, cpu"),
    ({"write": "cosine"}, "write 'cosine' is unknown; expected one of softmax, exp, linear, relu, round, solu"),
    ({"read": ""}, "read '' is unknown"),
    ({"form": "fast"}, "form 'fast' is unknown; expected one of auto, recurrent, parallel, chunked, triton"),
    ({"scale": 0}, "scale of write is 0; expected a positive finite number"),
    ({"scale": float("nan")}, "positive finite"),
    ({"scale": (1.0, float("inf"))}, "scale of read is inf"),
    ({"scale": (1.0,)}, "scale has 1 entries"),
    ({"scale": "1"}, "scale of write is a str; expected a positive finite number"),
    ({"scale": True}, "positive finite"),
    ({"scale": 10**400}, "positive finite"),
    ({"scale": torch.ones(2)}, "scale of write is a Tensor; expected a positive finite number"),
    ({"scale": torch.ones((), requires_grad=True)}, "positive finite"),
    ({"scale": torch.ones((), device="meta")}, "positive finite"),
    ({"scale": 1e-310}, "expected a number from 7.89e-31 to 1.27e\\+30 in float32"),
    ({"scale": (1.0, 1e38)}, "scale of read is 1e\\+38; expected a number from"),
    ({"scale": 1e300}, "expected a number from"),
    ({"write": ["softmax"]}, r"write \['softmax'\] is unknown"),
    ({"form": ["triton"]}, r"form \['triton'\] is unknown"),
    ({"cu_seqlens": torch.tensor([0, 5])}, r"expected the sequences in one row, B = 1"),
    ({"cu_seqlens": torch.tensor([5])}, "cu_seqlens is int64 of shape"),
    ({"cu_seqlens": torch.tensor([0.0, 5.0])}, "cu_seqlens is float32"),
    ({"cu_seqlens": [0, 5]}, "cu_seqlens is a list"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_one_line_says_what_would_be_right(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        deltaformer(**({"q": Q, "k": K, "v": V} | change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cuts", [[1, 5], [0, 4], [0, 6], [0, 3, 2, 5], [-1, 5]])
def test_cuts_must_rise_from_zero_to_the_length(cuts):
    with pytest.raises(ValueError, match="does not rise from 0 to the length 5"):
        write_values(K[:1], V[:1], cu_seqlens=torch.tensor(cuts))


def test_cuts_of_an_empty_row_are_checked_too():
    assert write_values(K[:1, :0], V[:1, :0], cu_seqlens=torch.tensor([0, 0])).shape == (1, 0, 2, 6)
    with pytest.raises(ValueError, match="does not rise from 0 to the length 0"):
        write_values(K[:1, :0], V[:1, :0], cu_seqlens=torch.tensor([0, 2]))


def test_cuts_without_values_are_refused():
    q, k, v, cuts = (x.to("meta") for x in (Q[:1], K[:1], V[:1], torch.tensor([0, 5])))
    assert deltaformer(q, k, v).shape == (1, 5, 4, 6)
    with pytest.raises(ValueError, match="cu_seqlens is on meta"):
        deltaformer(q, k, v, cu_seqlens=cuts)


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), torch.tensor(0.5), Fraction(1, 2)], ids=repr)
def test_a_scale_is_any_real_number(number):
    q, k, v = (torch.randn(1, 9, 1, 4, generator=torch.Generator().manual_seed(i)) for i in range(3))
    expected = deltaformer(q, k, v, scale=0.5)
    assert torch.equal(deltaformer(q, k, v, scale=number), expected)
    assert torch.equal(deltaformer(q, k, v, scale=(number, number)), expected)
    assert torch.equal(write_values(k, v, scale=number), write_values(k, v, scale=0.5))


@pytest.mark.parametrize("form", ["recurrent", "parallel", "chunked"])
@pytest.mark.parametrize("name", SIMILARITIES)
def test_scales_at_the_ends_of_their_range(form, name):
    x = torch.full((1, 3, 1, 1), 2.0**40)
    one = x / x
    tiny = deltaformer(x, x, one, write=name, read=name, scale=2.0**-80, form=form)
    torch.testing.assert_close(tiny, deltaformer(one, one, one, write=name, read=name, scale=1.0, form=form))
    wide = deltaformer(*(y.double() for y in (x, x, one)), write="linear", read="softmax", scale=(1e-300, 1e-300))
    assert wide.isfinite().all()


def test_triton_says_why_it_cannot(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match="TRITON_INTERPRET=1"):
        deltaformer(Q, K, V, form="triton")
    with pytest.raises(ValueError, match="has no gradient; use form='chunked'"):
        deltaformer(Q, K.clone().requires_grad_(), V, form="triton")
    with pytest.raises(ValueError, match="does not compute in float64"):
        deltaformer(Q.double(), K.double(), V.double(), form="triton")
    with pytest.raises(ValueError, match="widths up to 256, not 300"):
        write_values(torch.zeros(1, 2, 1, 300), torch.zeros(1, 2, 1, 3), form="triton")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match="cannot be interpreted in bfloat16"):
        deltaformer(Q.bfloat16(), K.bfloat16(), V.bfloat16(), form="triton")


def test_pairs_of_scales_and_defaults():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 9, 1, 16, generator=draw, dtype=torch.float64) for _ in range(3))
    default = deltaformer(q, k, v, write="softmax", read="linear")
    assert torch.equal(default, deltaformer(q, k, v, write="softmax", read="linear", scale=(0.25, 1.0)))
    assert torch.equal(default, deltaformer(q, k, v, write="softmax", read="linear", scale=(None, 1.0)))
    assert not torch.equal(default, deltaformer(q, k, v, write="softmax", read="linear", scale=1.0))


def test_without_torch_the_package_imports_and_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delattr(kernels, "attention", raising=False)
    with pytest.raises(ImportError, match=r"kernels.deltaformer needs torch; install it with: pip install"):
        _ = kernels.deltaformer
    assert "deltaformer" in dir(kernels)
    with pytest.raises(AttributeError):
        _ = kernels.nothing
