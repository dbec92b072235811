"""Command line: the only floor that prints or reads the environment."""
