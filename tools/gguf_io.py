"""Reads and writes GGUF files (version 3), with the standard library only.

    header = read_header("model.gguf")
    for entry in header.metadata: print(entry.key, entry.type_name)

    writer = Writer()
    writer.add("general.architecture", "str", "qwen3moe")
    writer.add_tensor("output_norm.weight", "F32", [2048], lambda: [bytes(8192)])
    writer.write("out.gguf")

For tools and tests: a broken file ends in a GgufError, but the engine's own reader (docs/gguf.md)
is the one that is meant for files nobody trusts.
"""

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

ALIGNMENT = 32

# name: (id in the file, elements of a block, bytes of a block)
TENSOR_TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210),
    "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98),
    "IQ1_S": (19, 256, 50), "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82),
    "IQ4_XS": (23, 256, 136), "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4),
    "I64": (27, 1, 8), "F64": (28, 1, 8), "IQ1_M": (29, 256, 56), "BF16": (30, 1, 2),
    "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66), "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36),
    "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18),
}
TYPE_NAMES = {row[0]: name for name, row in TENSOR_TYPES.items()}

# name: (id in the file, struct format)
SCALARS = {
    "u8": (0, "<B"), "i8": (1, "<b"), "u16": (2, "<H"), "i16": (3, "<h"), "u32": (4, "<I"),
    "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q"), "i64": (11, "<q"),
    "f64": (12, "<d"),
}
SCALAR_NAMES = {row[0]: name for name, row in SCALARS.items()}
STRING, ARRAY = 8, 9


class GgufError(Exception):
    """A file that cannot be read, or content that cannot be written."""


@dataclass
class Entry:
    key: str
    type_name: str  # "u32", "str", "arr[i32]"
    value: object   # int, float, bool, str, or a list of them
    raw: bytes      # key, type and value as they stand in the file


@dataclass
class TensorInfo:
    name: str
    type_name: str
    ne: list    # ne[0] contiguous
    offset: int  # from the start of the file
    bytes: int


@dataclass
class Header:
    version: int
    metadata: list
    tensors: list

    def value(self, key, default=None):
        """The value of a metadata key, or `default`."""
        return next((entry.value for entry in self.metadata if entry.key == key), default)


def tensor_bytes(type_name, ne):
    """Bytes of a tensor's data; GgufError when a row is no whole number of blocks."""
    _, elems, size = TENSOR_TYPES[type_name]
    if ne[0] % elems:
        raise GgufError(f"a row of {ne[0]} elements is no whole number of blocks of {elems}, "
                        f"as {type_name} has them")
    total = ne[0] // elems * size
    for n in ne[1:]:
        total *= n
    return total


def align_up(value, alignment=ALIGNMENT):
    return (value + alignment - 1) // alignment * alignment


# ---- reading ----


class _Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        (value,) = struct.unpack_from(fmt, self.data, self.at)
        self.at += struct.calcsize(fmt)
        return value

    def string(self):
        size = self.take("<Q")
        if size > len(self.data) - self.at:
            raise GgufError(f"byte {self.at}: a string of {size} bytes does not fit into the file")
        text = bytes(self.data[self.at:self.at + size]).decode("utf-8", "surrogateescape")
        self.at += size
        return text

    def scalar(self, type_id):
        if type_id == STRING:
            return self.string()
        return self.take(SCALARS[SCALAR_NAMES[type_id]][1])

    def entry(self):
        start = self.at
        key, type_id = self.string(), self.take("<I")
        if type_id == ARRAY:
            element, count = self.take("<I"), self.take("<Q")
            value = [self.scalar(element) for _ in range(count)]
            type_name = f"arr[{'str' if element == STRING else SCALAR_NAMES[element]}]"
        else:
            value = self.scalar(type_id)
            type_name = "str" if type_id == STRING else SCALAR_NAMES[type_id]
        return Entry(key, type_name, value, bytes(self.data[start:self.at]))

    def tensor(self):
        name = self.string()
        ne = [self.take("<q") for _ in range(self.take("<I"))]
        type_name = TYPE_NAMES[self.take("<I")]
        return TensorInfo(name, type_name, ne, self.take("<Q"), tensor_bytes(type_name, ne))


