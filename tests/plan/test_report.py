"""The plan as text and as JSON: every figure of the one can be computed from the other."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shoal.errors
from shoal.plan.estimate import Estimate
from shoal.plan.memory_split import Workload, split_memory
from shoal.plan.rates import ASSUMED
from shoal.plan.report import as_json, lines
from shoal.plan.size import GIB
from shoal.plan.stored import Stored

RELEASE = Path(__file__).parents[1] / "data" / "release"
SOURCES = Path(shoal.errors.__file__).parents[1]


def plan_at(stored: Stored, gibibytes: int, sequences: int = 1) -> Estimate:
    return Estimate(split_memory(stored, Workload(gibibytes * GIB, 32_768, sequences)), ASSUMED)


def test_the_plan_of_64_gib_reads_like_this(release: Stored) -> None:
    text = "\n".join(lines(plan_at(release, 64)))
    for part in (
        "Where it lives, with 64.00 GiB of memory and 1 sequence of 32,768 tokens",
        "  dense weights       9.17 GiB    9.17 GiB        0 GiB   always in memory, packed as stored",
        "  activations                -    1.16 GiB            -   prompts are read 2,048 tokens at once",
        "  routed experts    268.95 GiB   52.88 GiB   216.07 GiB   3,020 of 15,360 experts of 18,800,640 B",
        "room for 32,768 tokens: 890 B a token + 2.9 MB a sequence",
        "expected expert hit rate 19.7%",
        "evenly and independently",
        "13.05 GB = attention 5.15 + routed experts 4.51 + shared experts 1.42 + head 1.32",
        "240 experts x 18,800,640 B x 0.803 missed + 96 Engram pages x 4,096 B x 0.999 missed",
        "50.00 GB/s     assumed, not measured",
        "1.535 s = 13.05 / (0.80 x 50.00) + 3.63 / 3.00",
        "0.65 tokens a second",
    ):
        assert part in text, part


@pytest.mark.parametrize("gibibytes", [24, 64, 128, 256, 512])
@pytest.mark.parametrize("sequences", [1, 8])
def test_formulas_compute_the_figures_beside_them(release: Stored, gibibytes: int, sequences: int) -> None:
    checked = 0
    for line in lines(plan_at(release, gibibytes, sequences)):
        figure, is_seconds, formula = line.partition(" s = ")
        if is_seconds:
            # A comma between digits groups them; the one of `max` has a space after it.
            ungrouped = re.sub(r"(?<=\d),(?=\d)", "", formula.replace(" x ", " * "))
            assert eval(ungrouped) == pytest.approx(float(figure.split()[-1]), rel=0.01, abs=0.06)
            checked += 1
    assert checked == 2


def test_lines_fit_a_wide_terminal(release: Stored) -> None:
    assert max(map(len, lines(plan_at(release, 24, 8)))) <= 180


def test_json_states_the_same_and_survives_a_round_trip(release: Stored) -> None:
    estimate = plan_at(release, 64)
    content = json.loads(json.dumps(as_json(estimate)))
    assert content["checkpoint"] == {"nbytes": 510_286_023_000, "tensors": 96_085}
    assert sum(holding["in_memory"] for holding in content["holdings"]) == content["used_nbytes"] <= 64 * GIB
    assert content["step"]["seconds"] == estimate.step_seconds
    assert content["rates"]["disk"] == {"per_second": 3e9, "origin": "assumed"}


def test_a_plan_needs_nothing_but_python() -> None:
    script = f"""
import sys
sys.path.insert(0, {str(SOURCES)!r})
from shoal.config.layouts import load_config
from shoal.plan.estimate import Estimate
from shoal.plan.memory_split import Workload, split_memory
from shoal.plan.rates import ASSUMED
from shoal.plan.report import lines
from shoal.plan.stored import count_stored
from shoal.plan import arithmetic_probe, disk_probe, memory_probe
assert arithmetic_probe.measure_arithmetic() is None
split = split_memory(count_stored(load_config({str(RELEASE)!r})), Workload(64 << 30, 4096, 1))
print(sum(1 for line in lines(Estimate(split, ASSUMED))))
"""
    # Isolated, and without site-packages.
    ended = subprocess.run([sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert int(ended.stdout) > 20
