"""What the Hopper kernels are given, as far as it can be seen without a GPU."""

import inspect

import pytest
import torch

gluon = pytest.importorskip("triton.experimental.gluon", exc_type=ImportError)
hopper = pytest.importorskip("kernels.hopper_forward", exc_type=ImportError)


def draw(heads=2):
    return torch.zeros(2, 300, heads, 64, dtype=torch.bfloat16)


@pytest.mark.parametrize("gated", [False, True])
def test_a_later_launch_repeats_the_first_by_position(gated, monkeypatch):
    """Triton takes the constants by name at first and by position afterwards: both must mean the same."""
    monkeypatch.setattr(hopper, "multiprocessors", lambda device: 132)
    gates = tuple(torch.ones(2, 300, 2) for _ in range(2)) if gated else (None, None)
    write = hopper.Write(draw(), draw(), draw(), *gates, 0.125, True)
    read = hopper.Read(draw(4), draw(), draw(), 0.125)
    for stage, tensors in (
        (write, (draw(), draw(), draw(), *gates, draw(), draw())),
        (read, (draw(4), draw(), draw(), draw(4))),
    ):
        stage.kernel = recorded = Recorded(stage.kernel)
        for _ in range(2):
            stage(*tensors)
        first, second = recorded.calls
        assert list(first) == recorded.names
        assert numbers(first) == numbers(second)
        assert {k: v.shape for k, v in first.items() if k.endswith("_desc")} == {
            k: v.shape for k, v in second.items() if k.endswith("_desc")
        }
    assert write.kernel.calls[0]["HAS_ALPHA"] is gated
    assert (write.kernel.calls[0]["lanes"], read.kernel.calls[0]["lanes"]) == (4, 8)
    assert read.kernel.calls[0]["SHARED"] == 2
    assert write.kernel.calls[0]["k_desc"].shape == [600, 128]
    assert write.kernel.calls[0]["u_half_desc"].block_shape == [64, 64]


def test_one_tensor_as_query_and_key_is_remembered_as_what_it_is(monkeypatch):
    """w = k is then w = q: one pass, which must not serve a later call of the same shapes whose q is another tensor."""
    from kernels import attention, triton_forward

    def call(q, k, v, w, alpha, beta, write, read, scales):
        one_pass = w is q
        return lambda q, k, v, w, alpha, beta: (w if one_pass else q, None)  # what o is read with

    monkeypatch.setattr(attention, "_remembered", {})
    monkeypatch.setattr(attention, "_choose", lambda form, tensors: "triton")
    monkeypatch.setattr(attention, "_description", lambda tensors, options, cu_seqlens: options)
    monkeypatch.setattr(triton_forward, "hopper_call", call)
    monkeypatch.setattr(triton_forward, "forward", lambda *a, **k: (torch.zeros(()), None))
    q, k = draw(), draw()
    attention.deltaformer(k, k, k)  # prepares the call, as does the first of the next
    assert attention.deltaformer(k, k, k) is k
    attention.deltaformer(q, k, k)
    assert attention.deltaformer(q, k, k) is q


@pytest.mark.parametrize("sign", [1, -1])
def test_factors_left_out_of_the_inverse_move_u_by_less_than_is_allowed(sign):
    """At the largest ρ for which each shorter product is taken; the bound is ρ^p, the error model's allowance 2⁻¹⁶."""
    from kernels.error_model import LEFT_OUT
    from kernels.hopper_inverse import EIGHTH, FOURTH, THIRD

    identity = torch.eye(64, dtype=torch.float64)
    A = sign * torch.diag_embed(torch.ones(63, dtype=torch.float64), -1)  # each row reads the one before it
    shorter = {
        THIRD.value: lambda a: identity - a + a @ a,
        FOURTH.value: lambda a: (identity - a) @ (identity + a @ a),
        EIGHTH.value: lambda a: (identity - a) @ (identity + a @ a) @ (identity + a @ a @ a @ a),
    }
    v = torch.ones(64, 1, dtype=torch.float64)
    for rho, inverse in shorter.items():
        for size, allowed in ((rho, True), (1.2 * rho, False)):
            u = torch.linalg.solve(identity + size * A, v)
            off = (inverse(size * A) @ v - u).abs().max() / u.abs().max()
            assert (off <= LEFT_OUT * (1 + 1e-9)) == allowed


class Recorded:
    """Stands where a Triton kernel, and then the compiled one, stands."""

    def __init__(self, kernel):
        self.names = list(inspect.signature(kernel.fn).parameters)
        self.calls = []

    def __getitem__(self, grid):
        return self.launch

    def launch(self, *arguments, num_warps=None, maxnreg=None, **constants):
        self.calls.append(dict(zip(self.names, arguments, strict=False)) | constants)
        return self


def numbers(call):
    return {name: x for name, x in call.items() if isinstance(x, int | float)}


@pytest.mark.parametrize("tiles", [1, 2, 5, 16, 33, 100])
@pytest.mark.parametrize("lanes", [1, 3, 64])
@pytest.mark.parametrize("order", [(8, 128), (16, 128), (1, 1), (5, 9), (1000, 1), (3, 40)])
def test_every_tile_is_claimed_once_and_after_the_one_before_it(tiles, lanes, order):
    place = hopper_place()
    claims = [place(index, tiles, lanes, order) for index in range(tiles * lanes)]
    assert sorted(claims) == [(r, lane) for r in range(tiles) for lane in range(lanes)]
    for lane in range(lanes):
        assert [r for r, its in claims if its == lane] == list(range(tiles))


def hopper_place():
    """kernels.hopper_tiles.place as plain Python: it uses nothing but integers."""
    from kernels.hopper_tiles import place

    return place.fn
