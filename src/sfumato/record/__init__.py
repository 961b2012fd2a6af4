"""What stays on disk: ledgers, certificate, run folder, resumable and sealed state. It knows no method family."""
