"""The `slim` checkpoint, which decoding is measured on when no other is given: all layers, 10 experts each."""

import json
from pathlib import Path

from shoal.bench.region import Say
from shoal.synth.manifest import MANIFEST_NAME
from shoal.synth.presets import Preset, Reduction
from shoal.synth.synthesis import SynthOptions, TotalProgress, decide

FOLDER, FIGURE = "slim", "decode_slim"


def make_slim(cache: Path, say: Say, progress: TotalProgress | None = None) -> Path:
    """The one kept in `cache`, written or completed first where needed. OptionError where the disk is too full."""
    directory = cache / FOLDER
    directory.parent.mkdir(parents=True, exist_ok=True)
    say(f"making sure that `{directory}` holds the slim checkpoint; remove it when done")
    decide(SynthOptions(directory, Reduction(Preset.SLIM))).write(progress)
    return directory


def figure_of(directory: Path) -> str:
    """`decode_slim` for a slim checkpoint, `decode` for any other."""
    try:
        made_from = json.loads((directory / MANIFEST_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "decode"
    is_slim = isinstance(made_from, dict) and made_from.get("preset") == Preset.SLIM.value
    return FIGURE if is_slim else "decode"
