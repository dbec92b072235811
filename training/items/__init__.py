"""The built-in evaluation items: what the miniature should know, in words and values that its corpus holds out."""
