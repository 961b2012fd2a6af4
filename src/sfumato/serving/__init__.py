"""Serving: a finished run answers requests for predictions over HTTP, from what was released, within its certificate."""
