"""The kernels as a GPU runs them: `pytest -m gpu`. 16-bit operands, long sequences, races, exactness, memory."""

from itertools import pairwise

import pytest
import torch

from kernels.attention import deltaformer, write_values
from kernels.error_model import measure
from kernels.replay import replay, write_exactly
from kernels.triton_forward import hopper_kernels

pytestmark = pytest.mark.gpu
CUDA = torch.device("cuda")


def draw(seed, batch, length, heads, width, value_width, shared=1, dtype=torch.bfloat16):
    source = torch.Generator(CUDA).manual_seed(seed)
    shapes = (heads * shared, width), (heads, width), (heads, value_width), (heads, width)
    q, k, v, w = (torch.randn(batch, length, *s, generator=source, device=CUDA).to(dtype) for s in shapes)
    alpha, beta = (torch.rand(batch, length, heads, generator=source, device=CUDA) for _ in range(2))
    return q, k, v, w, alpha, beta


@pytest.fixture
def poisoned(monkeypatch):
    """Memory that comes from torch.empty is NaN, so that what a kernel does not write is seen."""
    empty = torch.empty

    def poison(*shape, dtype=torch.float32, **options):
        return empty(*shape, dtype=dtype, **options).fill_(float("nan") if dtype.is_floating_point else -1)

    monkeypatch.setattr(torch, "empty", poison)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(
    ("length", "width", "value_width", "shared"),
    [
        (1, 3, 5, 1),
        (17, 16, 80, 1),
        (65, 80, 16, 4),
        (130, 64, 64, 1),
        (257, 128, 128, 4),
        (333, 64, 32, 1),
        (200, 256, 256, 1),
    ],
)
def test_softmax_is_within_its_bound(dtype, length, width, value_width, shared, poisoned):
    q, k, v, w, alpha, beta = draw(length, 2, length, 2, width, value_width, shared, dtype)
    gates = {"alpha": alpha.to(dtype), "beta": beta.to(dtype)} if length % 2 else {}
    for options in ({"w": w}, {"tied": True}) if shared == 1 else ({"w": w},):
        assert measure(q, k, v, form="triton", **options, **gates).worst_ratio() <= 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("write", "read", "width", "value_width"),
    [
        ("exp", "linear", 64, 64),
        ("linear", "exp", 64, 32),
        ("linear", "relu", 128, 128),
        ("relu", "relu", 80, 80),
        ("solu", "round", 16, 64),
        ("round", "solu", 32, 16),
    ],
)
@pytest.mark.parametrize("gated", [False, True])
def test_every_similarity_is_within_its_bound(dtype, write, read, width, value_width, gated, poisoned):
    q, k, v, w, alpha, beta = draw(5, 1, 333, 2, width, value_width, 2, dtype)
    # short keys and small steps, or unnormalised similarities amplify without end; round sees scores of about one
    k, w = k / (2 * width**0.5), w / (2 * width**0.5)
    scale = {"round": 40.0}.get(write)
    gates = {"alpha": alpha.to(dtype), "beta": (beta / 50).to(dtype)} if gated else {}
    if not gated:
        k, w = k / 8, w / 8
    scales = (scale, None) if scale else None
    found = measure(q, k, v, w=w, write=write, read=read, scale=scales and (scales[0], 1.0), form="triton", **gates)
    assert found.unbounded == 0
    assert found.worst_ratio() <= 1


