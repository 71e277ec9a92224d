import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theorem.swaps import (
    SEQUENCES,
    elements_exchanged,
    held_after_each,
    ordered,
    permutation_after,
    random_swaps,
    read_swaps,
)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize(("n", "steps"), [(2, 1), (2, 7), (3, 10), (5, 1), (17, 100)])
def test_a_sequence_is_swaps_of_two_different_slots_the_later_first(name, n, steps):
    swaps = SEQUENCES[name](n, steps, rng())
    assert swaps.shape == (steps, 2)
    assert (swaps[:, 0] > swaps[:, 1]).all()
    assert swaps.min() >= 0
    assert swaps.max() < n


def test_random_swaps_are_uniform_over_pairs():
    # 45 pairs, 90,000 draws: chi-square with 44 degrees of freedom exceeds 100 with probability 3e-6
    swaps = random_swaps(10, 90_000, rng(1))
    _, counts = np.unique(swaps[:, 0] * 10 + swaps[:, 1], return_counts=True)
    assert len(counts) == 45
    assert ((counts - 2000) ** 2 / 2000).sum() < 100


def test_a_longer_random_sequence_begins_like_a_shorter_one():
    assert (random_swaps(9, 50, rng(3)) == random_swaps(9, 80, rng(3))[:50]).all()


def test_the_adversarial_sequences_do_what_their_names_say():
    pair = SEQUENCES["one pair"](9, 20, rng())
    assert len(np.unique(pair, axis=0)) == 1
    hub = SEQUENCES["through one slot"](9, 20, rng())
    assert (hub == 4).any(axis=1).all()
    assert (hub[:, 0] == 4).any()
    assert (hub[:, 1] == 4).any()
    assert (permutation_after(9, SEQUENCES["reversals"](9, 4, rng())) == np.arange(9)[::-1]).all()
    for seed in range(30):
        cycle = permutation_after(5, SEQUENCES["3-cycles"](5, 2, rng(seed)))
        assert (cycle != np.arange(5)).sum() == 3


@given(st.integers(2, 8), st.integers(0, 30), st.integers(0, 2**32 - 1))
def test_ground_truth_agrees_with_composing_permutations(n, steps, seed):
    swaps = random_swaps(n, steps, rng(seed))
    holds, met, watched = np.arange(n), [], []
    for a, b in swaps:
        met.append((holds[a], holds[b]))
        transposition = np.arange(n)
        transposition[[a, b]] = b, a
        holds = holds[transposition]
        watched.append(holds)
    assert (permutation_after(n, swaps) == holds).all()
    assert elements_exchanged(n, swaps).tolist() == [[int(x), int(y)] for x, y in met]
    for slot in range(n):
        assert held_after_each(n, swaps, slot).tolist() == [w[slot] for w in watched]


def test_a_file_of_swaps(tmp_path):
    path = tmp_path / "swaps.csv"
    path.write_text("slot,slot\n3, 0\n\n# turned round\n1,2  # ordered\r\n")
    assert read_swaps(path, 4).tolist() == [[3, 0], [2, 1]]
    path.write_bytes(b"\xef\xbb\xbf1,0\n")
    assert read_swaps(path, 4).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,4\n", "line 1 names slot 4; slots are 0 to 3"),
        ("0,1\n2,2\n", "line 2 names slot 2 twice"),
        ("0,1\n0,-1\n", "line 2 is '0,-1'"),
        ("0,1,2\n", "line 1 is '0,1,2'"),
        ("0,1.5\n", "line 1 is"),
        ("0,1\na,b\n", "line 2 is 'a,b'"),
        ("0;1\n", "line 1 is"),
        ("0,99999999999999999999\n", "line 1 is"),
        ("0,²\n", "line 1 is"),
        ("", "holds no swap"),
        ("a,b\n", "holds no swap"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path, text, words):
    path = tmp_path / "swaps.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        read_swaps(path, 4)


def test_a_file_that_is_no_text_or_not_there(tmp_path):
    path = tmp_path / "swaps.csv"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match="not a text file"):
        read_swaps(path, 4)
    with pytest.raises(OSError, match="No such file"):
        read_swaps(tmp_path / "absent.csv", 4)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([[0, 3]], "slots are 0 to 2"),
        ([[0, 1], [1, 1]], "swap 2 is"),
        ([[0.0, 1.0]], "pairs of integers"),
        ([0, 1], "shape"),
    ],
)
def test_pairs_that_are_no_swaps(pairs, words):
    with pytest.raises(ValueError, match=words):
        ordered(np.array(pairs), 3)
