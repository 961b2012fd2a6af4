"""Serving: a finished run answers requests over HTTP and goes into other tools, from what was released."""
