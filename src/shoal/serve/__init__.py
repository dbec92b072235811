"""The engine behind HTTP: three protocols and a page."""
