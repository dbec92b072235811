import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miniature import MINI
from shoal.config.layouts import layout_of, load_config, parse_config, resolve_config, spelling
from shoal.config.schema import NESTED_ONLY_FIELDS, REQUIRED_FIELDS
from shoal.errors import ConfigError

TESTS = Path(__file__).parent.parent
RELEASE = TESTS / "data" / "release"
MODELS = [pytest.param(RELEASE, id="release"), pytest.param(MINI, id="miniature")]

Json = dict[str, Any]


def read(path: Path) -> Json:
    content: Json = json.loads(path.read_text())
    return content


NESTED = read(RELEASE / "config.json")
FLAT = read(RELEASE / "inference" / "config.json")


def with_value(content: Json, path: str, value: object) -> Json:
    """A copy of `content` that says `value` at a dotted path."""
    changed = copy.deepcopy(content)
    *sections, key = path.split(".")
    inner = changed
    for section in sections:
        inner = inner[section]
    inner[key] = value
    return changed


def without(content: Json, path: str) -> Json:
    changed = with_value(content, path, None)
    *sections, key = path.split(".")
    inner = changed
    for section in sections:
        inner = inner[section]
    del inner[key]
    return changed


def nested_path(field: str) -> str:
    path = spelling(field, "nested")
    assert path is not None
    return path


def message_of(content: object, where: str = "F") -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(content, where)  # type: ignore[arg-type]
    return caught.value.message


@pytest.mark.parametrize("directory", MODELS)
def test_the_nested_file_reproduces_the_flat_one_exactly(directory: Path) -> None:
    reference = read(directory / "inference" / "config.json")
    values = load_config(directory / "config.json").as_reference_dict()
    assert len(values) == 64
    # As text, so that 10000 is not 10000.0 and a list is not a tuple.
    assert json.dumps(values, sort_keys=True) == json.dumps(reference, sort_keys=True)


@pytest.mark.parametrize("directory", MODELS)
def test_the_flat_file_round_trips(directory: Path) -> None:
    reference = read(directory / "inference" / "config.json")
    values = load_config(directory / "inference" / "config.json").as_reference_dict()
    assert json.dumps(values, sort_keys=True) == json.dumps(reference, sort_keys=True)
    again = parse_config(values, "again")
    assert again.as_reference_dict() == values


def test_the_reference_dict_has_the_released_order() -> None:
    assert list(load_config(RELEASE).as_reference_dict()) == list(FLAT)


@pytest.mark.parametrize("directory", MODELS)
def test_the_two_files_differ_in_the_twelve_fields_only_the_nested_one_states(directory: Path) -> None:
    nested, flat = load_config(directory), load_config(directory / "inference")
    difference = nested.differs_from(flat)
    assert set(difference) == {
        "num_key_value_heads", "rope_type", "max_position_embeddings", "norm_topk_prob", "topk_method",
        "hidden_act", "storage_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "weight_block_size",
        "scale_fmt",
    }  # fmt: skip
    assert all(stated is not None and unstated is None for stated, unstated in difference.values())
    assert set(difference) == set(NESTED_ONLY_FIELDS)


def test_dtype_is_the_weight_format_in_one_file_and_the_storage_dtype_in_the_other() -> None:
    nested, flat = load_config(RELEASE), load_config(RELEASE / "inference")
    assert (nested.dtype, nested.storage_dtype) == ("fp8", "bfloat16")
    assert (flat.dtype, flat.storage_dtype) == ("fp8", None)


def test_the_released_nested_only_values_are_read() -> None:
    config = load_config(RELEASE)
    assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == (0, 1, 2)
    assert (config.rope_type, config.hidden_act, config.topk_method) == ("yarn", "silu", "noaux_tc")
    assert config.norm_topk_prob is True
    assert (config.weight_block_size, config.scale_fmt) == ((32, 32), "ue8m0")
    assert (config.num_key_value_heads, config.max_position_embeddings) == (1, 1048576)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(REQUIRED_FIELDS), st.sampled_from(["nested", "flat"]))
def test_a_dropped_required_key_is_the_one_that_is_named(field: str, layout: str) -> None:
    path, content = (nested_path(field), NESTED) if layout == "nested" else (field, FLAT)
    assert message_of(without(content, path)) == f"`F` ({layout} layout) lacks 1 required key: `{path}`"


@settings(deadline=None)
@given(st.sets(st.sampled_from(REQUIRED_FIELDS), min_size=2, max_size=8))
def test_every_absent_key_is_named_in_one_error(dropped: set[str]) -> None:
    content = {key: value for key, value in FLAT.items() if key not in dropped}
    listed = ", ".join(f"`{field}`" for field in REQUIRED_FIELDS if field in dropped)
    assert message_of(content) == f"`F` (flat layout) lacks {len(dropped)} required keys: {listed}"


@pytest.mark.parametrize("section", ["text_config", "vision_config", "quantization_config"])
def test_an_absent_section_names_every_key_it_should_hold(section: str) -> None:
    message = message_of({key: value for key, value in NESTED.items() if key != section})
    wanted = [nested_path(field) for field in REQUIRED_FIELDS]
    assert all(f"`{path}`" in message for path in wanted if path.startswith(f"{section}."))


