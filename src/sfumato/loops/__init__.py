"""Compiled loops, and what computes the same bits where nothing was compiled. There is no privacy here, only arithmetic."""
