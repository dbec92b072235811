"""The options of `shoal generate`, as the command line shows them."""

from pathlib import Path
from typing import Annotated

import typer

Checkpoint = Annotated[
    str | None, typer.Argument(help="The directory of the released files; the built-in miniature if absent.")
]
CheckpointDirectory = Annotated[
    Path | None, typer.Argument(help="The directory of the released files; the built-in miniature if absent.")
]
Stdin = Annotated[str | None, typer.Argument(metavar="-", help="Read the prompt from standard input.")]

# What is asked
Prompt = Annotated[str | None, typer.Option(help="The prompt.")]
PromptFile = Annotated[Path | None, typer.Option(help="A UTF-8 file with the prompt.")]
Ids = Annotated[str | None, typer.Option(help="The prompt as token ids: 0,5,6. Nothing is added.")]
AsChat = Annotated[bool, typer.Option("--chat", help="Ask as a user's message, thinking off.")]

# How tokens are drawn
MaxNewTokens = Annotated[int, typer.Option(min=1, help="Stop after so many tokens.")]
Temperature = Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest token.")]
TopP = Annotated[float, typer.Option(help="Draw from the likeliest tokens of this mass.")]
TopK = Annotated[int, typer.Option(help="Draw from so many likeliest tokens; 0: all.")]
MinP = Annotated[float, typer.Option(help="Draw from tokens of this share of the likeliest's probability.")]
RepetitionPenalty = Annotated[float, typer.Option(help="Above 1: tokens said before become less likely.")]
Stop = Annotated[list[str] | None, typer.Option(help="End before this text; may be given again.")]
Seed = Annotated[int, typer.Option(help="Equal seeds draw equal tokens.")]

# Where things live
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory for everything: 24GiB, 512MB. Default: what is free, less a margin."),
]
ExpertMemory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of it, for routed experts. Default: what the rest leaves.")
]
EngramMemory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of it, for Engram rows read before. Default: a little.")
]
KVMemory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Of it, for the KV cache. Default: the whole context's, if that is little."),
]
ResidentEngram = Annotated[bool, typer.Option("--resident-engram", help="Read the Engram tables into memory.")]
ExpertProfile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Counts of how often experts were used: read if there, written at the end."),
]
RecordRouting = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write which experts each step used, a JSON line a step.")
]
NoPrefetch = Annotated[bool, typer.Option("--no-prefetch", help="Read no expert before a layer asks for it.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads, all there are if absent; the answer is the same for any.")
]
PrefillChunk = Annotated[
    int | None, typer.Option(min=1, help="Prompt tokens read at once, as many as the memory allows if absent.")
]

# What is told
Quiet = Annotated[bool, typer.Option("--quiet", help="Only the answer, and errors.")]
Stats = Annotated[Path | None, typer.Option(help="Write counts, timings and ids to this JSON file.")]
