"""Brings a model repository from a hub to a directory: looked at first, resumed, and checked file by file."""
