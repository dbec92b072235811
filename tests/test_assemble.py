import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from direct_opens import refuse_direct_opens
from miniature import MINI
from shoal.assemble import MINIATURE, Assembled, LoadOptions, assemble
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.doctor.disk import Disk
from shoal.engine.request import Request
from shoal.engine.sampling_options import SamplingOptions
from shoal.errors import CheckpointError, ConfigError, OptionError, PromptError, TensorError, TokenizerError
from shoal.plan.kv_cache import KVCache
from shoal.plan.memory_split import Workload, split_by_default
from shoal.plan.page_layout import PAGE_TOKENS
from shoal.plan.size import parse_size
from shoal.plan.stored import count_stored
from shoal.weights.cached_experts import CachedExperts


@pytest.fixture(scope="module")
def plain() -> Iterator[Assembled]:
    with assemble(LoadOptions(MINI)) as assembled:
        yield assembled


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The miniature in links, to spoil."""
    for file in MINI.glob("*.*"):
        (tmp_path / file.name).symlink_to(file)
    return tmp_path


def rewrite(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.unlink()
    file.write_text(text.replace(old, new), encoding="utf-8")


def tokens(assembled: Assembled) -> list[int | None]:
    request = Request((0, 5), SamplingOptions(max_new_tokens=2))
    return [event.token_id for event in assembled.engine.stream(request)]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_without_a_checkpoint_it_is_the_built_in_miniature() -> None:
    with assemble(LoadOptions()) as assembled:
        assert assembled.checkpoint.directory == MINIATURE
        assert (assembled.config.n_layers, assembled.tokenizer.vocab_size) == (6, 1536)
        assert assembled.engine.eos_id == 1


def test_a_budget_for_experts_and_resident_tables_change_no_token_and_are_reported(plain: Assembled) -> None:
    with assemble(LoadOptions(MINI, expert_memory=200_000, resident_engram=True)) as other:
        assert tokens(other) == tokens(plain)
        experts = other.backbone.layers[0].moe.experts
        assert isinstance(experts, CachedExperts) and experts.statistics.misses > 0
        tables = plain.report.left_nbytes["Engram"]
        assert "Engram" not in other.report.left_nbytes
        assert other.report.nbytes["Engram"] == plain.report.nbytes["Engram"] + tables
        # Weight and scale of two tables.
        assert (other.report.read, other.report.left) == (plain.report.read + 4, plain.report.left - 4)


def test_a_control_group_that_grants_less_takes_experts_and_changes_no_token(
    plain: Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted, said = [1 << 60], list[str]()
    monkeypatch.setattr("shoal.assemble.granted_memory", lambda *_: granted[0])
    monkeypatch.setattr("shoal.weights.memory_watch.SECONDS", 0.0)
    with assemble(LoadOptions(MINI, expert_memory=200_000, notice=said.append)) as other:
        cached = other.expert_store.cached
        assert cached is not None and tokens(other) == tokens(plain)
        planned = cached.arena.num_slots
        assert planned > 1 and cached._slots.num_slots == planned
        granted[0] = other.budget.memory - cached.arena.nbytes
        assert tokens(other) == tokens(plain) and cached._slots.num_slots == 1
        assert [line for line in said if "control group" in line] and len(said) == 1
        granted[0] = 1 << 60
        assert tokens(other) == tokens(plain) and cached._slots.num_slots == planned


def test_the_smallest_budget_changes_no_token_and_less_is_refused(plain: Assembled) -> None:
    with pytest.raises(OptionError) as caught:
        assemble(LoadOptions(MINI, memory=1))
    smallest = parse_size(caught.value.message.rpartition("would do is ")[2])
    with assemble(LoadOptions(MINI, memory=smallest)) as other:
        assert other.expert_store.cached is not None
        assert other.engine.chunk_tokens == other.budget.chunk == 64
        assert tokens(other) == tokens(plain)
    with pytest.raises(OptionError, match="this does not fit"):
        assemble(LoadOptions(MINI, memory=smallest - (1 << 20)))


def test_a_kv_cache_for_few_tokens_ends_the_answer_and_refuses_a_longer_prompt() -> None:
    config = load_config(MINI)
    with assemble(LoadOptions(MINI, kv_memory=KVCache(config, 12).sequence_nbytes)) as assembled:
        room = assembled.budget.context
        assert room == PAGE_TOKENS < config.context_length
        prompt = tuple(range(3, room - 3))
        events = list(assembled.engine.stream(Request(prompt, SamplingOptions(max_new_tokens=100))))
        assert events[-1].finish_reason in ("context", "stop")
        with pytest.raises(PromptError, match="KV cache"):
            assembled.engine.stream(Request(tuple(range(3, 3 + room))))


@pytest.mark.parametrize("sequences", [1, 8])
def test_a_plan_foresees_the_budget_of_a_run(sequences: int) -> None:
    memory = parse_size("2GiB")
    plan = split_by_default(count_stored(load_config(MINI)), Workload(memory, 100, sequences))
    with assemble(LoadOptions(MINI, memory=memory, max_running=sequences)) as assembled:
        assert assembled.budget == plan.budget


@pytest.mark.parametrize("engram_memory", [0, 2000, 1 << 30])
def test_no_memory_for_engram_rows_changes_a_token(plain: Assembled, engram_memory: int) -> None:
    with assemble(LoadOptions(MINI, engram_memory=engram_memory)) as other:
        store = other.engram_store
        assert store is not None
        assert tokens(other) == tokens(other) == tokens(plain)
        assert store.statistics.rows > 0 and (store.statistics.hits > 0) == (engram_memory > 0)


def test_rows_of_a_sampled_token_are_requested_before_it_is_given_out() -> None:
    with assemble(LoadOptions(engram_memory=0)) as assembled:
        store = assembled.engram_store
        assert store is not None
        events = assembled.engine.stream(Request((0, 5), SamplingOptions(max_new_tokens=2)))
        next(events)
        # Two layers, for the prompt and for the token.
        assert store.readings == 4
        next(events)
        assert store.readings == 4


def test_a_closed_model_reads_no_rows() -> None:
    with assemble(LoadOptions()) as assembled:
        tokens(assembled)
        store = assembled.engram_store
    assert store is not None
    with pytest.raises(ValueError, match="closed"):
        store.request(1, [3000])


def test_the_tokenizer_says_the_end_of_sequence_where_the_config_does_not(copy: Path) -> None:
    rewrite(copy / "config.json", '"eos_token_id": 1,', "")
    with assemble(LoadOptions(copy)) as assembled:
        assert assembled.config.eos_token_id is None
        assert assembled.engine.eos_id == 1


@pytest.mark.parametrize(("arithmetic", "torchs"), [("native", 1), ("wide", 2)])
def test_threads_are_the_kernels_or_torchs(arithmetic: str, torchs: int) -> None:
    before = torch.get_num_threads()
    try:
        with assemble(LoadOptions(MINI, arithmetic=arithmetic, threads=2)) as assembled:
            assert torch.get_num_threads() == torchs
            kernels = assembled.backbone.arithmetic.kernels
            assert (kernels.native.threads if kernels is not None else 1) == (2 if arithmetic == "native" else 1)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("resident", [False, True])
def test_progress_ends_at_the_total(resident: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    really = os.preadv
    monkeypatch.setattr("shoal.checkpoint.direct_file.PIECE_NBYTES", 32_768)
    monkeypatch.setattr("shoal.weights.read_ahead.TICK_SECONDS", 0.001)
    monkeypatch.setattr(os, "preadv", lambda *given: (time.sleep(0.01), really(*given))[1])
    calls: list[tuple[int, int]] = []
    options = LoadOptions(MINI, resident_engram=resident, progress=lambda done, total: calls.append((done, total)))
    with assemble(options) as assembled:
        total = sum(assembled.report.nbytes.values())
    assert calls[-1] == (total, total)
    # Within a table too, which is 94 GiB in the release.
    assert calls[0][0] <= 200_000
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_shards_in_another_directory_are_loaded_and_change_no_token(
    plain: Assembled, copy: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    for path in sorted(copy.glob("*.safetensors"))[::2]:
        path.rename(other / path.name)
    with pytest.raises(CheckpointError, match="lacks 9 of 18 shards"):
        assemble(LoadOptions(copy))
    with assemble(LoadOptions(copy, also=(other,), expert_memory=200_000)) as assembled:
        assert tokens(assembled) == tokens(plain)


def test_more_shards_need_a_checkpoint_to_be_added_to(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="`also` adds to a checkpoint, expected `checkpoint` with it"):
        LoadOptions(also=(tmp_path,))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Disk("/m", "nfs4", None, None), "is on nfs4: every read crosses the network; expect less than a local NVMe"),
        (Disk("/m", "fuse.sshfs", None, None), "is on fuse.sshfs: every read passes through a program (FUSE); expect"),
        (Disk("/m", "ext4", "nvme0n1", False), None),
    ],
)
def test_a_directory_on_a_slow_file_system_is_named(
    found: Disk, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.assemble.read_disk", lambda *_: found)
    notices = list[str]()
    with assemble(LoadOptions(MINI, notice=notices.append)):
        pass
    told = [notice for notice in notices if " is on " in notice]
    assert len(told) == (0 if said is None else 1)
    assert all(notice.startswith(f"`{MINI.resolve()}` {said}") for notice in told)


def test_a_directory_without_o_direct_is_named_once_by_whatever_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_direct_opens(monkeypatch)
    notices = list[str]()
    with assemble(LoadOptions(MINI, notice=notices.append, expert_memory=200_000, resident_engram=True)) as assembled:
        tokens(assembled)
    assert [notice for notice in notices if "O_DIRECT" in notice] == [
        f"`{MINI}` cannot be read past the page cache (O_DIRECT: Invalid argument): "
        "it is read through it, which is slower"
    ]


def test_the_token_map_is_kept_where_one_says(tmp_path: Path) -> None:
    with assemble(LoadOptions(MINI, cache_directory=tmp_path / "cache")):
        assert len(list((tmp_path / "cache").iterdir())) == 1


@pytest.mark.parametrize("options", [{"expert_memory": 0}, {"threads": -2}, {"prefill_chunk": 0}])
def test_an_option_out_of_range_is_refused(options: dict[str, int]) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(OptionError, match=f"`{name}` is {value}, expected 1 or more"):
        LoadOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engram_memory": -1}, "`engram_memory` is -1, expected 0 or more bytes"),
        ({"engram_memory": 5, "resident_engram": True}, "expected no `engram_memory` with it"),
    ],
)
def test_memory_for_engram_rows_must_make_sense(options: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        LoadOptions(**options)


def test_an_unknown_arithmetic_is_refused() -> None:
    with pytest.raises(OptionError, match="`exact` is not one of native, wide, release"):
        assemble(LoadOptions(arithmetic="exact"))


def test_a_config_that_contradicts_itself_is_refused_and_says_how(copy: Path) -> None:
    rewrite(copy / "config.json", '"num_attention_heads": 8', '"num_attention_heads": 6')
    with pytest.raises(ConfigError, match=r"contradicts itself: `n_heads` is 6") as caught:
        assemble(LoadOptions(copy))
    assert caught.value.hint and "shoal config" in caught.value.hint


def test_the_tokenizer_must_have_the_configs_vocabulary(copy: Path) -> None:
    (copy / "tokenizer.json").unlink()
    with pytest.raises(TokenizerError, match="there is no tokenizer"):
        assemble(LoadOptions(copy))


@pytest.mark.parametrize("resident", [False, True])
def test_what_fails_to_load_leaves_no_file_open(copy: Path, resident: bool) -> None:
    with Checkpoint.open(MINI) as checkpoint:
        entry = checkpoint.entry("layers.0.attn.wq_a.scale")
    content = bytearray(entry.path.read_bytes())
    content[entry.start] = 255
    (copy / entry.path.name).unlink()
    (copy / entry.path.name).write_bytes(content)
    before = open_files()
    with pytest.raises(TensorError, match="is NaN"):
        assemble(LoadOptions(copy, resident_engram=resident))
    assert open_files() == before


def test_a_tensor_too_few_is_found_before_the_tables_are_read(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(copy / "model.safetensors.index.json", '"norm.weight": "model-00013-of-00018.safetensors",', "")
    monkeypatch.setattr("shoal.assemble.ResidentEngramRows", lambda *_: pytest.fail("the tables were read"))
    with pytest.raises(TensorError, match=r"`norm.weight` missing"):
        assemble(LoadOptions(copy, resident_engram=True))
