"""Rows for a person and for a program."""

import json
from dataclasses import replace

from shoal.bench.machine import describe_machine
from shoal.bench.result import Report, Result, Skipped

ROW = Result("moe_step_1", 0.0075, 112_803_840, 0.81, 0.81, "of the probe", 14, 1, False, {"probe_gb_per_second": 18.5})


def report(*results: Result) -> Report:
    machine = describe_machine("avx2", 2).with_probe(18.5e9, 19e9)
    return Report(machine, results, [Skipped("moe_step_1_avxvnni", "this machine has no `avxvnni`")])


def test_the_json_names_machine_and_figures() -> None:
    content = json.loads(json.dumps(report(ROW).as_dict()))
    assert set(content) == {"machine", "results", "skipped"}
    machine, (row,) = content["machine"], content["results"]
    assert (machine["isa"], machine["threads"], machine["probe_gb_per_second"]) == ("avx2", 2, 18.5)
    assert machine["processor"]
    assert row["name"] == "moe_step_1"
    assert (row["seconds"], row["bytes"], row["ratio"], row["unit"]) == (0.0075, 112_803_840, 0.81, "of the probe")
    assert row["probe_gb_per_second"] == 18.5


def test_the_table_has_a_line_for_each_figure_and_each_reason() -> None:
    lines = list(report(ROW, replace(ROW, name="head", contended=True)).lines())
    assert "probe 18.50 GB/s (best 19.00)" in lines[0]
    assert " ".join(lines[2].split()) == "moe_step_1 7.500 15.04 0.810 0.81 of the probe 14, 1 dropped"
    assert lines[3].endswith("contended")
    assert lines[4] == "not measured: moe_step_1_avxvnni: this machine has no `avxvnni`"


def test_a_note_ends_its_line() -> None:
    assert list(report(replace(ROW, note="75% hit")).lines())[2].endswith("14, 1 dropped; 75% hit")


def test_a_machine_without_figures_is_a_line() -> None:
    assert len(list(Report(describe_machine("avx2", 1), []).lines())) == 1
