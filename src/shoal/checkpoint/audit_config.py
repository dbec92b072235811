"""The audit's checks of the configuration alone: the rules of `config.checks`, and the Engram sizes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.checkpoint.audit_check import ModelCheck
from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_expected import Expected
from shoal.checkpoint.audit_outcome import Outcome, judge
from shoal.config.checks import RULES
from shoal.config.engram_rows import check_rows
from shoal.config.json_file import read_json_object
from shoal.config.layer_checks import Rule
from shoal.config.layouts import parse_config, resolve_config, spelling
from shoal.config.schema import REQUIRED_FIELDS, ModelConfig
from shoal.errors import ConfigError, EngramError

REQUIRED_KEYS = ("config.required-keys", "every required key is present, with a value Shoal can run")
_RULES = {rule.rule_id: rule for rule in RULES}
# Together with the required keys, the twelve facts by which a config and its tensors are told apart.
_JUDGED_ALONE = (
    "ratio-list", "draft-ratios", "kv-sources", "sources-compress", "index-keys", "candidate-source",
    "draft-targets", "engram-sizes", "engram-layers", "compressed-vocabulary", "token-ids",
)  # fmt: skip
_JUDGED_WITH = {"ratio-list": ("ratios",), "index-keys": ("layer-sources",)}
_JUDGED_WITH_THE_KEYS = tuple(
    rule
    for rule_id, rule in _RULES.items()
    if rule_id not in _JUDGED_ALONE and not any(rule_id in others for others in _JUDGED_WITH.values())
)


@dataclass(frozen=True)
class StatedConfig:
    """The configuration of `path`; None when keys are missing, and then what the first check says."""

    path: Path
    config: ModelConfig | None
    problem: str | None


def read_stated(path: Path) -> StatedConfig:
    """The configuration of a file or checkpoint directory. Missing keys are a finding, not an error.

    Raises ConfigError for whatever else cannot be read.
    """
    file = resolve_config(path)
    mapping = read_json_object(file.path)
    try:
        return StatedConfig(file.path, parse_config(mapping, file.path), None)
    except ConfigError as error:
        paths = [spelling(name, file.layout) for name in REQUIRED_FIELDS]
        if all(path is not None and _states(mapping, path) for path in paths):
            raise
        return StatedConfig(file.path, None, error.message)


def required_keys(stated: StatedConfig) -> Outcome:
    """Whether every key is there; the rules no other check judges are judged here."""
    if stated.config is None:
        return judge([stated.problem or "a required key is absent"])
    return judge(_problems(_JUDGED_WITH_THE_KEYS, stated.config))


def engram_rows(disk: Disk, expected: Expected) -> Outcome:
    """Declared rows against the prime sums (spec §6.1)."""
    try:
        check_rows(expected.config)
    except EngramError as error:
        return judge([error.message])
    return judge(())


def _problems(rules: tuple[Rule, ...], config: ModelConfig) -> Iterator[str]:
    for rule in rules:
        yield from rule.find(config)


def _states(mapping: Mapping[str, object], path: str) -> bool:
    value: object = mapping
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def _check(rule_id: str) -> ModelCheck:
    rules = (_RULES[rule_id], *(_RULES[other] for other in _JUDGED_WITH.get(rule_id, ())))

    def decide(disk: Disk, expected: Expected) -> Outcome:
        return judge(_problems(rules, expected.config))

    return ModelCheck(f"config.{rule_id}", rules[0].claim, decide)


CONFIG_CHECKS = tuple(_check(rule_id) for rule_id in _JUDGED_ALONE)
"""All but the first of the twelve, which must be decided before there is anything `Expected`."""
ENGRAM_ROWS = ModelCheck(
    "engram.rows", "declared Engram rows are the derived buckets, neither smaller nor larger", engram_rows
)
