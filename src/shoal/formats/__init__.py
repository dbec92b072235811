"""Number formats of the released files: E4M3, E8M0 and E2M1, decoded and encoded bit by bit (spec §3)."""
