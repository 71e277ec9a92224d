"""Memory updates and state exchange: keys, proofs, replays (P §2.2, App. B-F)."""
