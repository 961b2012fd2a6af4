"""Randomness from a key: whole words, proved laws. Nothing here knows of budgets or graphs."""