def test_an_absent_rope_scaling_names_the_yarn_keys() -> None:
    message = message_of(without(NESTED, "text_config.rope_scaling"))
    assert "lacks 4 required keys" in message
    assert "`text_config.rope_scaling.original_max_position_embeddings`" in message


def test_a_null_ratio_is_a_stated_value_and_an_absent_one_is_not() -> None:
    assert parse_config(FLAT, "F").vision_max_wh_ratio is None
    assert parse_config(with_value(FLAT, "vision_max_wh_ratio", 3.5), "F").vision_max_wh_ratio == 3.5
    assert "`vision_max_wh_ratio`" in message_of(without(FLAT, "vision_max_wh_ratio"))


@pytest.mark.parametrize("field", [name for name in REQUIRED_FIELDS if name != "vision_max_wh_ratio"])
def test_null_is_not_a_value_of_any_other_key(field: str) -> None:
    assert message_of(with_value(FLAT, field, None)).startswith(f"`{field}` is null in `F`, wanted ")


def test_unknown_keys_are_ignored_in_both_layouts() -> None:
    plain = parse_config(NESTED, "F")
    content = with_value(NESTED, "text_config.something_new", [1, {"a": None}])
    content = content | {"auto_map": {}, "text_config.vocab_size": "not a path"}
    assert parse_config(content, "F") == plain
    content = FLAT | {"vision_config": 5, "max_seq_len": "any", "max_batch_size": 4, "temperature": 0}
    assert parse_config(content, "F").as_reference_dict() == FLAT


def test_a_key_with_a_dot_does_not_stand_for_an_absent_one() -> None:
    content = without(NESTED, "text_config.vocab_size") | {"text_config.vocab_size": 129280}
    assert "lacks 1 required key: `text_config.vocab_size`" in message_of(content)


def test_the_older_rope_type_is_read() -> None:
    older = without(NESTED, "text_config.rope_scaling.rope_type")
    assert parse_config(older, "F").rope_type is None
    older = with_value(older, "text_config.rope_scaling.type", "yarn")
    assert parse_config(older, "F").rope_type == "yarn"


def test_both_rope_types_must_agree() -> None:
    both = with_value(NESTED, "text_config.rope_scaling.type", "yarn")
    assert parse_config(both, "F").rope_type == "yarn"
    message = message_of(with_value(both, "text_config.rope_scaling.type", "linear"))
    assert 'rope_type` is "yarn"' in message
    assert 'rope_scaling.type` is "linear"' in message


@pytest.mark.parametrize("value", [10000, 10000.0])
def test_a_number_keeps_the_type_the_file_gives_it(value: float) -> None:
    found = parse_config(with_value(NESTED, "text_config.rope_theta", value), "F").rope_theta
    assert (found, type(found)) == (value, type(value))


def test_a_flat_file_may_state_that_weights_are_normalised() -> None:
    assert parse_config(FLAT | {"norm_topk_prob": False}, "F").norm_topk_prob is False


INTEGER, NUMBER = "an integer from 0 to 2^63", "a finite number from 0 to 2^63"


@pytest.mark.parametrize(
    ("path", "found", "shown", "wanted"),
    [
        ("vocab_size", "5", '"5"', INTEGER),
        ("vocab_size", True, "true", INTEGER),
        ("vocab_size", 1.5, "1.5", INTEGER),
        ("vocab_size", 129280.0, "129280.0", INTEGER),
        ("vocab_size", -1, "-1", INTEGER),
        ("vocab_size", 2**63, "9223372036854775808", INTEGER),
        ("vocab_size", 10**4000, "an integer of more than 40 digits", INTEGER),
        ("vocab_size", [1], "a list of 1", INTEGER),
        ("candidate_source_layer", -(2**64), "-18446744073709551616", "an integer from -2^63 to 2^63"),
        ("rope_theta", False, "false", NUMBER),
        ("rope_theta", -1.0, "-1.0", NUMBER),
        ("rope_theta", float("nan"), "NaN", NUMBER),
        ("rope_theta", float("inf"), "Infinity", NUMBER),
        ("rope_theta", {"a": 1}, "an object", NUMBER),
        ("vision_max_wh_ratio", "2", '"2"', NUMBER),
        ("score_func", 1, "1", "a string"),
        ("norm_topk_prob", 1, "1", "true or false"),
        ("compress_ratios", 3, "3", "a list of integers"),
        ("kv_source_layers", "28", '"28"', "a list of integers"),
    ],
)
def test_a_wrong_type_names_key_file_found_and_wanted(path: str, found: object, shown: str, wanted: str) -> None:
    assert message_of(with_value(FLAT, path, found)) == f"`{path}` is {shown} in `F`, wanted {wanted}"


def test_a_wrong_list_item_is_named_by_its_place() -> None:
    content = with_value(NESTED, "text_config.compress_ratios", [0, 0, "2"])
    wanted = f'`text_config.compress_ratios[2]` is "2" in `F`, wanted {INTEGER}'
    assert message_of(content) == wanted


