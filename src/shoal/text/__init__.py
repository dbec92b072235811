"""Text to token ids and back, and conversations to prompts (spec, prompt.md)."""
