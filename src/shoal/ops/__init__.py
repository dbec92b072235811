"""Operators, one a file: the contract, the torch reference, and the choice of an implementation."""
