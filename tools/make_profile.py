#!/usr/bin/env python3
"""Makes an expert profile (STRP) from routing traces of --dump-routing.

    python3 tools/make_profile.py trace.bin [more.bin ...] -o model.strp

The experts chosen most come first; of equal counts the lower expert number, then the lower layer,
so that those never seen come last and spread over all layers. Layers without a record stay out.
`strata profile` does the same, byte for byte. Formats: include/strata/core/{trace,profile}.hpp.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
from collections import Counter
from pathlib import Path

LIMIT = 65536  # a pair's numbers have 16 bits
MAX_USED = 1024


class TraceError(Exception):
    """A trace that cannot be read."""


def add_counts(path: Path, counts: Counter) -> None:
    """Adds how often each (layer, expert) of the trace was chosen."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise TraceError(f"{path}: the record at byte {at} is cut off")
        layer, k = struct.unpack_from("<ii", data, at)
        if not 0 <= layer < LIMIT or not 1 <= k <= MAX_USED:
            raise TraceError(f"{path}: the record at byte {at} has layer {layer} and {k} experts")
        if at + 8 + 8 * k > len(data):
            raise TraceError(f"{path}: the record at byte {at} is cut off")
        experts = struct.unpack_from(f"<{k}i", data, at + 8)
        if min(experts) < 0 or max(experts) >= LIMIT or len(set(experts)) < k:
            raise TraceError(f"{path}: the record at byte {at} has the experts {experts}")
        counts.update((layer, expert) for expert in experts)
        at += 8 + 8 * k


def profile_bytes(counts: Counter, layers: int, experts: int, slots: int) -> bytes:
    used = {layer for layer, _ in counts}
    ranked = sorted(((layer, expert) for layer in used for expert in range(experts)),
                    key=lambda pair: (-counts[pair], pair[1], pair[0]))
    place = {pair: rank for rank, pair in enumerate(ranked)}
    ranks = [place.get((layer, expert), -1) for layer in range(layers) for expert in range(experts)]
    return b"".join([struct.pack("<4s5I", b"STRP", 1, layers, experts, slots, len(ranked)),
                     *(struct.pack("<2H", *pair) for pair in ranked),
                     struct.pack(f"<{len(ranks)}i", *ranks)])


def write_whole(path: Path, data: bytes) -> None:
    """The old content or the new one, never a part."""
    descriptor, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, help="of the model (default: the highest seen + 1)")
    parser.add_argument("--experts", type=int, help="a layer (default: the highest seen + 1)")
    parser.add_argument("--slots", type=int, default=0, help="the cache it is for; informational")
    options = parser.parse_args(arguments)
    counts: Counter = Counter()
    try:
        for path in options.traces:
            add_counts(path, counts)
        if not counts:
            raise TraceError("the traces are empty")
        seen_layers = max(layer for layer, _ in counts) + 1
        seen_experts = max(expert for _, expert in counts) + 1
        layers = seen_layers if options.layers is None else options.layers
        experts = seen_experts if options.experts is None else options.experts
        if not (seen_layers <= layers <= LIMIT and seen_experts <= experts <= LIMIT):
            raise TraceError(f"the traces need {seen_layers} layers x {seen_experts} experts, "
                             f"not {layers} x {experts}")
        write_whole(options.output, profile_bytes(counts, layers, experts, options.slots))
    except (TraceError, OSError) as error:
        print(f"make_profile.py: {error}", file=sys.stderr)
        return 3
    print(f"{options.output}: {layers} layers x {experts} experts, {sum(counts.values())} choices")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
