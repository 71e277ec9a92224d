import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from theorem.realisation import realise
from theorem.swaps import SEQUENCES, held_after_each, permutation_after, random_swaps


def keys_of(n, d):
    return np.vstack([math.isqrt(d) * np.eye(d, dtype=np.int64), hadamard(d, dtype=np.int64)])[d // 2 : d // 2 + n]


def word(layer, swaps):
    return np.concatenate([layer.initial_tokens(), layer.swap_tokens(swaps)])


@pytest.mark.parametrize(("n", "d"), [(5, 16), (24, 64), (24, 16 * 16)])
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("read", ["round", "softmax"])
def test_the_layer_answers_every_position(n, d, name, read):
    layer = realise(keys_of(n, d), d, read)
    swaps = SEQUENCES[name](n, 150, np.random.default_rng(1))
    answers = layer.answers(layer.forward(word(layer, swaps)))
    assert (answers[n:] == held_after_each(n, swaps, layer.watched)).all()
    assert answers[layer.watched] == layer.watched


def test_questions_read_every_slot_and_write_nothing():
    n, d = 40, 64
    layer = realise(keys_of(n, d), d)
    swaps = random_swaps(n, 90, np.random.default_rng(2))
    questions = layer.question_tokens(np.arange(n))
    tokens = np.concatenate([word(layer, swaps[:50]), questions, layer.swap_tokens(swaps[50:]), questions])
    answers = layer.answers(layer.forward(tokens))
    assert (answers[n + 50 : 2 * n + 50] == permutation_after(n, swaps[:50])).all()
    assert (answers[-n:] == permutation_after(n, swaps)).all()


def test_swap_tokens_are_the_rows_of_their_swaps():
    layer = realise(keys_of(6, 16), 16)
    later, earlier = np.tril_indices(6, -1)
    tokens = layer.swap_tokens(np.stack([later, earlier], axis=1))
    assert sorted(tokens) == list(range(6, 6 + 15))
    keys = keys_of(6, 16)
    assert (layer.embedding[tokens] @ layer.w_k.T == keys[later] - keys[earlier]).all()


def test_the_layer_of_the_kernels_computes_the_same():
    torch = pytest.importorskip("torch")
    n, d = 12, 64
    for read in ("round", "softmax"):
        layer = realise(keys_of(n, d), d, read)
        tokens = word(layer, random_swaps(n, 80, np.random.default_rng(3)))
        for form in ("recurrent", "parallel", "chunked"):
            with torch.no_grad():
                out = layer.layer(form)(torch.from_numpy(layer.embedding[tokens])[None])[0].numpy()
            assert out == pytest.approx(layer.forward(tokens), abs=1e-12)
            assert (layer.answers(out)[n:] == layer.answers(layer.forward(tokens))[n:]).all()


def test_keys_outside_the_condition_give_wrong_answers():
    # negative control: 24 keys in R^3
    rows = np.random.default_rng(4).normal(size=(24, 3))
    keys = np.rint(50 * rows / np.linalg.norm(rows, axis=1, keepdims=True))
    layer = realise(keys, 2500)
    swaps = random_swaps(24, 60, np.random.default_rng(5))
    assert (layer.answers(layer.forward(word(layer, swaps)))[24:] != held_after_each(24, swaps, 0)).mean() > 0.5


def test_what_cannot_be_realised():
    with pytest.raises(ValueError, match="expected one of round, softmax"):
        realise(np.eye(3), read="relu")
    with pytest.raises(ValueError, match="only slot 2"):
        realise(np.eye(3), read="softmax").question_tokens(np.arange(3))
    with pytest.raises(ValueError, match="all of one length"):
        realise(np.eye(3), values=np.array([[1.0], [2.0], [3.0]]))
