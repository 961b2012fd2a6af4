"""Reports in additive shares for two servers that do not collude, with proofs of validity (Prio3). Torch is not used here."""
