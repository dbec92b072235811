"""Families of tensor names: each name belongs to one, and one presence check watches each (spec §2.1)."""

from enum import Enum


class Family(Enum):
    """Which presence check a tensor is the business of."""

    BACKBONE = "backbone"
    """Everything of the backbone's layers but what follows, with embedding, norm and head."""
    BACKBONE_EXPERTS = "routed experts of the backbone"
    DRAFT = "draft layers"
    DRAFT_EXPERTS = "routed experts of the draft layers"
    TABLES = "Engram tables"
    PROJECTIONS = "Engram projections"
    VISION = "vision and aligner"


def family_of(name: str) -> Family:
    """The family of any name, known or not: an unknown one must fail a check too."""
    if name.startswith(("vision.", "aligner.", "image_")):
        return Family.VISION
    is_draft = name.startswith("mtp.")
    if ".ffn.experts." in name:
        return Family.DRAFT_EXPERTS if is_draft else Family.BACKBONE_EXPERTS
    if is_draft:
        return Family.DRAFT
    if ".engram.embed." in name:
        return Family.TABLES
    return Family.PROJECTIONS if ".engram." in name else Family.BACKBONE
