"""Integers in the writings that tables have: with a point, with an exponent, with a sign.

What is written with a point or an exponent is a float, in a file as in a frame: ``7.0``, ``7.`` and ``7e0`` are 7, and ``-0.0``
is 0. From 2^53 on a float is no integer here, since others may have been rounded to it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EXACT = 2**53
"""The least integer to which a float may have been rounded."""
_AS_PRINTED = r"^-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_IN_ANY_WAY = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_FLOAT = r"[.eE]|^-0$"
_SIGNED = r"^(?:\+|(-))?0*([0-9]+)$"


def without_fraction(ids: pa.Array) -> pa.Array:
    """Return texts, with ``7`` in place of ``7.0`` as far as floats are exact; what has a plus or zeros before it stays."""
    return _printed(ids, _AS_PRINTED)


def unpointed(texts: pa.Array) -> pa.Array:
    """Return texts, and whole floats without point and exponent, also with a plus or zeros before them."""
    return _printed(texts, _IN_ANY_WAY)


def folded(texts: pa.Array) -> pa.Array:
    """Return integers in their plain writing, and other texts as they are: how codes are compared."""
    return pc.replace_substring_regex(pc.replace_substring_regex(unpointed(texts), _SIGNED, r"\1\2"), r"^-0$", "0")


def _printed(texts: pa.Array, form: str) -> pa.Array:
    """Texts with whole floats of a form written as integers."""
    floats = pc.and_(pc.match_substring_regex(texts, _FLOAT), pc.match_substring_regex(texts, form)).fill_null(False)
    if not pc.any(floats).as_py():
        return texts
    written = texts.filter(floats)
    numbers = pc.replace_substring_regex(written, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < EXACT)
    integers = pa.array(np.where(whole, numbers, 0).astype(np.int64)).cast(texts.type)
    return pc.replace_with_mask(texts, floats, pc.if_else(pa.array(whole), integers, written))
