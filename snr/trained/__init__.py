"""Keys of a trained Transformer, small enough to ship: see NOTICE beside this file for their origin and licence."""

from __future__ import annotations

from pathlib import Path

from snr.keys import Stored, read_keys

FEED_FORWARD = Path(__file__).with_name("minilm-l6-layer4-feed-forward.safetensors")


def feed_forward_keys() -> Stored:
    """384 of the 1536 keys of a trained feed-forward layer (P eq. 14: rows of W_K), width 384, float32 [1, N, d]."""
    return read_keys(str(FEED_FORWARD))
