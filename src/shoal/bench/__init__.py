"""Speed as a share of what the hardware gives: kernels, a decoded token, a prompt, loading, each beside its probe."""
