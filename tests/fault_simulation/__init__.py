"""Deterministic simulations of engines whose processes, connections, disks and clocks fail."""
