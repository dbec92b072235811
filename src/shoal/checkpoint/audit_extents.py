"""The audit's checks of the headers by themselves: sizes, places, scale pairs, and the index's word."""

from collections.abc import Iterator

from shoal.checkpoint.audit_check import DiskCheck
from shoal.checkpoint.audit_disk import Disk
from shoal.checkpoint.audit_outcome import Outcome, judge
from shoal.checkpoint.directory import SCALE, WEIGHT
from shoal.checkpoint.header import TensorEntry
from shoal.checkpoint.json_object import quoted, shown
from shoal.checkpoint.raw_header import RawHeader, stated_nbytes

_FP4_PER_BYTE = 2


def _non_zero(disk: Disk) -> Outcome:
    return judge(problem for header in disk.headers.values() for problem in _empty(header))


def _empty(header: RawHeader) -> Iterator[str]:
    if not header.tensors:
        yield f"{quoted(header.name)} holds no tensor, expected some"
    for entry in header.tensors.values():
        if 0 in entry.shape or entry.nbytes == 0:
            yield f"{quoted(entry.name)} is {entry.dtype} {shown(entry.shape)} in {quoted(header.name)}: no bytes"


def _extents(disk: Disk) -> Outcome:
    return judge(problem for header in disk.headers.values() for problem in _misfits(header))


def _misfits(header: RawHeader) -> Iterator[str]:
    for entry in header.tensors.values():
        wanted = stated_nbytes(entry)
        if entry.nbytes != wanted:
            found = f"{quoted(entry.name)} is {entry.dtype} {shown(entry.shape)} in {entry.nbytes:,} bytes"
            need = "a whole number of bytes" if wanted is None else f"{wanted:,}"
            yield f"{found} of {quoted(header.name)}, expected {need}"


def _tiling(disk: Disk) -> Outcome:
    headers = disk.headers.values()
    return judge(problem for header in headers for problem in _untiled(header, disk.are_prefixes))


def _untiled(header: RawHeader, is_prefix: bool) -> Iterator[str]:
    """Where the tensors do not follow each other from the payload's first byte to the file's last."""
    end, before = header.payload_start, "the header"
    for entry in sorted(header.tensors.values(), key=lambda entry: (entry.start, entry.end)):
        if entry.start != end:
            kind = "a gap" if entry.start > end else "an overlap"
            found = f"{quoted(entry.name)} starts at byte {entry.start:,} of {quoted(header.name)}"
            yield f"{found}, expected {end:,}, where {before} ends: {kind}"
        if entry.end >= end:
            end, before = entry.end, quoted(entry.name)
    size = f"{quoted(header.name)} is {header.file_nbytes:,} bytes, expected {end:,}, where {before} ends"
    if header.file_nbytes > end:
        yield f"{size}: trailing bytes"
    elif header.file_nbytes < end and not is_prefix:
        yield f"{size}: {end - header.file_nbytes:,} bytes are missing"


def _pairs(disk: Disk) -> Outcome:
    return judge(_uneven(disk))


def _uneven(disk: Disk) -> Iterator[str]:
    for header in disk.headers.values():
        for scale in header.tensors.values():
            if not scale.name.endswith(SCALE):
                continue
            # The pair may lie in two shards: the other is then taken from where it is assigned.
            name = scale.name.removesuffix(SCALE) + WEIGHT
            weight = header.tensors.get(name) or disk.entry(name)
            if weight is not None and not _blocks_evenly(weight, scale):
                found = f"{quoted(scale.name)} is {shown(scale.shape)} for {shown(weight.shape)} of {weight.dtype}"
                yield f"{found} in {quoted(header.name)}, expected sizes that divide into equal blocks"


def _blocks_evenly(weight: TensorEntry, scale: TensorEntry) -> bool:
    if len(weight.shape) != 2 or len(scale.shape) != 2:
        return False
    rows, columns = weight.shape
    columns *= _FP4_PER_BYTE if weight.dtype == "I8" else 1
    sizes = zip((rows, columns), scale.shape, strict=True)
    return all(blocks > 0 and size % blocks == 0 for size, blocks in sizes)


def _assignment(disk: Disk) -> Outcome:
    return judge(_misassigned(disk))


def _misassigned(disk: Disk) -> Iterator[str]:
    assigned: dict[str, set[str]] = {shard: set() for shard in disk.headers}
    for name, shard in disk.shard_of.items():
        if shard in assigned:
            assigned[shard].add(name)
    for shard, header in disk.headers.items():
        where = quoted(header.name)
        for name in sorted(assigned[shard] - header.tensors.keys()):
            yield f"{quoted(name)} is not in {where}, to which the index assigns it"
        for name in sorted(header.tensors.keys() - assigned[shard]):
            home = disk.shard_of.get(name)
            wanted = f"in {quoted(home)}" if home else "nowhere"
            yield f"{quoted(name)} is in {where}, expected {wanted}: so says the index"
    for stray in disk.strays:
        yield f"{quoted(stray)} is a shard file the index does not name, expected none"


NON_ZERO = DiskCheck("inventory.non-zero", "no shard or tensor that has arrived is empty", _non_zero)
EXTENTS = DiskCheck("packing.extents", "every extent matches its dtype and shape", _extents)
TILING = DiskCheck("packing.tiling", "extents tile each payload: no gap, overlap or trailing byte", _tiling)
PAIRS = DiskCheck("packing.pairs", "every weight and its scale block evenly", _pairs)
INDEX = DiskCheck("index.assignment", "every shard here holds exactly the tensors the index assigns it", _assignment)
