"""Sentences that two places say or know again: any proxy on the way may answer with the status of the server."""

CLOSED = "The collection is closed. Nothing is taken any more."
UNPROVED = "Expected an enrolled user and the {} of its device, got another. Nothing was stored. Enrol the device."
TAKEN_BACK = (
    "Expected a report that its user did not take back, got one that was. It is not sent. To report all the same, ask the "
    "operator for a new code, and add --code CODE."
)
