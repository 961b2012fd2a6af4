"""Check a released run without trusting the library that wrote it.

``python -m sfumato.verify DIR [--public-key FILE]`` exits 0 if the run is valid, 1 if it is not, 2 if there is nothing
to check. This folder stands alone: copied anywhere, it needs Python, NumPy and cryptography, and nothing else of Sfumato.
"""

from ._folder import VerifyInputError
from ._verifier import Verification, describe, main, verify

__all__ = ["Verification", "VerifyInputError", "describe", "main", "verify"]
