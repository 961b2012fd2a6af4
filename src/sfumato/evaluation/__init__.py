"""Scores of fitted models beside their controls. Everything here reads true labels: outside the guarantee."""
