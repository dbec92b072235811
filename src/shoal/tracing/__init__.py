"""Every internal of one run by the names of the goldens, and where two such records part."""