@pytest.mark.parametrize("shape", [(3, 1000, 2, 128), (2, 4096, 4, 64), (1, 16384, 2, 128)])
@pytest.mark.parametrize("case", ["tied", "untied", "gated"])
def test_long_sequences_are_right_in_every_row_and_in_every_run(shape, case, poisoned):
    batch, length, heads, width = shape
    q, k, v, _, alpha, beta = draw(length, batch, length, heads, width, width)
    options = {"tied": case != "untied" or None}
    if case == "gated":
        options |= {"alpha": alpha, "beta": beta}
    o, u = deltaformer(q, k, v, return_u=True, **options)
    o_again, u_again = deltaformer(q, k, v, return_u=True, **options)
    assert torch.equal(o, o_again)
    assert torch.equal(u, u_again)
    exact = {name: x.double() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
    o_true, u_true = deltaformer(q.double(), k.double(), v.double(), form="chunked", return_u=True, **exact)
    for found, true in ((o, o_true), (u, u_true)):
        size = true.norm(dim=-1)
        off = (found.double() - true).norm(dim=-1)
        assert (off <= 2e-2 * size + 4e-3 * size.square().mean().sqrt()).all()
        assert off.norm() <= 5e-3 * true.norm()


# the row sums between which the inverse gets one, two, three or six factors more (kernels.hopper_inverse)
ALL_NUMBERS_OF_FACTORS = tuple(pairwise((0.0, 2 ** (-16 / 3), 2**-4, 2**-2, 1.01)))


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("sharpness", [0.0, 3.0, 30.0])
def test_blocks_whose_weights_stay_near_are_inverted_to_the_end(width, sharpness, poisoned):
    """Keys that turn slowly: a row's weights spread over all keys before it, or nearly all fall on its own block."""
    length = 3000
    angle = torch.arange(length, device=CUDA)[:, None] * 0.3 ** torch.arange(width // 2, device=CUDA)
    k = (2 * sharpness / width**0.5) ** 0.5 * torch.cat([angle.cos(), angle.sin()], -1)[None, :, None].bfloat16()
    v = draw(3, 1, length, 1, width, width)[2]
    scores = (k[0, :, 0].double() @ k[0, :, 0].double().T / width**0.5).tril(-1)
    weights = scores.masked_fill(scores.new_ones(scores.shape).triu().bool(), -torch.inf).softmax(-1)
    largest = [weights[s : s + 64, s : s + 64].nansum(-1).max() for s in range(0, length, 64)]
    assert all(
        any(low < size <= high for size in largest) for low, high in ALL_NUMBERS_OF_FACTORS[2 if sharpness > 3 else 0 :]
    )
    for options in ({"w": k}, {"tied": True}):
        assert measure(k, k, v, form="triton", **options).worst_ratio() <= 1


def test_beta_zero_is_causal_attention():
    q, k, v, _, alpha, _ = draw(1, 2, 1500, 4, 128, 128)
    o = deltaformer(q, k, v, beta=torch.zeros_like(alpha), form="triton")
    parts = (x.transpose(1, 2) for x in (q, k, v))
    theirs = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)
    assert (o - theirs).float().norm() <= 5e-3 * theirs.float().norm()


@pytest.mark.parametrize("width", [64, 128])
def test_negative_beta_is_solved_to_the_end(width):
    """The rows of A sum to less than nothing, whose size counts: u grows instead of alternating."""
    q, k, v, _, alpha, _ = draw(21, 1, 200, 2, width, width)
    for beta in (torch.full_like(alpha, -1.0), torch.where(alpha < 0.5, -0.5, 0.5)):
        found = deltaformer(q, k, v, beta=beta, form="triton", return_u=True)
        true = deltaformer(*(x.double() for x in (q, k, v)), beta=beta.double(), form="chunked", return_u=True)
        for x, y in zip(found, true, strict=True):
            assert (x - y).norm() <= 1e-2 * y.norm()


def test_heads_beyond_32_bits_are_right():
    """Heads outermost: the last head's columns begin at a number that 32 bits do not hold."""
    heads, length, width = 17, 2**20, 128
    x = torch.randn(1, heads, length, width, device=CUDA, dtype=torch.bfloat16).transpose(1, 2)[:, :200]
    o = deltaformer(x, x, x)
    last = x[:, :, -1:].contiguous()
    assert (o[:, :, -1:] - deltaformer(last, last, last)).float().norm() <= 5e-3 * o[:, :, -1:].float().norm()


def test_packed_sequences_are_each_what_they_are_alone():
    q, k, v, *_ = draw(11, 1, 1000, 2, 64, 64)
    bounds = [0, 130, 130, 641, 642, 1000]
    o = deltaformer(q, k, v, tied=True, cu_seqlens=torch.tensor(bounds, device=CUDA), form="triton")
    for begin, end in pairwise(bounds):
        alone = deltaformer(*(x[:, begin:end] for x in (q, k, v)), tied=True, form="triton")
        assert (o[:, begin:end] - alone).float().norm() <= 5e-3 * alone.float().norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("cuts", "covered"),
    [
        ((0, 2000), [(0, 700)]),
        ((-400, 700), [(0, 700)]),
        ((0, 500), [(0, 500)]),
        ((100, 700), [(100, 700)]),
        ((0, 600, 300, 700), [(0, 600), (600, 700)]),
        ((2**31 - 1, 0), []),
    ],
)
def test_bad_cuts_never_leave_the_tensors(dtype, tied, cuts, covered, poisoned):
    q, k, v, *_ = draw(17, 1, 700, 2, 64, 64, dtype=dtype)
    cu_seqlens = torch.tensor(cuts, dtype=torch.int32, device=CUDA)
    o, u = deltaformer(q, k, v, w=q if tied else k, cu_seqlens=cu_seqlens, form="triton", return_u=True)
    outside = torch.ones(700, dtype=torch.bool, device=CUDA)
    for begin, end in covered:
        outside[begin:end] = False
        parts = [x[:, begin:end].double() for x in (q, k, v)]
        alone = deltaformer(*parts, w=parts[0] if tied else parts[1], form="chunked", return_u=True)
        for found, true in zip((o, u), alone):
            assert (found[:, begin:end] - true).norm() <= 1e-2 * true.norm()
    assert not o[:, outside].any()
    assert not u[:, outside].any()


