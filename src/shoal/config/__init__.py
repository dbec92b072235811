"""The model's configuration: one schema for the two released layouts, standard library only."""
