"""The draft's test vectors, and how they are read."""

import json
from pathlib import Path

import numpy as np

VECTORS = json.loads((Path(__file__).parent / "vdaf-18.json").read_text())
CONTEXT = bytes.fromhex(VECTORS["ctx"])


def row(text):
    """One row of the bytes that hexadecimal digits stand for."""
    return np.frombuffer(bytes.fromhex(text), np.uint8)[None]


def counting(size):
    """One row of the numbers 0, 1, 2, ..., which are nonce, key and coins of all vectors."""
    return np.arange(size, dtype=np.uint8)[None]
