"""Pickled arrays are read without running code: one unpickler serves Planetoid files and object arrays in ``.npz``.

Every allowed global is replaced by an inert stand-in defined here, so that neither NumPy's nor SciPy's own
unpickling code ever sees the file: a stand-in only records shapes, type codes and raw bytes, which are checked and
turned into arrays afterwards. Any other global is refused by name before anything is called.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import scipy.sparse

from sfumato.errors import DataError, SfumatoError

_TYPE_CODE = re.compile(r"[?biufcSUO]\d{0,9}")


class _Sealed(type):
    """A class whose attributes a pickle cannot replace."""

    def __setattr__(cls, name: str, value: Any) -> NoReturn:
        raise TypeError(f"{cls.__name__} is read-only")


class _Dtype(metaclass=_Sealed):
    """Stand-in for ``numpy.dtype``: a type code and a byte order."""

    __slots__ = ("code", "order")

    def __init__(self, code: str, *flags: Any) -> None:
        if not _TYPE_CODE.fullmatch(code):
            raise ValueError(f"type code {code!r}")
        self.code, self.order = code, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "=", "|"):
            raise ValueError(f"byte order {state[1]!r}")
        self.order = state[1]

    def resolve(self) -> np.dtype[Any]:
        return np.dtype("O" if self.code.startswith("O") else self.order + self.code)


class _Array(metaclass=_Sealed):
    """Stand-in for ``numpy.ndarray``: the state tuple (version, shape, dtype, fortran_order, content)."""

    __slots__ = ("state",)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def resolve(self) -> np.ndarray:
        _, shape, dtype, fortran, content = self.state
        dtype = dtype.resolve()
        if dtype.hasobject:
            flat = np.empty(len(content), dtype=object)
            flat[:] = [_resolve(item) for item in content]
        else:
            flat = np.frombuffer(_to_buffer(content), dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")


class _Reconstruct(metaclass=_Sealed):
    """Stand-in for NumPy's ``_reconstruct``: an array still without its state."""

    def __new__(cls, *arguments: Any) -> Any:
        return _Array()


class _Scalar(metaclass=_Sealed):
    """Stand-in for NumPy's ``scalar``."""

    def __new__(cls, dtype: _Dtype, content: Any) -> Any:
        return np.frombuffer(_to_buffer(content), dtype=dtype.resolve(), count=1)[0]


class _Encode(metaclass=_Sealed):
    """Stand-in for ``_codecs.encode``, which older pickles use for bytes: Latin-1 only."""

    def __new__(cls, text: str, encoding: str) -> Any:
        if encoding != "latin1":
            raise ValueError(f"encoding {encoding!r}")
        return text.encode("latin1")


class _EmptyBytes(metaclass=_Sealed):
    """Stand-in for ``bytes``, which protocol 2 calls without arguments for empty content."""

    def __new__(cls) -> Any:
        return b""


class _CsrMatrix(metaclass=_Sealed):
    """Stand-in for ``scipy.sparse.csr_matrix``: its attributes, checked in full when it is resolved."""

    __slots__ = ("state",)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.state = state

    def resolve(self) -> scipy.sparse.csr_matrix:
        arrays = tuple(_resolve(self.state[name]) for name in ("data", "indices", "indptr"))
        matrix = scipy.sparse.csr_matrix(arrays, shape=tuple(int(size) for size in self.state["_shape"]))
        matrix.check_format(full_check=True)
        return matrix


class _DefaultDict(metaclass=_Sealed):
    """Stand-in for ``collections.defaultdict``: a plain dict."""

    def __new__(cls, *arguments: Any) -> Any:
        return {}


_ALLOWED: dict[tuple[str, str], type] = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _Scalar for core in ("core", "_core")},
    **{(f"scipy.sparse.{module}", "csr_matrix"): _CsrMatrix for module in ("csr", "_csr")},
    ("_codecs", "encode"): _Encode,
    **{(module, "bytes"): _EmptyBytes for module in ("builtins", "__builtin__")},
    ("collections", "defaultdict"): _DefaultDict,
    **{(module, kind.__name__): kind for module in ("builtins", "__builtin__")
       for kind in (bool, dict, float, int, list, set, tuple)},
}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _RefusedError(f"{module}.{name}")
        return _ALLOWED[module, name]


class _RefusedError(SfumatoError):
    """A global outside the allow-list."""


def _to_buffer(content: bytes | str) -> bytearray:
    """Copy the content, so that arrays over it can be written to."""
    return bytearray(content, "latin1") if isinstance(content, str) else bytearray(memoryview(content))


def _resolve(value: Any) -> Any:
    if isinstance(value, _Dtype | _Array | _CsrMatrix):
        return value.resolve()
    if isinstance(value, dict):
        return {key: _resolve(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_resolve(item) for item in value)
    return value


def load_pickle(stream: BinaryIO, source: str | Path) -> Any:
    """Read arrays, CSR matrices, numbers, strings (Python 2's as Latin-1) and plain containers from a pickle; run nothing."""
    try:
        with reading(source):
            return _resolve(_Unpickler(stream, encoding="latin1").load())
    except _RefusedError as error:
        raise DataError(
            f"Refused to read {source}: its pickle asks for '{error}', which is not array data, and nothing was run. "
            "Use the original published file, or save the arrays without pickle (numpy.savez of plain arrays)."
        ) from None


def read_npz(path: str | Path, *names: str) -> dict[str, Any]:
    """Read those of the members ``names`` that the ``.npz`` file at ``path`` holds.

    Object arrays go through :func:`load_pickle`; a 0-dimensional one is replaced by the object in it. Plain arrays are
    read with pickling off.
    """
    with reading(path), zipfile.ZipFile(path) as archive:
        present = [name for name in names if f"{name}.npy" in archive.namelist()]
        contents = {name: archive.read(f"{name}.npy") for name in present}
    return {name: _read_npy(content, f"{path} ({name}.npy)") for name, content in contents.items()}


def _read_npy(content: bytes, source: str) -> Any:
    stream = io.BytesIO(content)
    with reading(source):
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        dtype = read_header(stream)[2]
        if not dtype.hasobject:
            stream.seek(0)
            return np.lib.format.read_array(stream, allow_pickle=False)
    array = load_pickle(stream, source)
    return array.item() if isinstance(array, np.ndarray) and array.ndim == 0 else array


@contextmanager
def reading(source: str | Path) -> Iterator[None]:
    """Turn whatever reading the file ``source`` raises into a one-line ``DataError``; Sfumato's own errors pass."""
    try:
        yield
    except SfumatoError:
        raise
    except FileNotFoundError:
        raise DataError(f"Expected a file at {source}, found none. Check data_dir.") from None
    except Exception as error:  # a truncated or hostile file may raise anything
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(": .")
        raise DataError(
            f"Could not read {source}: {reason}. It is damaged, truncated or in another format: "
            "fetch it again and compare checksums."
        ) from error
