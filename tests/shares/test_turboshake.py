"""TurboSHAKE128 against RFC 9861, the standard library's SHAKE128 (the same sponge with all rounds), and the draft's vector."""

import hashlib

import numpy as np
import pytest
from shares_vectors import VECTORS, row

from sfumato.shares import _turboshake
from sfumato.shares._field import MODULUS, to_bytes
from sfumato.shares._turboshake import expand, kept, sponge, stream


@pytest.mark.parametrize("length", [0, 1, 135, 166, 167, 168, 169, 335, 336, 500])
def test_with_all_rounds_it_is_shake128(length):
    messages = np.random.default_rng(length).integers(0, 256, (5, length), dtype=np.uint8)
    for message, made in zip(messages, sponge(messages, 400, 0x1F, 24), strict=True):
        assert made.tobytes() == hashlib.shake_128(message.tobytes()).digest(400)


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, "1e415f1c5983aff2169217277d17bb538cd945a397ddec541f1ce41af2c1b74c"),
        (1, "55cedd6f60af7bb29a4042ae832ef3f58db7299f893ebb9247247d856958daa9"),
        (17, "9c97d036a3bac819db70ede0ca554ec6e4c2a1a4ffbfd9ec269ca6a111161233"),
        (17**2, "96c77c279e0126f7fc07c9b07f5cdae1e0be60bdbe10620040e75d7223a624d2"),
        (17**3, "d4976eb56bcf118520582b709f73e1d6853e001fdaf80e1b13e0d0599d5fb372"),
    ],
)
def test_twelve_rounds_are_those_of_the_rfc(length, expected):
    pattern = (np.arange(length) % 251).astype(np.uint8)  # section 5 of the RFC
    assert sponge(pattern[None], 32, 0x1F, 12)[0].tobytes().hex() == expected


def test_it_expands_seeds_as_the_draft():
    case = VECTORS["xof"]
    given = row(case["seed"]), bytes.fromhex(case["dst"]), row(case["binder"])
    assert stream(*given, 32)[0].tobytes().hex() == case["derived_seed"]
    assert to_bytes(expand(*given, case["length"]))[0].tobytes().hex() == case["expanded_vec_field128"]


def test_rows_are_alone_also_across_blocks(monkeypatch):
    seeds = np.random.default_rng(1).integers(0, 256, (50, 32), dtype=np.uint8)
    binders = np.arange(50, dtype=np.uint8)[:, None]
    together = stream(seeds, b"tag", binders, 40)
    monkeypatch.setattr(_turboshake, "_BLOCK", 7)
    assert (stream(seeds, b"tag", binders, 40) == together).all()
    alone = [stream(seeds[at : at + 1], b"tag", binders[at : at + 1], 40) for at in range(50)]
    assert (np.concatenate(alone) == together).all()


def numbers(*values):
    return np.frombuffer(b"".join(value.to_bytes(16, "little") for value in values), np.uint8)[None]


def test_what_is_no_element_is_passed_over():
    drawn = np.concatenate([numbers(MODULUS, 1, 2**128 - 1, 2, 3), numbers(4, 5, 6, 7, 8)])
    assert kept(drawn, 3)[..., 0].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert kept(drawn, 4) is None
    assert kept(drawn[1:], 4)[..., 0].tolist() == [[4, 5, 6, 7]]


def test_more_is_drawn_if_too_little_is_left(monkeypatch):
    plain = expand(np.zeros((2, 32), np.uint8), b"", np.zeros((2, 1), np.uint8), 4)
    asked = []

    def spoiled(seeds, tag, binders, size):
        asked.append(size)
        made = stream(seeds, tag, binders, size)
        made[1, 16:32] = 255
        return made

    monkeypatch.setattr(_turboshake, "stream", spoiled)
    drawn = expand(np.zeros((2, 32), np.uint8), b"", np.zeros((2, 1), np.uint8), 4)
    assert asked == [64, 128]
    assert (drawn[0] == plain[0]).all()
    assert (drawn[1, 0] == plain[1, 0]).all()
    assert (drawn[1, 1:3] == plain[1, 2:4]).all()
