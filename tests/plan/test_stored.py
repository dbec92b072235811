"""The sizes that the specification derives (spec §2.3), met to the byte."""

from pathlib import Path

import pytest

from miniature import MINI
from shoal.checkpoint.inventory import ATTENTION, LAYER, ROUTED, SHARED, VISION
from shoal.checkpoint.shards import Checkpoint
from shoal.config.layouts import load_config
from shoal.plan.size import GIB
from shoal.plan.stored import (
    DRAFT_LAYERS,
    EMBEDDING_TABLE,
    ENGRAM_PROJECTIONS,
    ENGRAM_TABLES,
    HEAD,
    READ_PER_TOKEN,
    Stored,
    count_stored,
)

RELEASE = Path(__file__).parents[1] / "data" / "release"


def test_every_tensor_of_the_release_is_counted(release: Stored) -> None:
    assert (release.num_tensors, release.total) == (96_085, 510_286_023_000)


def test_one_expert_and_one_row_have_the_released_sizes(release: Stored) -> None:
    assert (release.expert_nbytes, release.num_experts) == (18_800_640, 15_360)
    assert (release.engram_row_nbytes, release.num_engram_rows) == (264, 768_022_850)
    assert release.nbytes[ROUTED] == release.expert_nbytes * release.num_experts
    assert release.nbytes[ENGRAM_TABLES] == 202_758_032_400


@pytest.mark.parametrize(
    ("kind", "gigabytes"),
    [
        (ATTENTION, 5.15),
        (SHARED, 1.42),
        (HEAD, 1.32),
        (ENGRAM_PROJECTIONS, 0.32),
        (LAYER, 0.315),
        (EMBEDDING_TABLE, 1.32),
    ],
)
def test_dense_classes_have_the_released_sizes(release: Stored, kind: str, gigabytes: float) -> None:
    assert release.nbytes[kind] / 1e9 == pytest.approx(gigabytes, abs=0.005)


def test_a_token_reads_8_5_gb_of_dense_weights(release: Stored) -> None:
    assert sum(release.nbytes[kind] for kind in READ_PER_TOKEN) / 1e9 == pytest.approx(8.52, abs=0.01)


def test_what_is_loaded_only_when_used_has_the_released_sizes(release: Stored) -> None:
    assert release.nbytes[DRAFT_LAYERS] / GIB == pytest.approx(7.39, abs=0.005)
    assert release.nbytes[VISION] / GIB == pytest.approx(0.90, abs=0.005)


def test_16_billion_parameters_act_on_a_token_with_the_head(release: Stored) -> None:
    # spec §2.3: 40 x 0.377 B + head 0.66 B + Engram projection 0.31 B
    assert (release.active_parameters + release.parameters[HEAD]) / 1e9 == pytest.approx(16.1, abs=0.1)


def test_the_classes_of_the_miniature_are_those_of_its_shards(miniature: Stored) -> None:
    with Checkpoint.open(MINI) as checkpoint:
        names = checkpoint.names()
        found = sum(checkpoint.nbytes(name) for name in names)
        drafts = sum(checkpoint.nbytes(name) for name in names if name.startswith("mtp."))
    assert (miniature.total, miniature.num_tensors) == (found, len(names))
    assert miniature.nbytes[DRAFT_LAYERS] == drafts


def test_both_files_of_the_configuration_count_alike(release: Stored) -> None:
    flat = count_stored(load_config(RELEASE / "inference" / "config.json"))
    assert (flat.nbytes, flat.parameters) == (release.nbytes, release.parameters)
