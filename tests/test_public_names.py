"""`from snr import predict`: the packages offer their main names, and import nothing heavy before one is asked for."""

import subprocess
import sys

import pytest

import snr
import theorem
from snr.keys import Gaussian, Stored
from snr.similarity import similarity
from snr.spec import stream

HEAVY = {"numpy", "scipy", "sympy", "matplotlib", "torch"}


@pytest.mark.parametrize("package", [snr, theorem])
def test_every_public_name_is_the_one_of_its_module(package):
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_importing_the_packages_imports_nothing_heavy():
    code = "import sys, snr, theorem, kernels, verify; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)


def test_a_text_means_the_similarity_of_that_name_or_expression():
    keys = Stored(Gaussian().draw(stream(0), 1, 20, 8, float), "drawn")
    for text in ("exp", "x**3"):
        g = similarity(text)
        assert snr.predict(text, n=20, d=8, tau=3.0) == snr.predict(g, n=20, d=8, tau=3.0)
        assert snr.predict_stored(text, keys, 3.0) == snr.predict_stored(g, keys, 3.0)
        assert snr.derive(text).mean == snr.derive(g).mean
        by_text, by_object = (snr.measure(s, n=20, d=8, tau=3.0, stop=snr.MinSamples(8)) for s in (text, g))
        assert by_text.best.plain == by_object.best.plain
    with pytest.raises(ValueError, match="expected one of"):
        snr.predict("nonsense", n=20, d=8, tau=3.0)
