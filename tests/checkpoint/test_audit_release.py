"""The audit of the whole release, 475 GiB of holes behind its real headers: whole, partly here, and cut short."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import shoal.errors
from shoal.checkpoint.audit import AuditOptions, audit
from shoal.checkpoint.audit_outcome import Verdict
from shoal.checkpoint.audit_report import AuditReport
from shoal.checkpoint.index import INDEX_NAME
from shoal.checkpoint.shard_layout import header_bytes, lay_out
from shoal.config.layouts import load_config

SOURCES = Path(shoal.errors.__file__).parents[1]
RELEASE = Path(__file__).parents[1] / "data" / "release"
PREFIX_NBYTES = 3_000_001

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sparse")
    for shard in lay_out(load_config(RELEASE)):
        header = header_bytes(shard)
        with (path / shard.file_name).open("wb") as file:
            file.write(header)
            file.truncate(len(header) + shard.payload_nbytes)
    (path / "config.json").write_bytes((RELEASE / "config.json").read_bytes())
    index = gzip.decompress((RELEASE / "model.safetensors.index.sorted.json.gz").read_bytes())
    (path / INDEX_NAME).write_bytes(index)
    return path


def arrived(sparse: Path, path: Path, shards: int) -> Path:
    """The first `shards` of the release, as links, with config and index."""
    for file in (*sorted(sparse.glob("*.safetensors"))[:shards], *sparse.glob("*.json")):
        (path / file.name).symlink_to(file)
    return path


def failures(report: AuditReport) -> dict[str, str]:
    findings = (finding for finding in report.findings if finding.outcome.verdict is Verdict.FAILED)
    return {finding.check_id: "\n".join(finding.outcome.evidence) for finding in findings}


# The peak is the process image's own: `ru_maxrss` counts that of the process that started it.
MEASURED = """
import sys, time
from shoal.checkpoint.audit import main
code = main([sys.argv[1], "--require-complete"])
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
sys.stderr.write(f"{time.process_time()} {peak}")
sys.exit(code)
"""


def test_whole_it_passes_every_check_in_time_and_memory(sparse: Path) -> None:
    command = [sys.executable, "-S", "-c", MEASURED, str(sparse)]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == (
        "39/39 passed, 0 undecided, 0 failed; 96,085 of 96,085 tensors readable, 475.24 GiB"
    )
    seconds, peak_kib = done.stderr.split()
    assert float(seconds) < 15
    assert int(peak_kib) < 1 << 20


@pytest.mark.parametrize(
    ("shards", "summary"),
    [
        (46, "35/39 passed, 4 undecided, 0 failed; 96,073 of 96,085 tensors readable, 286.11 GiB"),
        (20, "31/39 passed, 8 undecided, 0 failed; 42,303 of 96,085 tensors readable, 126.06 GiB"),
    ],
)
def test_while_it_arrives_what_is_not_here_is_undecided(
    sparse: Path, tmp_path: Path, shards: int, summary: str
) -> None:
    report = audit(arrived(sparse, tmp_path, shards), AuditOptions())
    assert report.summary() == summary
    assert report.holds(require_complete=False)
    assert not report.holds(require_complete=True)


def test_headers_cut_short_under_any_names_pass_38_of_38(sparse: Path, tmp_path: Path) -> None:
    for number, shard in enumerate(sorted(sparse.glob("*.safetensors"))):
        with shard.open("rb") as whole, (tmp_path / f"piece-{number * 7 % 48}").open("wb") as piece:
            # The rest stays a hole: 3 MB of zeros each would be 144 MB to write.
            piece.write(whole.read(300_000))
            piece.truncate(min(PREFIX_NBYTES, shard.stat().st_size))
    report = audit(tmp_path, AuditOptions(config=RELEASE / "config.json", header_prefix=True))
    assert report.summary() == "38/38 passed, 0 undecided, 0 failed; 96,085 of 96,085 tensors readable, 475.24 GiB"


def test_seven_heads_give_other_rows_than_declared(sparse: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    text = (RELEASE / "config.json").read_text()
    config.write_text(text.replace('"engram_n_heads": 8', '"engram_n_heads": 7'))
    report = audit(sparse, AuditOptions(config=config))
    found = failures(report)
    # The projection reads all heads of a row, so its width follows from their number.
    assert found.keys() == {"engram.rows", "engram.projections"}
    assert "declared=[384006168, 384016682] derived=[336004849, 336012883]" in found["engram.rows"]


def test_the_flat_config_gives_the_same_result(sparse: Path) -> None:
    report = audit(sparse, AuditOptions(config=RELEASE / "inference" / "config.json"))
    assert report.summary().startswith("39/39 passed, 0 undecided, 0 failed; 96,085 of 96,085")
