"""Engram: from token ids to the rows of the hashed n-gram tables (spec §6)."""
