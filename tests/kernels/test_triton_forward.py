"""The Triton kernels, interpreted on the CPU, against the float64 oracle and its rounding bounds."""

from itertools import pairwise

import pytest
import torch

from kernels import triton_forward
from kernels.attention import deltaformer
from kernels.error_model import measure
from kernels.triton_forward import Tiling, forward, score_of

interpreted = pytest.mark.skipif(not triton_forward.interpreted(), reason="kernels are compiled here")
SMALL = Tiling(rows=32, keys=16, warps=4, stages=1)


def draw(seed, batch, length, heads, width, value_width, shared=1, dtype=torch.float32):
    source = torch.Generator().manual_seed(seed)
    shapes = (heads * shared, width), (heads, width), (heads, value_width), (heads, width)
    q, k, v, w = (torch.randn(batch, length, *s, generator=source).to(dtype) for s in shapes)
    alpha, beta = (torch.rand(batch, length, heads, generator=source).to(dtype) for _ in range(2))
    return q, k, v, w, alpha, beta


@interpreted
@pytest.mark.parametrize(
    ("length", "width", "value_width"), [(1, 3, 5), (2, 16, 16), (33, 3, 16), (65, 16, 3), (64, 20, 8), (97, 16, 17)]
)
def test_tied_softmax_is_within_its_bound_on_odd_shapes(length, width, value_width):
    q, k, v, _, alpha, beta = draw(length, 2, length, 1, width, value_width)
    gates = {"alpha": alpha, "beta": beta} if length % 2 else {}
    assert measure(q, k, v, tied=True, form="triton", **gates).worst_ratio() <= 1


@interpreted
@pytest.mark.parametrize("write", ["softmax", "exp", "linear", "relu", "round", "solu"])
def test_every_similarity_is_within_its_bound(write):
    read = {"softmax": "round", "exp": "linear", "linear": "softmax", "relu": "exp", "round": "solu", "solu": "relu"}[
        write
    ]
    q, k, v, w, alpha, beta = draw(7, 1, 50, 1, 8, 4, shared=2)
    # unnormalised similarities amplify without end unless keys are short
    k, w = k / 4, w / 4
    found = measure(q, k, v, w=w, alpha=alpha, beta=beta, write=write, read=read, form="triton")
    assert found.unbounded == 0
    assert found.worst_ratio() <= 1


@interpreted
def test_tied_read_of_an_unnormalised_similarity_needs_no_second_pass():
    q, k, v, *_ = draw(3, 1, 45, 2, 8, 8)
    q, k = q / 4, k / 4
    assert measure(q, k, v, tied=True, write="relu", read="relu", form="triton").worst_ratio() <= 1


@interpreted
def test_float16_operands_are_within_their_bound():
    q, k, v, _, alpha, beta = draw(5, 1, 70, 1, 16, 16, dtype=torch.float16)
    assert measure(q, k, v, tied=True, alpha=alpha, beta=beta, form="triton").worst_ratio() <= 1
    assert measure(q, k, v, form="triton").worst_ratio() <= 1


@interpreted
def test_a_grown_system_keeps_the_error_that_its_inverse_explains():
    # D App. F: 3·ones strictly lower at T = 64 has an inverse of norm about 3e19
    ones = torch.ones(1, 64, 1, 3)
    v = torch.randn(1, 64, 1, 4, generator=torch.Generator().manual_seed(0))
    found = measure(ones, ones, v, write="linear", read="linear", form="triton")
    assert found.u_size.max() > 1e15
    assert found.worst_ratio() <= 1


@interpreted
@pytest.mark.parametrize("tied", [True, False])
def test_packed_sequences_are_each_what_they_are_alone(tied):
    q, k, v, w, alpha, beta = draw(11, 1, 75, 2, 8, 8)
    bounds = [0, 17, 17, 50, 51, 75]
    write_query = q if tied else w
    options = {"alpha": alpha, "beta": beta, "form": "triton", "return_u": True}
    o, u = deltaformer(q, k, v, w=write_query, cu_seqlens=torch.tensor(bounds, dtype=torch.int32), **options)
    for begin, end in pairwise(bounds):
        parts = [x[:, begin:end] for x in (q, k, v, write_query, alpha, beta)]
        options |= {"w": parts[0] if tied else parts[3], "alpha": parts[4], "beta": parts[5]}
        o_alone, u_alone = deltaformer(*parts[:3], **options)
        torch.testing.assert_close(o[:, begin:end], o_alone, rtol=0, atol=2e-6)
        torch.testing.assert_close(u[:, begin:end], u_alone, rtol=0, atol=2e-6)


@interpreted
def test_strided_inputs_give_the_bits_of_contiguous_ones():
    q, k, v, *_ = draw(13, 2, 40, 2, 8, 8)
    plain = deltaformer(q, k, v, tied=True, form="triton")
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    scattered = [torch.stack([x, x], -1)[..., 0] for x in (q, k, v)]
    for others in (strided, scattered):
        assert not others[0].is_contiguous()
        assert torch.equal(plain, deltaformer(*others, tied=True, form="triton"))