def test_a_negative_candidate_source_is_read() -> None:
    assert not parse_config(FLAT | {"candidate_source_layer": -1}, "F").has_candidates


@pytest.mark.parametrize("section", ["text_config", "vision_config", "text_config.rope_scaling"])
@pytest.mark.parametrize("value", [None, [], 3])
def test_a_section_that_is_not_an_object_is_named(section: str, value: object) -> None:
    message = message_of(with_value(NESTED, section, value))
    assert message.startswith(f"`{section}` is ")
    assert message.endswith(" in `F`, wanted an object")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"model_type": "deepseek_v3", "hidden_size": 7168}, '`model_type` is "deepseek_v3"'),
        ({"model_type": "llava", "text_config": None}, '`model_type` is "llava"'),
        (with_value(NESTED, "text_config.model_type", "deepseek_v32"), '"deepseek_v32"'),
        (with_value(NESTED, "vision_config.model_type", "siglip"), '"siglip"'),
        ({"model_type": 3}, "`model_type` is 3"),
    ],
)
def test_another_model_is_called_by_its_name(content: Json, named: str) -> None:
    message = message_of(content)
    assert message.startswith("`F` describes another model: ")
    assert named in message
    assert 'wanted "deepseek_v41' in message


@pytest.mark.parametrize(
    ("path", "value", "supported"),
    [
        ("text_config.tie_word_embeddings", True, False),
        ("tie_word_embeddings", True, False),
        ("tie_word_embeddings", 0, False),
        ("text_config.attention_bias", True, False),
        ("text_config.gate_temp", 0.5, 1.0),
        ("text_config.gate_temp", True, 1.0),
        ("quantization_config.activation_scheme", "static", "dynamic"),
    ],
)
def test_semantics_nobody_specified_are_refused_by_name(path: str, value: object, supported: object) -> None:
    message = message_of(with_value(NESTED, path, value))
    assert message == (
        f"`{path}` is {json.dumps(value)} in `F`, wanted {json.dumps(supported)}: nothing else is supported"
    )
    assert parse_config(with_value(NESTED, path, supported), "F") == parse_config(NESTED, "F")


def test_a_flat_router_temperature_other_than_one_is_refused() -> None:
    assert parse_config(FLAT | {"gate_temp": 1}, "F") == parse_config(FLAT, "F")
    assert message_of(FLAT | {"gate_temp": 0.7}).startswith("`gate_temp` is 0.7 in `F`")


def test_a_directory_prefers_the_nested_file(tmp_path: Path) -> None:
    (tmp_path / "inference").mkdir()
    flat = tmp_path / "inference" / "config.json"
    flat.write_text(json.dumps(FLAT))
    assert resolve_config(tmp_path).path == flat
    assert resolve_config(tmp_path).layout == "flat"
    (tmp_path / "config.json").write_text(json.dumps(NESTED))
    assert resolve_config(tmp_path).path == tmp_path / "config.json"
    assert resolve_config(str(tmp_path)).layout == "nested"
    (tmp_path / "config.json").write_text(json.dumps(FLAT | {"dim": 64}))
    assert resolve_config(tmp_path).layout == "flat"
    assert load_config(tmp_path).dim == 64


def test_a_dangling_link_is_an_error_not_a_reason_to_read_another_file(tmp_path: Path) -> None:
    (tmp_path / "inference").mkdir()
    (tmp_path / "inference" / "config.json").write_text(json.dumps(FLAT))
    (tmp_path / "config.json").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match=r"config\.json`: No such file"):
        load_config(tmp_path)


def test_a_directory_without_a_config_says_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    wanted = Path("inference", "config.json")
    assert caught.value.message == (f"`{tmp_path}` holds neither `config.json` nor `{wanted}`, wanted one of them")


@pytest.mark.parametrize("name", ["absent", "x" * 5000, "a\0b"])
def test_a_path_that_cannot_be_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot read `"):
        load_config(tmp_path / name)


def test_a_non_ascii_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "Gewässer 深い.json"
    path.write_text(json.dumps(FLAT))
    assert load_config(path).dim == 5120


def test_the_layout_of_a_flat_file_survives_an_added_model_type() -> None:
    assert layout_of(FLAT | {"model_type": "deepseek_v41"}) == "flat"
    assert layout_of({"model_type": "deepseek_v41"}) == "nested"
    assert layout_of(NESTED) == "nested"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*NESTED, *FLAT]), JSON, max_size=12), st.booleans())
def test_random_json_raises_nothing_but_a_config_error(changes: Json, nested: bool) -> None:
    content = (NESTED if nested else FLAT) | changes
    try:
        parse_config(content, "F").verify()
    except ConfigError as error:
        assert "`F`" in error.message


def paths(content: Json, prefix: str = "") -> Iterator[str]:
    for key, value in content.items():
        yield prefix + key
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{key}.")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(list(paths(NESTED))), JSON)
def test_one_random_value_is_read_or_named(path: str, value: object) -> None:
    try:
        parse_config(with_value(NESTED, path, value), "F").verify()
    except ConfigError as error:
        assert f"`{path}" in error.message
