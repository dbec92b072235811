"""Each check of the audit can fail, alone where facts allow it, and never passes on what has not arrived."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shoal.errors
from miniature import MINI
from shoal.checkpoint.audit import CHECKS, AuditOptions, audit, main
from shoal.checkpoint.audit_outcome import Verdict
from shoal.checkpoint.audit_report import AuditReport
from shoal.checkpoint.header import DTYPE_BITS
from shoal.checkpoint.index import INDEX_NAME
from shoal.checkpoint.shard_layout import ShardLayout, lay_out
from shoal.config.layouts import load_config
from shoal.errors import CheckpointError, ConfigError, OptionError, ShardIndexError, ShoalError, TensorError

SOURCES = Path(shoal.errors.__file__).parents[1]
LAYER0, LAYER1, ENGRAM1 = (f"model-{number:05}-of-00018.safetensors" for number in (3, 4, 17))
NUM_SHARDS = 18


@cache
def _layout() -> list[ShardLayout]:
    return lay_out(load_config(MINI))


class Forged:
    """The miniature's config, index and headers, to be changed and then written over empty payloads."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = json.loads((MINI / "config.json").read_text())
        shards = lay_out(load_config(MINI))
        self.shards: dict[str, dict[str, tuple[str, list[int]]]] = {
            shard.file_name: {
                placed.spec.name: (placed.spec.dtype, list(placed.spec.shape)) for placed in shard.tensors
            }
            for shard in shards
        }
        self.weight_map = {name: shard for shard, tensors in self.shards.items() for name in tensors}
        self.extra_nbytes: dict[str, int] = {}  # after a tensor, or after a file's last one
        self.stretched: dict[str, int] = {}  # bytes a tensor's extent has too many
        self.restated: dict[str, list[int]] = {}  # shapes that do not change a tensor's bytes

    @property
    def text(self) -> dict[str, Any]:
        section: dict[str, Any] = self.config["text_config"]
        return section

    def home(self, name: str) -> dict[str, tuple[str, list[int]]]:
        return self.shards[self.weight_map[name]]

    def drop(self, *names: str) -> None:
        for name in names:
            del self.home(name)[name]
            del self.weight_map[name]

    def add(self, name: str, dtype: str, shape: list[int], shard: str = LAYER0) -> None:
        self.shards[shard][name] = (dtype, shape)
        self.weight_map[name] = shard

    def change(self, name: str, dtype: str | None = None, shape: list[int] | None = None) -> None:
        old_dtype, old_shape = self.home(name)[name]
        self.home(name)[name] = (dtype or old_dtype, shape or old_shape)

    def write(self, path: Path, shards: range = range(1, NUM_SHARDS + 1), *, index: bool = True) -> Path:
        path.mkdir(exist_ok=True)
        (path / "config.json").write_text(json.dumps(self.config))
        if index:
            (path / INDEX_NAME).write_text(json.dumps({"weight_map": self.weight_map}))
        for number, (shard, tensors) in enumerate(self.shards.items(), start=1):
            if number in shards:
                self.write_shard(path / shard, tensors)
        return path

    def write_shard(self, file: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
        header, end = {}, 0
        for name, (dtype, shape) in tensors.items():
            start, end = end, end + math.prod(shape) * DTYPE_BITS[dtype] // 8 + self.stretched.get(name, 0)
            shape = self.restated.get(name, shape)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
            end += self.extra_nbytes.get(name, 0)
        blob = json.dumps(header).encode()
        with file.open("wb") as stream:
            stream.write(len(blob).to_bytes(8, "little") + blob)
            stream.truncate(8 + len(blob) + end + self.extra_nbytes.get(file.name, 0))


def failed(report: AuditReport) -> set[str]:
    return {finding.check_id for finding in report.findings if finding.outcome.verdict is Verdict.FAILED}


def undecided(report: AuditReport) -> set[str]:
    return {finding.check_id for finding in report.findings if finding.outcome.verdict is Verdict.UNDECIDED}


def evidence(report: AuditReport, check_id: str) -> str:
    return "\n".join(next(f.outcome.evidence for f in report.findings if f.check_id == check_id))


def run(path: Path, **options: Any) -> AuditReport:
    return audit(path, AuditOptions(**options))


Change = Callable[[Forged], object]
CONTROLS: list[tuple[str, Change, set[str]]] = [
    ("config.required-keys", lambda f: f.text.update(scoring_func="sigmoid"), set()),
    ("config.required-keys", lambda f: f.text.update(hc_eps=0), set()),
    ("config.ratio-list", lambda f: f.text["compress_ratios"].append(0), set()),
    ("config.ratio-list", lambda f: f.text["compress_ratios"].__setitem__(0, 3), {"config.index-keys"}),
    ("config.draft-ratios", lambda f: f.text["compress_ratios"].__setitem__(11, 2), set()),
    (
        "config.kv-sources",
        lambda f: f.text.update(kv_source_layer_ids=[2, 3, 4, 6]),
        {"csa2.compressor-wkv", "csa2.compressor-wgate", "csa2.indexer-wk", "inventory.full-set"},
    ),
    ("config.sources-compress", lambda f: f.text["compress_ratios"].__setitem__(8, 0), {"config.index-keys"}),
    ("config.index-keys", lambda f: f.text["compress_ratios"].__setitem__(8, 2), set()),
    ("config.index-keys", lambda f: f.text["compress_ratios"].__setitem__(3, 1), set()),
    ("config.candidate-source", lambda f: f.text.update(candidate_source_layer_id=7), set()),
    ("config.candidate-source", lambda f: f.text.update(candidate_source_layer_id=4), set()),
    ("config.draft-targets", lambda f: f.text.update(dspark_target_layer_ids=[6, 8, 9]), set()),
    (
        "config.engram-sizes",
        lambda f: f.text["engram_num_embeddings"].pop(),
        {"engram.rows", "engram.scales"},
    ),
    (
        "config.engram-layers",
        lambda f: f.text.update(engram_layer_ids=[1, 40]),
        {"engram.tables", "engram.projections"},
    ),
    ("config.compressed-vocabulary", lambda f: f.text.update(engram_compressed_vocab_size=0), set()),
    ("config.token-ids", lambda f: f.config.update(image_token_id=1024), set()),
    ("engram.tables", lambda f: f.drop("layers.1.engram.embed.scale"), set()),
    ("engram.tables", lambda f: f.add("layers.3.engram.embed.weight", "F8_E4M3", [4, 64]), set()),
    ("engram.projections", lambda f: f.drop("layers.1.engram.q_weight"), set()),
    ("engram.projections", lambda f: f.change("layers.4.engram.k_weight", shape=[4, 161]), set()),
    ("engram.projections", lambda f: f.add("layers.3.engram.q_weight", "BF16", [4, 160]), set()),
    ("engram.rows", lambda f: f.text.update(engram_vocab_size=700), set()),
    ("engram.rows", lambda f: f.text.update(engram_max_ngram_size=1), {"config.required-keys", "engram.projections"}),
    ("engram.scales", lambda f: f.change("layers.1.engram.embed.scale", "U8"), set()),
    ("engram.scales", lambda f: f.change("layers.1.engram.embed.weight", "I8"), set()),
    (
        "engram.scales",
        lambda f: f.change("layers.4.engram.embed.weight", shape=[16, 64]),
        {"engram.row-blocks", "packing.pairs"},
    ),
    ("engram.row-blocks", lambda f: f.change("layers.1.engram.embed.scale", shape=[1844, 2]), set()),
    (
        "csa2.compressor-wkv",
        lambda f: f.drop("layers.6.attn.compressor.wkv.weight"),
        {"csa2.partition", "inventory.full-set"},
    ),
    (
        "csa2.compressor-wkv",
        lambda f: f.add("layers.3.attn.compressor.wkv.weight", "BF16", [64, 160]),
        {"csa2.partition", "inventory.full-set"},
    ),
    (
        "csa2.compressor-wgate",
        lambda f: f.add("layers.6.attn.compressor.wgate.weight", "BF16", [64, 160]),
        {"inventory.full-set"},
    ),
    ("csa2.compressor-wgate", lambda f: f.drop("layers.2.attn.compressor.wgate.weight"), {"inventory.full-set"}),
    (
        "csa2.indexer-wk",
        lambda f: f.drop("layers.2.attn.indexer.wk.weight"),
        {"csa2.partition", "inventory.full-set"},
    ),
    (
        "csa2.indexer-wq-b",
        lambda f: f.drop("layers.8.attn.indexer.wq_b.weight", "layers.8.attn.indexer.wq_b.scale"),
        {"csa2.partition", "inventory.full-set"},
    ),
    ("csa2.partition", lambda f: f.drop("layers.2.attn.compressor.norm.weight"), {"inventory.full-set"}),
    ("csa2.partition", lambda f: f.drop("layers.8.attn.indexer.weights_proj.weight"), {"inventory.full-set"}),
    ("inventory.full-set", lambda f: f.drop("layers.7.attn_norm.weight"), set()),
    ("inventory.full-set", lambda f: f.drop("norm.weight"), set()),
    ("inventory.full-set", lambda f: f.add("layers.7.attn.wq_c.weight", "BF16", [2, 2]), set()),
    ("inventory.full-set", lambda f: f.add("layers.10.attn_norm.weight", "BF16", [160]), set()),
    ("inventory.shapes", lambda f: f.change("layers.0.attn.q_norm.weight", shape=[97]), set()),
    ("inventory.shapes", lambda f: f.change("head.weight", "F16"), set()),
    ("inventory.unquantised", lambda f: f.add("embed.scale", "F8_E8M0", [32, 5]), set()),
    ("inventory.non-zero", lambda f: f.change("norm.weight", shape=[0]), {"inventory.shapes"}),
    ("packing.extents", lambda f: f.stretched.update({"norm.weight": 2}), set()),
    ("packing.extents", lambda f: f.restated.update({"norm.weight": [161]}), {"inventory.shapes"}),
    ("packing.tiling", lambda f: f.extra_nbytes.update({"head.weight": 8}), set()),
    ("packing.tiling", lambda f: f.extra_nbytes.update({"head.weight": -2, LAYER0: 0}), set()),
    ("packing.tiling", lambda f: f.extra_nbytes.update({LAYER0: 1}), set()),
    ("packing.tiling", lambda f: f.extra_nbytes.update({LAYER0: -1}), set()),
    ("packing.pairs", lambda f: f.change("layers.0.attn.wq_a.scale", shape=[3, 3]), {"packing.fp8-blocks"}),
    ("packing.pairs", lambda f: f.change("layers.0.ffn.experts.0.w1.scale", shape=[64, 3]), {"experts.packing"}),
    ("packing.fp8-blocks", lambda f: f.change("layers.0.attn.wq_a.scale", shape=[6, 5]), set()),
    ("packing.fp8-blocks", lambda f: f.change("layers.1.engram.wkv.scale", "U8"), set()),
    ("packing.fp8-blocks", lambda f: f.change("mtp.1.attn.wkv.scale", shape=[1, 5]), set()),
    ("experts.packing", lambda f: f.change("layers.5.ffn.experts.15.w2.weight", "U8"), set()),
    ("experts.packing", lambda f: f.change("mtp.0.ffn.experts.7.w2.scale", shape=[80, 2]), set()),
    ("experts.backbone", lambda f: f.drop("layers.5.ffn.experts.15.w2.scale"), set()),
    ("experts.backbone", lambda f: f.add("layers.5.ffn.experts.16.w2.weight", "I8", [160, 32]), set()),
    ("experts.draft", lambda f: f.drop("mtp.2.ffn.experts.0.w1.weight"), set()),
    ("dspark.heads", lambda f: f.change("mtp.2.confidence_head.proj.weight", shape=[1, 160]), set()),
    ("dspark.main-proj", lambda f: f.change("mtp.0.main_norm.weight", shape=[320]), set()),
    (
        "dspark.main-proj",
        lambda f: f.text.update(dspark_target_layer_ids=[8, 9]),
        set(),
    ),
    ("dspark.layers", lambda f: f.drop("mtp.1.attn_norm.weight"), set()),
    ("dspark.layers", lambda f: f.add("mtp.0.markov_head.embed.weight", "BF16", [1024, 32]), set()),
    ("vision.blocks", lambda f: f.drop("vision.blocks.1.norm1.weight"), set()),
    ("vision.shapes", lambda f: f.change("aligner.w1.bias", shape=[161]), set()),
    ("index.assignment", lambda f: f.home("norm.weight").update(foreign=("BF16", [2])), set()),
    (
        "index.assignment",
        lambda f: f.weight_map.update({"layers.0.attn_norm.weight": LAYER1}),
        {"inventory.shapes"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("check_id", "change", "follows"), CONTROLS)
def test_one_wrong_field_fails_its_check_and_only_what_follows(
    check_id: str, change: Change, follows: set[str], tmp_path: Path
) -> None:
    forged = Forged()
    change(forged)
    report = run(forged.write(tmp_path / "forged"))
    assert failed(report) == {check_id} | follows
    assert undecided(report) == set()
    assert evidence(report, check_id)


def test_every_check_has_a_control() -> None:
    named = {check.check_id for check in CHECKS} | {"config.required-keys", "index.assignment"}
    assert len(named) == 39
    assert {check_id for check_id, _, _ in CONTROLS} == named


@pytest.mark.parametrize("config", ["config.json", "inference/config.json"])
def test_the_miniature_passes_by_either_config(config: str) -> None:
    report = run(MINI, config=MINI / config)
    assert report.summary() == ("39/39 passed, 0 undecided, 0 failed; 1,568 of 1,568 tensors readable, 0.01 GiB")


def test_a_missing_key_is_a_failure_and_leaves_to_the_headers_what_is_theirs(tmp_path: Path) -> None:
    forged = Forged()
    del forged.text["hc_eps"]
    report = run(forged.write(tmp_path / "forged"))
    assert failed(report) == {"config.required-keys"}
    assert "`text_config.hc_eps`" in evidence(report, "config.required-keys")
    assert report.count(Verdict.PASSED) == 5
    assert "lacks" in evidence(report, "inventory.full-set")


def test_a_config_that_says_no_engram_draft_or_vision_expects_none(tmp_path: Path) -> None:
    forged = Forged()
    forged.text.update(engram_layer_ids=[], engram_num_embeddings=[], num_nextn_predict_layers=0)
    forged.text.update(dspark_block_size=0, dspark_target_layer_ids=[])
    forged.text["compress_ratios"] = forged.text["compress_ratios"][:10]
    forged.config["vision_config"]["num_hidden_layers"] = 0
    report = run(forged.write(tmp_path / "forged"))
    assert failed(report) == {
        *("engram.tables", "engram.projections", "experts.draft", "dspark.layers", "vision.blocks"),
    }  # fmt: skip


def test_a_size_no_model_has_is_refused_before_anything_is_laid_out(tmp_path: Path) -> None:
    forged = Forged()
    forged.text["n_routed_experts"] = 10**15
    with pytest.raises(ConfigError, match="more than 1,000,000 tensors"):
        run(forged.write(tmp_path / "forged"))


# What has not arrived.


def test_without_a_shard_only_config_and_presence_are_decided(tmp_path: Path) -> None:
    report = run(Forged().write(tmp_path / "forged", range(0)))
    assert failed(report) == set()
    # All that is judged by headers: nine of all shards concerned, four of those here, and the index.
    assert len(undecided(report)) == 14
    assert report.holds(require_complete=False)
    assert not report.holds(require_complete=True)


def test_a_failure_is_not_deferred_to_a_shard_that_has_not_arrived(tmp_path: Path) -> None:
    forged = Forged()
    forged.change("layers.0.attn.wq_a.scale", shape=[6, 5])
    report = run(forged.write(tmp_path / "forged", range(1, 17)))
    assert failed(report) == {"packing.fp8-blocks"}
    assert undecided(report) == {"engram.projections", "engram.scales", "engram.row-blocks"}


def test_a_weight_here_is_not_judged_before_its_scale_has_arrived(tmp_path: Path) -> None:
    forged = Forged()
    dtype_and_shape = forged.home("layers.0.attn.wq_a.scale").pop("layers.0.attn.wq_a.scale")
    forged.add("layers.0.attn.wq_a.scale", *dtype_and_shape, shard=ENGRAM1)
    report = run(forged.write(tmp_path / "forged", range(1, 17)))
    finding = next(finding for finding in report.findings if finding.check_id == "packing.fp8-blocks")
    assert finding.outcome.verdict is Verdict.UNDECIDED
    assert ENGRAM1 in finding.outcome.waits_for
    assert failed(run(forged.write(tmp_path / "forged"))) == set()


def test_without_an_index_numbered_names_tell_which_shards_are_absent(tmp_path: Path) -> None:
    report = run(Forged().write(tmp_path / "forged", range(1, 17), index=False))
    assert len(report.findings) == 38
    assert failed(report) == set()
    assert report.disk.absent == tuple(f"model-{number:05}-of-00018.safetensors" for number in (17, 18))
    # What only headers can place is not decided while two of them are absent.
    assert {"engram.tables", "inventory.full-set", "csa2.partition", "vision.blocks"} <= undecided(report)


def test_without_an_index_or_numbers_what_is_not_here_is_missing(tmp_path: Path) -> None:
    path = Forged().write(tmp_path / "forged", range(1, 17), index=False)
    for number, file in enumerate(sorted(path.glob("*.safetensors"))):
        file.rename(path / f"{number}.safetensors")
    report = run(path)
    assert failed(report) == {"engram.tables", "engram.projections"}
    assert undecided(report) == set()


def test_whole_and_without_an_index_all_38_pass(tmp_path: Path) -> None:
    assert run(Forged().write(tmp_path / "forged", index=False)).summary().startswith("38/38 passed")


# Header prefixes.


@pytest.mark.parametrize("index", [False, True])
def test_prefixes_are_known_by_their_first_bytes_under_any_name(tmp_path: Path, index: bool) -> None:
    path = Forged().write(tmp_path / "forged", index=index)
    for number, file in enumerate(sorted(path.glob("*.safetensors"))):
        (path / f"part-{(number * 7) % NUM_SHARDS}").write_bytes(file.read_bytes()[:40_000])
        file.unlink()
    (path / "notes.txt").write_text("nothing of a shard")
    (path / "zeros.bin").write_bytes(bytes(64))
    report = run(path, header_prefix=True)
    assert report.summary().startswith("39/39 passed" if index else "38/38 passed")
    assert "1,568 of 1,568 tensors readable" in report.summary()


def test_two_prefixes_with_the_same_header_are_one_and_it_says_so(tmp_path: Path) -> None:
    path = Forged().write(tmp_path / "forged", index=False)
    (path / "again").write_bytes((path / LAYER0).read_bytes()[:50_000])
    report = run(path, header_prefix=True)
    assert failed(report) == set()
    assert report.disk.notes == (f"`{LAYER0}` has the header of `again`: counted once",)
    assert next(report.lines()).startswith("note: ")


def test_two_headers_that_claim_to_be_one_shard_are_refused(tmp_path: Path) -> None:
    forged = Forged()
    path = forged.write(tmp_path / "forged")
    forged.change("layers.0.attn.q_norm.weight", shape=[97])
    forged.write_shard(path / "again", forged.shards[LAYER0])
    with pytest.raises(CheckpointError, match="are both"):
        run(path, header_prefix=True)


def test_a_prefix_longer_than_its_shard_has_trailing_bytes(tmp_path: Path) -> None:
    forged = Forged()
    forged.extra_nbytes[LAYER0] = 1
    assert failed(run(forged.write(tmp_path / "forged"), header_prefix=True)) == {"packing.tiling"}


# Files.


def test_shards_that_are_links_are_followed(tmp_path: Path) -> None:
    store = Forged().write(tmp_path / "store")
    path = tmp_path / "snapshot"
    path.mkdir()
    for number, file in enumerate(sorted(store.iterdir())):
        file.rename(tmp_path / f"blob{number}")
        (path / file.name).symlink_to(tmp_path / f"blob{number}")
    assert failed(run(path)) | undecided(run(path)) == set()


def test_a_shard_the_index_does_not_name_fails_the_index(tmp_path: Path) -> None:
    path = Forged().write(tmp_path / "forged")
    (path / "adapter.safetensors").write_bytes((path / LAYER0).read_bytes())
    report = run(path)
    assert failed(report) == {"index.assignment"}
    assert "`adapter.safetensors`" in evidence(report, "index.assignment")


def test_another_index_may_be_given(tmp_path: Path) -> None:
    forged = Forged()
    path = forged.write(tmp_path / "forged", index=False)
    (tmp_path / "other.json").write_text(json.dumps({"weight_map": forged.weight_map}))
    assert run(path, index=tmp_path / "other.json").summary().startswith("39/39 passed")


@pytest.mark.parametrize("name", ["../a.safetensors", "a/b.safetensors", "..safetensors", "a\\b.safetensors"])
def test_an_index_that_leaves_the_directory_is_refused(tmp_path: Path, name: str) -> None:
    forged = Forged()
    forged.weight_map["norm.weight"] = name
    with pytest.raises(ShardIndexError, match="plain name"):
        run(forged.write(tmp_path / "forged"))


def test_a_tensor_in_two_shards_needs_an_index(tmp_path: Path) -> None:
    forged = Forged()
    forged.shards[LAYER1]["norm.weight"] = ("BF16", [160])
    with pytest.raises(TensorError, match="expected once"):
        run(forged.write(tmp_path / "forged", index=False))
    assert failed(run(forged.write(tmp_path / "forged"))) == {"index.assignment"}


def test_nothing_to_audit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((MINI / "config.json").read_text())
    with pytest.raises(CheckpointError, match="neither an index nor any"):
        run(tmp_path)
    with pytest.raises(ConfigError):
        run(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="does not exist"):
        run(tmp_path / "nowhere", config=MINI)


def test_a_report_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot be written"):
        run(MINI).write_json(tmp_path / "nowhere" / "report.json")


def test_the_dense_scale_block_may_be_another(tmp_path: Path) -> None:
    report = run(MINI, fp8_block=(128, 128))
    assert failed(report) == {"packing.fp8-blocks"}
    assert "expected blocks of 128x128" in evidence(report, "packing.fp8-blocks")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_spoilt_header_or_index_is_a_finding_or_a_shoal_error(data: st.DataObject, tmp_path: Path) -> None:
    path = Forged().write(tmp_path / "forged")
    file = path / data.draw(st.sampled_from([LAYER0, ENGRAM1, INDEX_NAME]))
    content = bytearray(file.read_bytes()[:20_000] if file.name != INDEX_NAME else file.read_bytes())
    header_nbytes = min(len(content), 12_000)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, header_nbytes - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(
                st.binary(max_size=3), st.sampled_from([b"-1", b"1e999", b"[[[[", b"null", b'"\\ud800"', b"9" * 25])
            )
        )
    file.write_bytes(bytes(content))
    for header_prefix in (False, True):
        try:
            report = run(path, header_prefix=header_prefix)
        except ShoalError:
            continue
        assert "\n".join(report.lines()).encode()
        assert "\n".join(report.tensor_lines("*")).encode()


def test_names_that_no_terminal_should_obey_are_escaped(tmp_path: Path) -> None:
    forged = Forged()
    forged.add("layers.0.\ud800\n\t\x1b[2J", "BF16", [2])
    report = run(forged.write(tmp_path / "forged"))
    assert failed(report) == {"inventory.full-set"}
    report.write_json(tmp_path / "report.json")
    [line] = report.tensor_lines("layers.0.?\n*")
    assert line.count("\t") == 4
    for text in (line, *report.lines()):
        assert text.replace("\t", "").isprintable()


# The bare command.


def test_it_runs_on_a_bare_interpreter() -> None:
    command = [sys.executable, "-S", "-m", "shoal.checkpoint.audit", str(MINI), "--require-complete"]
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("39/39 passed, 0 undecided, 0 failed; 1,568 of 1,568")


def test_the_bare_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    with pytest.raises(SystemExit) as end:
        main([str(MINI), "--expect-fp8-block", "0", "32"])
    assert end.value.code == 2
