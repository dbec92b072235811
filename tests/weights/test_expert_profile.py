from pathlib import Path

import pytest

from shoal.errors import OptionError
from shoal.weights.expert_profile import KIND, ExpertProfile

KEYS = [(layer_id, expert_id) for layer_id in range(2) for expert_id in range(4)]


def visited(*steps: tuple[int, list[int]]) -> ExpertProfile:
    profile = ExpertProfile()
    for layer_id, expert_ids in steps:
        profile.visit(layer_id, expert_ids)
    return profile


def test_the_hottest_are_those_with_the_most_visits_a_step() -> None:
    profile = visited((0, [1, 2]), (0, [2]), (0, [2, 3]), (1, [3]))
    assert profile.hottest() == [(0, 2), (1, 3), (0, 1), (0, 3)]
    assert profile.decayed_counts(100)[0, 1] == pytest.approx(100 / 3 * 1.4427)


def test_runs_add_up(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    assert ExpertProfile.load(file, KEYS).hottest() == []
    for expert_id, hottest in ((1, [(0, 1)]), (2, [(0, 1), (0, 2)]), (2, [(0, 2), (0, 1)])):
        profile = ExpertProfile.load(file, KEYS)
        profile.visit(0, [expert_id])
        profile.save(file)
        assert profile.hottest() == ExpertProfile.load(file, KEYS).hottest() == hottest


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("{", "cannot read the expert profile"),
        ("\xff", "cannot read the expert profile"),
        ("[" * 100_000, "cannot read the expert profile"),
        ("{}", "is no expert profile"),
        ("[1]", "is no expert profile"),
        (f'{{"kind": "{KIND}"}}', "is damaged"),
        (f'{{"kind": "{KIND}", "layers": []}}', "is damaged"),
        (f'{{"kind": "{KIND}", "layers": {{"a": {{"steps": 1, "visits": {{}}}}}}}}', "is damaged"),
        (f'{{"kind": "{KIND}", "layers": {{"0": {{"steps": 1, "visits": {{"0": 2}}}}}}}}', "is damaged"),
        (
            f'{{"kind": "{KIND}", "layers": {{"0": {{"steps": 1, "visits": {{"9": 1}}}}}}}}',
            "expert 9 of layer 0, which",
        ),
    ],
)
def test_what_is_no_profile_of_this_checkpoint_is_named(tmp_path: Path, content: str, found: str) -> None:
    file = tmp_path / "profile.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(OptionError, match=found) as caught:
        ExpertProfile.load(file, KEYS)
    assert str(file) in caught.value.message and caught.value.hint
