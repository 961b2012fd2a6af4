"""Check a released run, or the ledger of many, without trusting the library that wrote it.

``python -m sfumato.verify DIR [--public-key FILE]`` exits 0 if the run is valid, 1 if it is not, 2 if there is nothing
to check; LEDGER in place of DIR checks a ledger and its runs. This folder stands alone: copied anywhere, it needs Python, NumPy
and cryptography, and nothing else of Sfumato.
"""

from ._folder import VerifyInputError
from ._ledger import LedgerVerification, describe_ledger, verify_ledger
from ._main import main
from ._survey import SurveyVerification, describe_survey, verify_survey
from ._verifier import Verification, describe, verify

__all__ = [
    "LedgerVerification",
    "SurveyVerification",
    "Verification",
    "VerifyInputError",
    "describe",
    "describe_ledger",
    "describe_survey",
    "main",
    "verify",
    "verify_ledger",
    "verify_survey",
]
