"""The figures of `shoal bench io`: what the disk gives while a model runs, all beside the same probe."""

import statistics
from collections.abc import Sequence

from shoal.bench.engram import engram_results, table_hole
from shoal.bench.expert_read import expert_result, stored_keys
from shoal.bench.region import Say
from shoal.bench.result import Result, Skipped
from shoal.bench.rounds import keep, of_disk
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layer_plan import plan_layers
from shoal.config.schema import ModelConfig
from shoal.engram.layout import derive_layout
from shoal.plan.disk_probe import DiskProbe
from shoal.weights.stored_experts import StoredExperts

PROBE = "disk_probe"


def io_results(checkpoint: Checkpoint, config: ModelConfig, probe: DiskProbe, say: Say) -> Sequence[Result | Skipped]:
    """`disk_probe`, `expert_read`, `engram_96`, `engram_512`."""
    plans = plan_layers(config)
    say("reading experts")
    experts = expert_result(checkpoint, config, [plan for plan in plans if not plan.is_draft], probe, say)
    say("reading Engram rows")
    columns = len(derive_layout(config).layers[0].buckets) if config.has_engram else 0
    rows = list(engram_results(checkpoint, plans, columns, probe))
    return [probe_result(probe), experts, *rows]


def holes_of(checkpoint: Checkpoint, config: ModelConfig) -> str | None:
    """What of the experts and the Engram tables is holes of sparse files, in words; None where nothing is."""
    plans = plan_layers(config)
    source = StoredExperts(checkpoint, config, [plan for plan in plans if not plan.is_draft])
    if holes := len(source.keys) - len(stored_keys(source)):
        return f"{holes:,} of {len(source.keys):,} experts are holes of sparse files"
    return table_hole(checkpoint, plans)


def probe_result(probe: DiskProbe) -> Result:
    """The probe itself, over all of its runs so far."""
    nbytes = round(statistics.median(run.nbytes for run in probe.runs))
    kept = keep([of_disk(run.rate, run.seconds, PROBE, {}) for run in probe.runs], probe.best_rate)
    return Result.of(
        PROBE,
        kept,
        seconds=nbytes / kept.probe_rate,
        nbytes=nbytes,
        ratio=1.0,
        value=kept.probe_rate / 1e9,
        unit="GB/s",
        more={"direct": probe.direct},
        note="" if probe.direct else "no O_DIRECT here: through the page cache",
    )
