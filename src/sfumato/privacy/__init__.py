"""Units, budgets, events, accounting, noise, ledger and certificate: nothing here knows of graphs."""
