"""A comparison of two traces for a person: the first difference, then a table of the layers."""

from collections.abc import Iterator

from shoal.checkpoint.json_object import quoted
from shoal.tracing.compare import Comparison, Difference
from shoal.tracing.order import ParsedName, parse_name

SUBLAYERS = ("attn_out", "ffn_out", "stream_out")
SETS = {"router.indices": "router", "topk": "picks"}
SHOWN_NAMES = 8
_CELL = 25


def report_lines(comparison: Comparison, name_a: str, name_b: str) -> Iterator[str]:
    """The comparison in lines of text. A table cell says L2 relative, largest difference, share of elements."""
    yield _verdict(comparison)
    yield from _table(comparison)
    for name, names in ((name_a, comparison.only_in_a), (name_b, comparison.only_in_b)):
        if names:
            more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
            listed = ", ".join(quoted(odd) for odd in names[:SHOWN_NAMES])
            yield f"only in {quoted(name)}: {len(names)} tensors: {listed}{more}"


def _verdict(comparison: Comparison) -> str:
    total, first = len(comparison.compared), comparison.first
    if not total:
        return "no tensor is in both"
    if first is None:
        return f"identical: {total} tensors"
    differing = sum(not difference.is_same for difference in comparison.compared)
    return f"{differing} of {total} tensors differ, first {_described(first)}"


def _described(difference: Difference) -> str:
    found, name = difference.distance, quoted(difference.name)
    if found is None:
        return f"{name}: shape {list(difference.shapes[0])} against {list(difference.shapes[1])}"
    rows = f"{difference.rows} of {difference.num_rows} rows"
    return f"{name}: L2 {found.relative:.2e}, largest {found.largest:.2e}, {found.share:.2%} of elements, {rows}"


def _table(comparison: Comparison) -> Iterator[str]:
    parsed = {parse_name(difference.name): difference for difference in comparison.compared}
    columns = (*SUBLAYERS, *SETS)
    layers = sorted(
        {
            (-1 if name.step is None else name.step, name.layer)
            for name in parsed
            if name.layer is not None and name.part in columns
        }
    )
    if not layers:
        return
    yield ""
    yield "L2 relative / largest / share; rows with another set"
    yield " ".join(["layer".ljust(8), *(part.ljust(_CELL) for part in SUBLAYERS), *(f"{s:10}" for s in SETS.values())])
    for step, layer in layers:
        label = f"L{layer}" if step < 0 else f"s{step}.L{layer}"
        of_layer = {
            part: parsed.get(ParsedName(None if step < 0 else step, layer, part, is_cache=False)) for part in columns
        }
        cells = [_cell(of_layer[part]).ljust(_CELL) for part in SUBLAYERS]
        cells += [_rows(of_layer[part]).ljust(10) for part in SETS]
        yield " ".join([label.ljust(8), *cells]).rstrip()


def _cell(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    found = difference.distance
    if found is None:
        return "shapes differ"
    return "same" if found.is_zero else f"{found.relative:.1e} {found.largest:.1e} {found.share:.1%}"


def _rows(difference: Difference | None) -> str:
    if difference is None:
        return "-"
    return "same" if difference.is_same else f"{difference.rows}/{difference.num_rows}"
