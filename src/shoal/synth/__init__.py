"""Makes checkpoints: a random miniature, real width in fewer bytes, the whole release as holes on the disk."""
