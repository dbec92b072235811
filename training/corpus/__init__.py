"""The text that the miniature learns from, of our own making: seeded and endless, nothing downloaded."""

from training.corpus.document import Chat, Document, Part, Text
from training.corpus.mixture import KINDS, documents

__all__ = ["KINDS", "Chat", "Document", "Part", "Text", "documents"]
