"""Attacks on the claim itself: what epsilon the outputs of a mechanism rule out, at a stated confidence."""
