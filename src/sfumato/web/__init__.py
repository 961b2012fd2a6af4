"""What servers of this package share: connections with limits, and pages that load and run nothing."""
