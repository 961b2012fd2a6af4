"""What keys and ledger of a device read of the thing it answers: a schema, or the agreement of two servers."""

from __future__ import annotations

from typing import Protocol


class Contract(Protocol):
    """A public contract with a name and a cost."""

    @property
    def collection(self) -> str: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def sha256(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    def statement(self) -> str: ...
