"""Collection: users' devices randomize their values once, a server stores the reports, and models learn from them.

:mod:`~sfumato.collect._client` is what runs on a device; it never imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.collect._client import Device as Device
    from sfumato.collect._connection import Connection as Connection
    from sfumato.collect._schema import Schema as Schema

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