def read_header(path):
    """Metadata and tensor list of one file (of one shard, if it is split)."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(data)
    except (GgufError, OSError, struct.error, KeyError, ValueError) as error:
        raise GgufError(f"{path}: cannot be read as GGUF: {error}") from error


def _parse(data):
    cursor = _Cursor(data)
    if data[:4] != b"GGUF":
        raise GgufError("it does not start with 'GGUF'")
    cursor.at = 4
    version, n_tensors, n_entries = cursor.take("<I"), cursor.take("<Q"), cursor.take("<Q")
    if version not in (2, 3):
        raise GgufError(f"its version is {version}, expected 2 or 3")
    metadata = [cursor.entry() for _ in range(n_entries)]
    tensors = [cursor.tensor() for _ in range(n_tensors)]
    header = Header(version, metadata, tensors)
    start = align_up(cursor.at, header.value("general.alignment", ALIGNMENT))
    for tensor in tensors:
        tensor.offset += start
    return header


# ---- writing ----


def pack_string(text):
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def pack_entry(key, type_name, value):
    """One metadata entry; `type_name` as in Entry."""
    def packed(element, v):
        return pack_string(v) if element == "str" else struct.pack(SCALARS[element][1], v)

    def number(element):
        return STRING if element == "str" else SCALARS[element][0]

    if not type_name.startswith("arr["):
        return pack_string(key) + struct.pack("<I", number(type_name)) + packed(type_name, value)
    element = type_name[4:-1]
    head = struct.pack("<IIQ", ARRAY, number(element), len(value))
    return pack_string(key) + head + b"".join(packed(element, v) for v in value)


@dataclass
class _Tensor:
    name: str
    type_name: str
    ne: list
    chunks: object

    @property
    def bytes(self):
        return tensor_bytes(self.type_name, self.ne)

    def info(self, offset):
        shape = struct.pack(f"<I{len(self.ne)}q", len(self.ne), *self.ne)
        place = struct.pack("<IQ", TENSOR_TYPES[self.type_name][0], offset)
        return pack_string(self.name) + shape + place


class Writer:
    """Collects metadata and tensors, then writes one file, or shards of `max_shard_bytes`."""

    def __init__(self, max_shard_bytes=0):
        self.max_shard_bytes = max_shard_bytes
        self.entries = []
        self.tensors = []

    def add(self, key, type_name, value):
        self.entries.append(pack_entry(key, type_name, value))

    def add_raw(self, entry):
        """An Entry of another file, byte for byte."""
        self.entries.append(entry.raw)

    def add_tensor(self, name, type_name, ne, chunks):
        """`chunks()` yields the data in pieces of bytes, tensor_bytes(type_name, ne) in all."""
        tensor_bytes(type_name, ne)
        self.tensors.append(_Tensor(name, type_name, list(ne), chunks))

    def write(self, path):
        """Returns the paths written: `path`, or its shards NAME-0000i-of-0000N.gguf."""
        path = Path(path)
        shards = [self.tensors]
        size = len(self._header(self.tensors, 0, 1)) + sum(align_up(t.bytes) for t in self.tensors)
        if self.max_shard_bytes and size > self.max_shard_bytes:
            shards = self._split()
        if len(shards) == 1:
            paths = [path]
        elif path.suffix != ".gguf":
            raise GgufError(f"{path}: the name of a file to be split must end in .gguf")
        else:
            paths = [path.with_name(f"{path.stem}-{i + 1:05}-of-{len(shards):05}.gguf")
                     for i in range(len(shards))]
        for i, tensors in enumerate(shards):
            self._write_file(paths[i], tensors, i, len(shards))
        return paths

    def _unpadded_header(self, tensors, number, count):
        entries = list(self.entries) if number == 0 else []
        if count > 1:
            entries += [pack_entry("split.no", "u16", number),
                        pack_entry("split.count", "u16", count),
                        pack_entry("split.tensors.count", "i32", len(self.tensors))]
        infos, offset = [], 0
        for tensor in tensors:
            infos.append(tensor.info(offset))
            offset += align_up(tensor.bytes)
        counts = struct.pack("<IQQ", 3, len(tensors), len(entries))
        return b"GGUF" + counts + b"".join(entries + infos)

    def _header(self, tensors, number, count):
        header = self._unpadded_header(tensors, number, count)
        return header + bytes(align_up(len(header)) - len(header)) if tensors else header

    def _split(self):
        """Tensors in order, each shard as full as the limit allows."""
        shards = []
        for tensor in self.tensors:
            info, data = len(tensor.info(0)), align_up(tensor.bytes)
            if not shards or align_up(header + info) + total + data > self.max_shard_bytes:
                header, total = len(self._unpadded_header([], len(shards), 2)), 0
                shards.append([])
                if align_up(header + info) + data > self.max_shard_bytes:
                    raise GgufError(f"a file of {self.max_shard_bytes} bytes has no room for its "
                                    f"header and tensor {tensor.name} of {tensor.bytes} bytes")
            header, total = header + info, total + data
            shards[-1].append(tensor)
        return shards

    def _write_file(self, path, tensors, number, count):
        partial = path.with_name(path.name + ".partial")
        try:
            with open(partial, "wb") as out:
                out.write(self._header(tensors, number, count))
                for tensor in tensors:
                    written = 0
                    for chunk in tensor.chunks():
                        out.write(chunk)
                        written += len(chunk)
                    if written != tensor.bytes:
                        raise GgufError(f"tensor {tensor.name}: {written} bytes of data, "
                                        f"expected {tensor.bytes}")
                    out.write(bytes(align_up(written) - written))
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
