"""How much a model knows: questions with checks on the replies, and the perplexity of texts."""