@pytest.mark.parametrize("tied", [True, False])
def test_scores_at_the_ends_of_float32(tied):
    """The lowest finite scores count; −∞ does not, and a row of nothing else is empty."""
    k = torch.ones(1, 300, 1, 1, device=CUDA)
    v = draw(4, 1, 300, 1, 16, 16, dtype=torch.float32)[2]
    for size in (-1.6e38, 1.6e38, -torch.inf):
        q = torch.full_like(k, size)
        o, u = deltaformer(q, k, v, w=q if tied else q.clone(), scale=1.0, form="triton", return_u=True)
        if size == -torch.inf:
            assert torch.equal(u, v)
            assert not o.any()
            continue
        zero = torch.zeros_like(k).double()
        true = deltaformer(zero, k.double(), v.double(), w=zero.clone(), form="chunked", return_u=True)
        for found, expected in zip((o, u), true):
            assert (found - expected).abs().max() <= 1e-4 * expected.abs().max()


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_rows_whose_scores_are_all_minus_infinity_are_empty(width, tied, gated):
    first = torch.zeros(2, 300, 2, width, device=CUDA, dtype=torch.bfloat16)
    first[..., 0] = 1
    q = torch.where(first > 0, -torch.inf, first)
    v = draw(4, 2, 300, 2, width, width)[2]
    gates = {"alpha": torch.ones_like(v[..., 0]), "beta": torch.ones_like(v[..., 0])} if gated else {}
    o, u = deltaformer(q, first, v, w=q if tied else q.clone(), form="triton", return_u=True, **gates)
    assert torch.equal(u, v)
    assert not o.any()


def test_strided_inputs_give_the_bits_of_contiguous_ones():
    q, k, v, *_ = draw(13, 2, 700, 3, 128, 128)
    plain = deltaformer(q, k, v, tied=True)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    fused = torch.cat([q, k, v], -1).split(128, -1)
    assert torch.equal(plain, deltaformer(*fused, tied=True))
    # heads outermost: no plane of rows for TMA where there are several batches, so another kernel may run
    other = deltaformer(*strided, tied=True)
    assert (plain - other).float().norm() <= 5e-3 * plain.float().norm()


@pytest.mark.parametrize(("width", "value_width", "scale"), [(128, 64, 449_999), (128, 64, 450_002), (64, 32, 330_000)])
def test_integer_keys_are_computed_to_the_last_integer(width, value_width, scale):
    source = torch.Generator(CUDA).manual_seed(scale)
    length = 3000
    k = torch.randint(-127, 128, (length, width), generator=source, device=CUDA).float()
    v = torch.randint(-3, 4, (length, value_width), generator=source, device=CUDA).float()
    uncertified = torch.zeros(1, dtype=torch.int32, device=CUDA)
    u = write_exactly(k, v, scale, torch.bfloat16, uncertified)
    scores = (k.double() @ k.double().T).long()
    below, rest = scores.div(scale, rounding_mode="floor"), scores.remainder(scale)
    rounded = below + ((2 * rest > scale) | ((2 * rest == scale) & (below % 2 == 1))).long()
    found = torch.zeros(length, value_width, dtype=torch.int64)
    weights, values = rounded.tril(-1).cpu(), v.long().cpu()
    for t in range(length):
        at = weights[t].nonzero().flatten()
        found[t] = values[t] - (weights[t, at, None] * found[at]).sum(0)
    assert found.abs().max() > 3
    assert torch.equal(u.long().cpu(), found)
    assert int(uncertified) == 0


def test_integers_that_outgrow_bf16_are_reported():
    source = torch.Generator(CUDA).manual_seed(1)
    k = torch.randint(-127, 128, (3000, 64), generator=source, device=CUDA).float()
    v = torch.randint(-3, 4, (3000, 32), generator=source, device=CUDA).float()
    uncertified = torch.zeros(1, dtype=torch.int32, device=CUDA)
    u = write_exactly(k, v, 200_000, torch.bfloat16, uncertified)
    assert u.abs().max() > 256
    assert int(uncertified) > 0


