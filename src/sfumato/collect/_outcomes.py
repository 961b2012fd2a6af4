"""What a device is told of what the store did with its enrolment, report or withdrawal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from sfumato.collect._refusals import RefusalError
from sfumato.collect._sentences import CLOSED

if TYPE_CHECKING:
    from sfumato.collect._intake import Intake
    from sfumato.collect._store import Answer, Enrolment

GOOD = ("stored", "repeated")


def answered(outcome: Answer | RefusalError) -> Response:
    if isinstance(outcome, RefusalError):
        raise outcome
    return Response(b'{"answer":"%s"}' % outcome.encode(), status_of(outcome), media_type="application/json")


def enrolled(intake: Intake, enrolment: Enrolment, answer: Answer) -> Answer | RefusalError:
    if answer in GOOD:
        return answer
    if answer == "revoked":
        return intake.no_code(enrolment.user)
    detail = "This user has other keys already, which stay. If it was not you, ask the operator."
    return RefusalError(409, detail, user=enrolment.user)


def not_taken(intake: Intake, user: str, answer: Answer) -> RefusalError:
    if answer == "revoked":
        return intake.unproved("signature", user)
    if answer == "withdrawn":
        return RefusalError(410, "The report of this user was withdrawn. None is taken any more.", user=user)
    detail = "Another report of this user is stored, and stays. This one was dropped, and an alert was written."
    return RefusalError(409, detail, user=user)


def gone() -> RefusalError:
    return RefusalError(410, CLOSED)


def status_of(outcome: Answer | RefusalError) -> int:
    return outcome.status if isinstance(outcome, RefusalError) else 201 if outcome == "stored" else 200


def detail_of(outcome: Answer | RefusalError) -> str:
    """What a refusal says; nothing else has a detail."""
    return outcome.detail if isinstance(outcome, RefusalError) else ""
