"""How the built-in miniature is made: corpus, tokenizer, training, export. Imports shoal, never the other way."""