@interpreted
def test_two_runs_give_equal_bits_and_every_element_is_written(monkeypatch):
    q, k, v, *_ = draw(17, 1, 67, 2, 16, 12)
    empty = torch.empty

    def poisoned(*shape, dtype=torch.float32, **options):
        return empty(*shape, dtype=dtype, **options).fill_(float("nan") if dtype.is_floating_point else -1)

    monkeypatch.setattr(torch, "empty", poisoned)
    first = deltaformer(q, k, v, tied=True, form="triton", return_u=True)
    second = deltaformer(q, k, v, tied=True, form="triton", return_u=True)
    for one, other in zip(first, second):
        assert one.isfinite().all()
        assert torch.equal(one, other)


@interpreted
@pytest.mark.parametrize("shape", [(1, 0, 1, 4), (0, 5, 1, 4)])
def test_nothing_in_nothing_out(shape):
    x = torch.zeros(shape)
    o, u = forward(x, x, x, x, None, None, "softmax", "softmax", (0.5, 0.5), True, None, True, True)
    assert o.shape == u.shape == shape


@interpreted
@pytest.mark.parametrize("scale", [9, 14, 1000, 97893])
def test_integer_keys_are_computed_to_the_last_integer(scale):
    source = torch.Generator().manual_seed(scale)
    span = max(2, round((scale / 12) ** 0.5))
    k = torch.randint(-span, span + 1, (1, 80, 1, 8), generator=source).float()
    v = torch.randint(-3, 4, (1, 80, 1, 4), generator=source).float()
    inexact = torch.zeros(1, dtype=torch.int32)
    _, u = forward(
        None, k, v, k, None, None, "round", "round", (1 / scale, 1.0), False, None, True, False, SMALL, inexact
    )
    scores = (k[0, :, 0].long() @ k[0, :, 0].long().T).tolist()
    found = []
    for t in range(80):
        row = v[0, t, 0].long().tolist()
        for i in range(t):
            weight = round_half_even(scores[t][i], scale)
            row = [a - weight * b for a, b in zip(row, found[i])]
        found.append(row)
    assert u[0, :, 0].long().tolist() == found
    assert int(inexact) == 0


def round_half_even(x, s):
    below, rest = divmod(x, s)
    return below + (2 * rest > s or (2 * rest == s and below % 2))


def test_ties_decide_whether_scores_are_divided():
    assert not score_of("round", 1 / 128, torch.bfloat16).divide  # a power of two is exact either way
    assert not score_of("round", 1 / 97893, torch.bfloat16).divide  # an odd number has no ties
    assert score_of(
        "round", 1 / 14, torch.bfloat16
    ).divide  # some half, times 14, times 1/14, is not that half in float32
    assert not score_of("linear", 1 / 14, torch.bfloat16).divide


BAD_CUTS = {
    (0, 200): [(0, 70)],
    (-40, 70): [(0, 70)],
    (0, 50): [(0, 50)],
    (10, 70): [(10, 70)],
    (0, 60, 30, 70): [(0, 60), (60, 70)],
    (300, 10): [],
}


@interpreted
@pytest.mark.parametrize("cuts", BAD_CUTS, ids=str)
@pytest.mark.parametrize("tied", [True, False])
def test_bad_cuts_are_refused_on_a_cpu_and_never_leave_the_tensors(cuts, tied, monkeypatch):
    q, k, v, *_ = draw(2, 1, 70, 1, 8, 4)
    w = q if tied else k
    with pytest.raises(ValueError, match="does not rise from 0 to the length 70"):
        deltaformer(q, k, v, w=w, cu_seqlens=torch.tensor(cuts), form="triton")
    # what a GPU does with them, which does not look at their values
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: empty(*shape, **options).fill_(77))
    bounds = torch.tensor(cuts, dtype=torch.int32)
    o, u = forward(q, k, v, w, None, None, "softmax", "softmax", (0.3, 0.3), tied, bounds, True, True, SMALL)
    covered = torch.zeros(70, dtype=torch.bool)
    for begin, end in BAD_CUTS[cuts]:
        covered[begin:end] = True
        parts = [x[:, begin:end] for x in (q, k, v)]
        alone = deltaformer(*parts, w=parts[0] if tied else parts[1], scale=0.3, return_u=True)
        for found, right in zip((o, u), alone):
            torch.testing.assert_close(found[:, begin:end], right, rtol=0, atol=2e-6)
    assert not o[:, ~covered].any()
    assert not u[:, ~covered].any()


@interpreted
@pytest.mark.parametrize("length", [15, 16, 17, 63, 127, 130, 257])
@pytest.mark.parametrize("write", ["softmax", "solu"])
def test_lengths_around_the_tiles_are_within_their_bound(length, write):
    q, k, v, w, alpha, beta = draw(length, 1, length, 1, 5, 3, shared=2)
    gates = {} if write == "softmax" else {"alpha": alpha, "beta": beta / length}
    found = measure(q, k, v, w=w, write=write, read=write, form="triton", **gates)
    assert found.unbounded == 0
    assert found.worst_ratio() <= 1
    if write == "softmax" and length < 257:
        assert measure(q[:, :, :1], k, v, tied=True, form="triton").worst_ratio() <= 1
