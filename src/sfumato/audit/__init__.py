"""Attacks on the claim itself: what epsilon the outputs of a mechanism rule out, at a stated confidence."""

from typing import TYPE_CHECKING

from sfumato._optional import homes_in, lazily

if TYPE_CHECKING:
    from sfumato.audit._functions import audit_function as audit_function

_HOME = homes_in(__file__)

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazily(__name__, _HOME)
