"""A request becomes tokens: sampling, stopping, timing. Knows a model only as a Protocol."""
