"""Features are written block after block in the fewest bytes that hold them exactly, which their values decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.graph._packed import PackedRows, Widths, code_type, is_half
from sfumato.graph._storage import ArrayFile

_ROWS = 1 << 16
_WHOLE, _HALF = "x.npy", "x_half.npy"


class PackedFiles:
    """Numbers are written as float16 until one needs float32, and categories as codes."""

    def __init__(self, folder: Path, widths: Widths) -> None:
        self.folder, self.widths = folder, widths
        num_numbers = sum(width is None for width in widths)
        num_codes = len(widths) - num_numbers
        self.half = num_numbers > 0
        self.numbers = ArrayFile(folder / _HALF, np.float16, (num_numbers,)) if num_numbers else None
        self.codes = ArrayFile(folder / "x_codes.npy", code_type(widths), (num_codes,)) if num_codes else None

    def append(self, block: PackedRows) -> None:
        if self.numbers is not None and block.numbers is not None:
            if self.half and not is_half(block.numbers):
                self.numbers, self.half = self._widened(self.numbers), False
            self.numbers.append(block.numbers)
        if self.codes is not None and block.codes is not None:
            self.codes.append(block.codes)

    def close(self) -> dict[str, Any]:
        """Return what the files hold, and the widths; None where they are plain float32."""
        files = {"x": self.numbers, "x_codes": self.codes}
        arrays = {name: file.close() for name, file in files.items() if file is not None}
        if self.half:
            (self.folder / _HALF).replace(self.folder / _WHOLE)
        return {"arrays": arrays, "widths": self.widths if self.half or self.codes is not None else None}

    def _widened(self, file: ArrayFile) -> ArrayFile:
        file.close()
        written = np.load(self.folder / _HALF, mmap_mode="r")
        wide = ArrayFile(self.folder / _WHOLE, np.float32, written.shape[1:])
        for start in range(0, len(written), _ROWS):
            wide.append(written[start : start + _ROWS])
        del written
        (self.folder / _HALF).unlink()
        return wide


class SparseFiles:
    """Sparse rows are written without their values where all of these are 1; they have no codes, so ``widths`` are not read."""

    def __init__(self, folder: Path, widths: Widths) -> None:
        self.folder, self.entries, self.ones = folder, 0, True
        kinds: dict[str, Any] = {"x_data": np.float32, "x_indices": np.int32, "x_indptr": np.int64}
        self.files = {name: ArrayFile(folder / f"{name}.npy", kind) for name, kind in kinds.items()}
        self.files["x_indptr"].append(np.zeros(1, np.int64))

    def append(self, block: Any) -> None:
        self.ones = self.ones and bool((block.data == 1).all())
        self.files["x_data"].append(block.data)
        self.files["x_indices"].append(block.indices)
        self.files["x_indptr"].append(block.indptr[1:].astype(np.int64) + self.entries)
        self.entries += block.nnz

    def close(self) -> dict[str, Any]:
        arrays = {name: file.close() for name, file in self.files.items()}
        if self.ones:
            del arrays["x_data"]
            (self.folder / "x_data.npy").unlink()
        return {"arrays": arrays, "widths": None}
