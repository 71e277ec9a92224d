import copy

import pytest
import torch

from kernels import Cache, DeltaFormer, deltaformer
from kernels.layer import rotate
from kernels.similarity import SIMILARITIES

LAYERS = [
    {},
    {"write_query": "query", "head_width": 6, "value_width": 10},
    {"kv_heads": 2, "write": "round", "read": "linear", "scale": 0.05},
    {"write_query": "own", "gates": ("beta", "alpha"), "qk_norm": True, "rope_base": 10_000.0},
    {"kv_heads": 1, "write": "solu", "read": "exp", "gates": ["beta"], "rope_base": 100.0},
]


def layer(**options):
    torch.manual_seed(0)
    return DeltaFormer(32, 4, **options).double()


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("options", LAYERS)
def test_decoding_equals_the_full_forward_for_any_split(options):
    model, x = layer(**options), draw(2, 140, 32)
    full = model(x).detach()
    torch.use_deterministic_algorithms(True)  # fills fresh memory with NaN
    try:
        cache = model.new_cache()
        parts = [model(part, cache=cache) for part in x.split([1, 0, 70, 1, 1, 67], 1)]
    finally:
        torch.use_deterministic_algorithms(False)
    assert cache.length == 140
    torch.testing.assert_close(torch.cat(parts, 1), full, rtol=1e-9, atol=1e-9 * float(full.abs().max()))


@pytest.mark.parametrize("options", LAYERS)
def test_packed_sequences_equal_separate_ones(options):
    model, x = layer(**options), draw(1, 90, 32)
    packed = model(x, cu_seqlens=torch.tensor([0, 0, 20, 90, 90]))
    alone = torch.cat([model(x[:, :20]), model(x[:, 20:])], 1)
    torch.testing.assert_close(packed, alone, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("options", LAYERS)
def test_every_parameter_is_used_and_the_layer_is_causal(options):
    model, x = layer(**options), draw(1, 40, 32)
    if options.get("write") == "round":
        return  # round has no gradient through κ
    model(x).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())
    later = x.clone()
    later[:, 30:] += 1
    torch.testing.assert_close(model(later)[:, :30], model(x)[:, :30], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SIMILARITIES)
@pytest.mark.parametrize("tied", [False, True])
def test_one_token_at_a_time(name, tied):
    q, k, v = draw(2, 70, 2, 5, seed=1), draw(2, 70, 2, 5, seed=2), draw(2, 70, 2, 3, seed=3)
    alpha, beta = draw(2, 70, 2, seed=4), draw(2, 70, 2, seed=5) / 70
    full = deltaformer(q, k, v, alpha=alpha, beta=beta, write=name, read=name, tied=tied or None, form="recurrent")
    cache = Cache(write=name, read=name)
    for t in range(70):
        one = [x[:, t : t + 1] for x in (q, k, v, alpha, beta)]
        o = cache.append(one[0], one[1], one[2], alpha=one[3], beta=one[4], tied=tied or None)
        torch.testing.assert_close(o, full[:, t : t + 1], rtol=1e-11, atol=1e-12 * float(full.abs().max()))


def test_half_precision_is_remembered_in_float32():
    q, k, v = (draw(1, 130, 1, 16, seed=i, dtype=torch.float32).bfloat16() for i in range(3))
    cache = Cache()
    parts = [cache.append(q[:, t : t + 1], k[:, t : t + 1], v[:, t : t + 1]) for t in range(130)]
    full = deltaformer(q, k, v, form="chunked")
    error = (torch.cat(parts, 1).float() - full.float()).abs().max()
    assert error <= 2**-8 * full.float().abs().max()  # one rounding of the output, none accumulated


def test_a_cache_refuses_what_does_not_continue_it_and_forgets_nothing():
    cache = Cache()
    q, k, v = draw(2, 3, 4, 8), draw(2, 3, 2, 8), draw(2, 3, 2, 6)
    cache.append(q, k, v)
    before = copy.deepcopy(cache)
    wrong = [
        (q[:1], k[:1], v[:1]),
        (q[:, :, :2], k[:, :, :1], v[:, :, :1]),
        (q[..., :7], k[..., :7], v),
        (q, k, v[..., :5]),
        (q.float(), k.float(), v.float()),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match="the cache holds"):
            cache.append(*arguments)
    with pytest.raises(ValueError, match="w has shape"):
        cache.append(q, k, v, w=q)
    assert torch.equal(cache.append(q, k, v), before.append(q, k, v))


def test_rotation_depends_on_the_distance_alone():
    x, y = draw(1, 1, 1, 8, seed=1), draw(1, 1, 1, 8, seed=2)
    at = lambda z, p: rotate(z, torch.tensor([p]), 10_000.0)  # noqa: E731
    torch.testing.assert_close((at(x, 7) * at(y, 3)).sum(), (at(x, 100_007) * at(y, 100_003)).sum(), rtol=1e-9, atol=0)
    torch.testing.assert_close(at(x, 5).norm(), x.norm())
    assert torch.equal(at(x, 0), x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0, "heads": 1}, "expected kv_heads to divide heads"),
        ({"width": 32, "heads": 4, "kv_heads": 3}, "expected kv_heads to divide heads"),
        ({"width": 30, "heads": 4}, "give head_width"),
        ({"width": 32, "heads": 4, "write_query": "value"}, "expected one of key, query, own"),
        ({"width": 32, "heads": 4, "kv_heads": 2, "write_query": "query"}, "expected as many of both"),
        ({"width": 32, "heads": 4, "gates": ["gamma"]}, "expected any of alpha, beta"),
        ({"width": 36, "heads": 4, "rope_base": 100.0}, "an even width"),
        ({"width": 32, "heads": 4, "rope_base": 0.0}, "a positive base"),
    ],
)
def test_a_layer_says_what_does_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        DeltaFormer(**arguments)


def test_a_cache_and_packed_sequences_exclude_each_other():
    model = layer()
    with pytest.raises(ValueError, match="one sequence a row"):
        model(draw(1, 4, 32), cu_seqlens=torch.tensor([0, 4]), cache=model.new_cache())
