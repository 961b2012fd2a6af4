"""A file of text as rows of cells, whatever its encoding and compression. Errors tell the row, as an editor counts lines."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato._encoding import encoding_of
from sfumato.errors import DataError
from sfumato.tables._foreign import HEAD, check_text

_HEAD = 1 << 23
_CUT = (EOFError, zlib.error, OSError)
_ZIPPED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"))


def cells_of(lines: Iterable[str], mark: str) -> Any:
    """Return a reader of the rows of some lines, with a mark between their cells; white space before a quote does not count."""
    csv.field_size_limit(2**31 - 1)  # a document may be one cell
    return csv.reader(lines, delimiter=mark, strict=True, skipinitialspace=mark != " ")


@dataclass(frozen=True)
class TextFile:
    path: Path
    encoding: str
    compression: str

    @classmethod
    def of(cls, path: Path) -> TextFile:
        with path.open("rb") as raw:
            start = raw.read(4)
        compression = next((name for sign, name in _ZIPPED if start.startswith(sign)), "none")
        return cls(path, encoding_of(cls(path, "", compression)._head(4)), compression)

    def head(self) -> str:
        data = self._head(_HEAD)
        if self.encoding in ("utf-8", "utf-8-sig"):
            check_text(self.path, data[:HEAD])
        try:
            return codecs.getincrementaldecoder(self.encoding)().decode(data)
        except UnicodeDecodeError:
            raise self._not_text() from None

    def records(self, mark: str, skip: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows after the first ``skip`` lines, without empty ones: the line number where each begins, and its cells."""
        line = skip
        with self._bytes() as raw:
            file = io.TextIOWrapper(raw, self.encoding, newline="")
            try:
                for _ in range(skip):
                    file.readline()
                rows = cells_of(file, mark)
                for cells in rows:
                    if cells:
                        yield line + 1, cells
                    line = skip + rows.line_num
            except UnicodeDecodeError:
                raise self._not_text() from None
            except csv.Error:
                raise self.open_quote(line + 1) from None
            except _CUT as error:
                raise self._cut(error) from None

    def fitting(self, widths: Mapping[str, int], skip: int, most: int | None = None) -> list[str]:
        """Return the marks by which every row has the number of cells that ``widths`` gives for each of them.

        A mark that is left alone is not looked at any further; if none fits, it is the first of those that fit longest.
        """
        left, done = {mark: self.records(mark, skip) for mark in widths}, 0
        while len(left) > 1 and done != most:
            found = {mark: _next(rows) for mark, rows in left.items()}
            if all(cells is None for cells in found.values()):
                break
            fits = [mark for mark, cells in found.items() if cells is None or fits_in(cells, widths[mark])]
            left = {mark: left[mark] for mark in fits or [max(found, key=lambda mark: len(found[mark] or ()))]}
            done += 1
        return [*left]

    def line_of(self, mark: str, skip: int, row: int) -> int:
        """Return the number of the line in which the row begins, counted from 0 after the first ``skip`` lines."""
        for number, (line, _) in enumerate(self.records(mark, skip)):
            if number == row:
                return line
        return skip + 1 + row

    def open_quote(self, row: int) -> DataError:
        return DataError(
            f"Expected the quotes of {self.path} to be closed, but row {row} has one that opens or ends within a cell. "
            'Write a quote inside of a quoted cell twice ("").'
        )

    def _not_text(self) -> DataError:
        """Name the first line that is not of the encoding."""
        ours = self.encoding.startswith("utf-8")
        name, where = "UTF-8" if ours else self.encoding.upper(), ""
        if ours:
            with self._bytes() as raw:
                for number, line in enumerate(raw, start=1):
                    try:
                        line.decode("utf-8")
                    except UnicodeDecodeError:
                        where = f" in row {number}"
                        break
        return DataError(
            f"Expected {self.path} to be written in {name}, got text that is not {name}{where}. Save it as UTF-8: spreadsheets "
            "offer it as 'CSV UTF-8', and iconv -f LATIN1 -t UTF-8 converts a file."
        )

    def _cut(self, error: BaseException) -> BaseException:
        """What stands for an error of reading: itself if it is of the system, else that the file is not whole."""
        if getattr(error, "errno", None) is not None:
            return error
        return DataError(f"Expected {self.path} to be a whole compressed file, got a part of one. Copy it again.")

    def _head(self, size: int) -> bytes:
        try:
            with self._bytes() as file:
                data: bytes = file.read(size)
        except _CUT as error:
            raise self._cut(error) from None
        return data

    def _bytes(self) -> Any:
        if self.compression == "gzip":
            return gzip.open(self.path, "rb")
        if self.compression == "zstd":
            import pyarrow as pa

            return io.BufferedReader(_Raw(pa.CompressedInputStream(pa.OSFile(str(self.path)), "zstd")))
        return self.path.open("rb")


def fits_in(cells: list[str], width: int) -> bool:
    """Say whether a row has so many cells; a mark at its end is one too many that counts for nothing."""
    return len(cells) == width or (len(cells) == width + 1 and not cells[-1])


def _next(rows: Iterator[tuple[int, list[str]]]) -> list[str] | None:
    """The cells of the next row, none where it cannot be read; None after the last."""
    try:
        return next(rows, (0, None))[1]
    except DataError:
        return []


class _Raw(io.RawIOBase):
    """A stream of Arrow as one of Python."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found: bytes = self._stream.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)
