"""Plain networks, training and metrics: no privacy here."""
