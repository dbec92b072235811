"""Shards read as they were released: headers, the index, and read-only access to tensors, rows and bytes."""
