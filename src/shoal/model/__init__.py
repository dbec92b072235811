"""The text backbone: what one forward computes, what a sequence remembers, and the layers between."""