@pytest.mark.parametrize(
    ("keys", "values", "dtype"),
    [
        ([[45, 32], [45, 1]], [[1], [0]], torch.float16),
        ([[45, 32], [45, 1]], [[1], [0]], torch.bfloat16),
        ([[4097, 0], [4097, 1]], [[1], [0]], torch.float32),
    ],
)
def test_weights_that_outgrow_their_type_are_reported(keys, values, dtype):
    uncertified = torch.zeros(1, dtype=torch.int32, device=CUDA)
    write_exactly(*(torch.tensor(x, device=CUDA).float() for x in (keys, values)), 1, dtype, uncertified)
    assert int(uncertified) > 0


@pytest.mark.parametrize("rewrite", [None, 700])
def test_a_replay_of_orthogonal_keys_is_exact(rewrite):
    found = replay(torch.eye(64, dtype=torch.int64).numpy() * 5, 25, 5000, 0, values=32, rewrite=rewrite)
    assert found.exact


def test_a_replay_sees_keys_that_are_not_orthogonal_enough():
    keys = torch.randint(-3, 4, (40, 8), generator=torch.Generator().manual_seed(0)).numpy()
    assert not replay(keys, 32, 60, 0, values=8).exact


def test_memory_is_the_outputs_and_a_counter_a_head():
    q, k, v, *_ = draw(2, 1, 16384, 4, 128, 128)
    deltaformer(q, k, v, tied=True)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    deltaformer(q, k, v, return_u=True)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() - before <= 2 * q.nbytes + 2**16


def test_u_alone_is_the_u_of_the_whole():
    q, k, v, *_ = draw(3, 2, 900, 2, 64, 64)
    _, u = deltaformer(q, k, v, tied=True, return_u=True)
    assert torch.equal(u, write_values(k, v, w=q))


def test_hopper_machines_run_the_hopper_kernels():
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("no Hopper GPU")
    hopper = hopper_kernels(CUDA)
    q, k, v, *_ = draw(0, 2, 300, 2, 64, 64)
    assert hopper is not None
    assert hopper.suits(q, k, v, None)
    assert not hopper.suits(q, k, v[..., :32], None)


@pytest.mark.parametrize("gated", [False, True])
def test_a_remembered_call_serves_only_tensors_like_its_own(gated):
    """Calls of one geometry go past checks and binding; each of these differs from the first in one thing."""
    q, k, v, w, alpha, beta = draw(5, 2, 300, 2, 64, 64)
    gates = {"alpha": alpha, "beta": beta} if gated else {}
    for x in (q, k):  # one tensor for q and k: tied without a word of it, unlike all that follows
        deltaformer(x, x, v, **gates)
    first = deltaformer(q, k, v, w=w, **gates)
    assert torch.equal(first, deltaformer(q, k, v, w=w, **gates))

    def off_by_one(x):  # the same numbers at an address that is no multiple of 16 bytes
        return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)

    unaligned = deltaformer(*map(off_by_one, (q, k, v)), w=off_by_one(w), **gates)
    assert (unaligned - first).float().norm() <= 5e-3 * first.float().norm()
    if gated:
        moved = {name: off_by_one(x) for name, x in gates.items()}
        assert torch.equal(first, deltaformer(q, k, v, w=w, **moved))
    for change in ({"scale": 0.3}, {"scale": (0.3, 0.125)}, {"w": None}, {"w": None, "tied": True}):
        options = {"w": w, **gates, **change}
        expected = deltaformer(*(x.double() for x in (q, k, v)), form="chunked", **as_double(options))
        found = deltaformer(q, k, v, **options)
        assert (found - expected).norm() <= 1e-2 * expected.norm()
    with pytest.raises(ValueError, match="w has shape"):
        deltaformer(q, k, v, w=w[:, :-1], **gates)
    with pytest.raises(ValueError, match="scale of write"):
        deltaformer(q, k, v, w=w, scale=[0.125], **gates)
    q.requires_grad_()
    deltaformer(q, k, v, w=w, **gates).sum().backward()
    assert q.grad is not None


def as_double(options):
    return {name: x.double() if isinstance(x, torch.Tensor) else x for name, x in options.items()}


@pytest.mark.skipif("torch.cuda.device_count() < 2")
@pytest.mark.parametrize("options", [{"tied": True}, {}, {"write": "linear", "read": "relu", "scale": 1 / 64}])
def test_kernels_run_where_their_tensors_are(options):
    q, k, v, *_ = draw(2, 1, 700, 2, 64, 64)
    here = deltaformer(q, k, v, form="triton", **options)
    for _ in range(2):  # the second call is a remembered one
        there = deltaformer(*(x.to("cuda:1") for x in (q, k, v)), form="triton", **options)
        assert there.device == torch.device("cuda:1")
        assert torch.equal(there.to(here.device), here)
        assert torch.cuda.current_device() == 0
