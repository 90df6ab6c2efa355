#include "src/gguf/parse.hpp"

#include "src/gguf/cursor.hpp"
#include "src/gguf/rules.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <numeric>
#include <utility>

namespace strata::gguf {
namespace {

constexpr std::uint32_t kOldestVersion = 2;
constexpr std::uint32_t kNewestVersion = 3;

// ---- the fixed part ----

// What a file that is no GGUF probably is, and the way out; empty when nothing is recognised.
std::string_view recognise(std::string_view head) {
  struct Known {
    std::string_view start;
    std::string_view advice;
  };
  static constexpr std::array<Known, 8> kKnown = {{
      {"version https://git-lfs",
       "; it is a Git LFS pointer: fetch the file itself with `git lfs pull`"},
      {"<", "; it looks like a web page: the download failed"},
      {"PK\x03\x04", "; it looks like a PyTorch checkpoint: convert it to GGUF first"},
      {"lmgg", "; it is an unversioned GGML file of early 2023: convert the model again"},
      {"fmgg", "; it is a GGMF file of early 2023: convert the model again"},
      {"tjgg", "; it is a GGJT file of 2023: convert the model again"},
      {"algg", "; it is a GGLA adapter, not a model"},
      {std::string_view("\0\0\0\0\0\0\0\0", 8),
       "; it starts with zeros: the download is incomplete"},
  }};
  for (const Known& known : kKnown) {
    if (head.starts_with(known.start)) return known.advice;
  }
  if (head.size() > 8 && head[8] == '{') {
    return "; it looks like a safetensors file: convert it to GGUF first";
  }
  return "";
}

void read_magic(Cursor& cursor, std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 32));
  if (!kMagic.starts_with(head.substr(0, kMagic.size()))) {
    cursor.fail_at(0, "not a GGUF file: it starts with {}, expected 'GGUF'{}",
                   in_quotes(head.substr(0, kMagic.size())), recognise(head));
  }
  (void)cursor.take(kMagic.size(), "the magic 'GGUF'");
}

std::uint32_t read_version(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto version = cursor.read<std::uint32_t>("the version");
  if (version >= kOldestVersion && version <= kNewestVersion) return version;
  if (version == 1) {
    cursor.fail_at(at, "GGUF version 1, of 2023, is not read; convert the model again");
  }
  if (version != 0 && (version & 0xFFFF) == 0) {
    cursor.fail_at(at, "the version reads as {:#010x}: a big-endian file, which is not read",
                   version);
  }
  cursor.fail_at(at, "the version is {}, expected 2 or 3{}", version,
                 version > kNewestVersion ? "; the file is newer than this program or broken" : "");
}

// ---- metadata ----

ValueType read_value_type(Cursor& cursor, std::string_view field) {
  const std::uint64_t at = cursor.offset();
  const auto id = cursor.read<std::uint32_t>(field);
  if (id >= kValueTypes.size()) cursor.fail_at(at, "{} is {}, expected 0 to 12", field, id);
  return static_cast<ValueType>(id);
}

bool read_bool(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto value = cursor.read<std::uint8_t>("the value");
  if (value > 1) cursor.fail_at(at, "the value of type bool is {}, expected 0 or 1", value);
  return value == 1;
}

template <class Stored, class Wide>
std::vector<Wide> read_numbers(Cursor& cursor, std::uint64_t count) {
  // The count has been checked against the bytes left, so the product cannot overflow.
  const auto bytes = cursor.take(count * sizeof(Stored), "the elements");
  std::vector<Wide> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<Wide>(stored);
  }
  return values;
}

IntArray read_bools(Cursor& cursor, std::uint64_t count) {
  IntArray values(count);
  for (std::int64_t& value : values) value = read_bool(cursor) ? 1 : 0;
  return values;
}

StringArray read_strings(Cursor& cursor, std::uint64_t count) {
  StringArray values(count);
  for (std::string_view& value : values) value = cursor.string("an element");
  return values;
}

Value read_array(Cursor& cursor, ValueType type, std::uint64_t type_at) {
  if (type == ValueType::kArray) {
    cursor.fail_at(type_at, "an array of arrays, which no model needs, is not read");
  }
  const std::uint64_t count = cursor.count("the element count", value_traits(type).min_bytes);
  switch (type) {
    case ValueType::kU8:
      return read_numbers<std::uint8_t, std::int64_t>(cursor, count);
    case ValueType::kI8:
      return read_numbers<std::int8_t, std::int64_t>(cursor, count);
    case ValueType::kU16:
      return read_numbers<std::uint16_t, std::int64_t>(cursor, count);
    case ValueType::kI16:
      return read_numbers<std::int16_t, std::int64_t>(cursor, count);
    case ValueType::kU32:
      return read_numbers<std::uint32_t, std::int64_t>(cursor, count);
    case ValueType::kI32:
      return read_numbers<std::int32_t, std::int64_t>(cursor, count);
    case ValueType::kU64:
      return read_numbers<std::uint64_t, std::int64_t>(cursor, count);
    case ValueType::kI64:
      return read_numbers<std::int64_t, std::int64_t>(cursor, count);
    case ValueType::kF32:
      return read_numbers<float, double>(cursor, count);
    case ValueType::kF64:
      return read_numbers<double, double>(cursor, count);
    case ValueType::kBool:
      return read_bools(cursor, count);
    default:
      return read_strings(cursor, count);
  }
}

Value read_scalar(Cursor& cursor, ValueType type) {
  constexpr std::string_view kField = "the value";
  switch (type) {
    case ValueType::kU8:
      return std::uint64_t{cursor.read<std::uint8_t>(kField)};
    case ValueType::kU16:
      return std::uint64_t{cursor.read<std::uint16_t>(kField)};
    case ValueType::kU32:
      return std::uint64_t{cursor.read<std::uint32_t>(kField)};
    case ValueType::kU64:
      return cursor.read<std::uint64_t>(kField);
    case ValueType::kI8:
      return std::int64_t{cursor.read<std::int8_t>(kField)};
    case ValueType::kI16:
      return std::int64_t{cursor.read<std::int16_t>(kField)};
    case ValueType::kI32:
      return std::int64_t{cursor.read<std::int32_t>(kField)};
    case ValueType::kI64:
      return cursor.read<std::int64_t>(kField);
    case ValueType::kF32:
      return double{cursor.read<float>(kField)};
    case ValueType::kF64:
      return cursor.read<double>(kField);
    case ValueType::kBool:
      return read_bool(cursor);
    default:
      return cursor.string(kField);
  }
}

std::string_view read_name(Cursor& cursor, std::string_view field, std::size_t max_bytes) {
  const std::uint64_t at = cursor.offset();
  const std::string_view name = cursor.string(field);
  if (name.empty() || name.size() > max_bytes) {
    cursor.fail_at(at, "{} has {} bytes, expected 1 to {}", field, name.size(), max_bytes);
  }
  if (!is_utf8(name)) cursor.fail_at(at, "{} {} is not valid UTF-8", field, in_quotes(name));
  return name;
}

KeyValue read_key_value(Cursor& cursor) {
  const std::string_view key = read_name(cursor, "the key", kMaxKeyBytes);
  cursor.enter_named(key);
  const ValueType type = read_value_type(cursor, "the value type");
  if (type != ValueType::kArray) {
    return {key, value_traits(type).name, read_scalar(cursor, type)};
  }
  const std::uint64_t element_at = cursor.offset();
  const ValueType element = read_value_type(cursor, "the element type");
  return {key, value_traits(element).array_name, read_array(cursor, element, element_at)};
}

void check_duplicate_keys(Cursor& cursor, const Shard& shard) {
  std::vector<std::size_t> order(shard.metadata.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) { return shard.metadata[i].key; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (key(order[i - 1]) != key(order[i])) continue;
    cursor.enter("metadata entry", order[i]);
    cursor.enter_named(key(order[i]));
    cursor.fail_at(shard.metadata_at[order[i]],
                   "the key stands in the file twice, first at byte {}",
                   shard.metadata_at[order[i - 1]]);
  }
}

std::uint32_t alignment_of(const Cursor& cursor, const Shard& shard) {
  for (std::size_t i = 0; i < shard.metadata.size(); ++i) {
    const KeyValue& entry = shard.metadata[i];
    if (entry.key != kAlignmentKey) continue;
    std::uint64_t value = 0;
    if (const auto* u = std::get_if<std::uint64_t>(&entry.value)) {
      value = *u;
    } else if (const auto* s = std::get_if<std::int64_t>(&entry.value)) {
      value = static_cast<std::uint64_t>(*s);  // a negative number becomes no valid alignment
    } else {
      cursor.fail_at(shard.metadata_at[i], "{} is {}, expected an integer", kAlignmentKey,
                     entry.type_name);
    }
    if (!valid_alignment(value)) {
      cursor.fail_at(shard.metadata_at[i], "{} is {}, expected a power of two of at least {}",
                     kAlignmentKey, value, kMinAlignment);
    }
    return static_cast<std::uint32_t>(value);
  }
  return kDefaultAlignment;
}

// ---- tensors ----

std::string_view why_no_type(std::uint32_t id) {
  switch (id) {
    case 4:
    case 5:
      return "Q4_2 and Q4_3 were given up in 2023; convert the model again";
    case 9:
    case 15:
      return "it exists in memory only, never in files";
    case 31:
    case 32:
    case 33:
    case 36:
    case 37:
    case 38:
      return "files re-packed for ARM were given up in 2024; take the plain Q4_0 or IQ4_NL one";
    default:
      return "the file is broken, newer than this program, or of a fork with types of its own";
  }
}

Type read_tensor_type(Cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto id = cursor.read<std::uint32_t>("the type");
  const TypeTraits* type = find_type(id);
  if (type == nullptr) cursor.fail_at(at, "unknown tensor type {}: {}", id, why_no_type(id));
  return type->type;
}

// Where the data stands, as the file states it: still to be checked against the file's size.
struct Extent {
  std::uint64_t offset;     // from the start of the tensor data
  std::uint64_t offset_at;  // where the file says so
  std::uint64_t bytes;
};

void read_shape(Cursor& cursor, TensorInfo& tensor) {
  const std::uint64_t n_dims_at = cursor.offset();
  const auto n_dims = cursor.read<std::uint32_t>("the number of dimensions");
  if (n_dims < 1 || n_dims > kMaxDims) {
    cursor.fail_at(n_dims_at, "the number of dimensions is {}, expected 1 to {}", n_dims, kMaxDims);
  }
  tensor.n_dims = static_cast<int>(n_dims);
  tensor.ne.fill(1);
  for (std::uint32_t d = 0; d < n_dims; ++d) {
    const std::uint64_t at = cursor.offset();
    tensor.ne[d] = cursor.read<std::int64_t>("a dimension");
    if (tensor.ne[d] < 1) {
      cursor.fail_at(at, "dimension {} is {}, expected at least 1", d, tensor.ne[d]);
    }
  }
}

Extent read_tensor_info(Cursor& cursor, TensorInfo& tensor) {
  tensor.name = read_name(cursor, "the name", kMaxTensorNameBytes);
  cursor.enter_named(tensor.name);
  const std::uint64_t shape_at = cursor.offset();
  read_shape(cursor, tensor);
  tensor.type = read_tensor_type(cursor);
  const TypeTraits& type = traits(tensor.type);
  if (tensor.ne[0] % type.block_elems != 0) {
    cursor.fail_at(shape_at, "dimension 0 is {}, expected a multiple of {}, the block of {}",
                   tensor.ne[0], type.block_elems, type.name);
  }
  const auto row = row_bytes(tensor.type, tensor.ne[0]);
  const auto bytes = tensor_bytes(tensor.type, tensor.ne);
  if (!row || !bytes) {
    cursor.fail_at(shape_at, "{} x {} x {} x {} elements of {} take more than 2^64 bytes",
                   tensor.ne[0], tensor.ne[1], tensor.ne[2], tensor.ne[3], type.name);
  }
  tensor.row_bytes = *row;
  const std::uint64_t offset_at = cursor.offset();
  return {cursor.read<std::uint64_t>("the data offset"), offset_at, *bytes};
}

// Points every tensor at its bytes.
void place_data(Cursor& cursor, Shard& shard, std::span<const Extent> extents,
                std::uint32_t alignment) {
  const std::uint64_t start = align_up(cursor.offset(), alignment);
  const std::uint64_t available = shard.bytes.size() > start ? shard.bytes.size() - start : 0;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto [offset, offset_at, bytes] = extents[i];
    TensorInfo& tensor = shard.tensors[i];
    cursor.enter("tensor", i);
    cursor.enter_named(tensor.name);
    if (offset % alignment != 0) {
      cursor.fail_at(offset_at, "the data offset is {}, expected a multiple of the alignment, {}",
                     offset, alignment);
    }
    if (offset > available || bytes > available - offset) {
      cursor.fail_at(offset_at,
                     "the data takes {} bytes from offset {} of the data section at byte {}, but "
                     "the file has {} bytes in all (is it complete?)",
                     bytes, offset, start, shard.bytes.size());
    }
    tensor.data = shard.bytes.subspan(start + offset, bytes);
  }
}

void check_overlap(Cursor& cursor, const Shard& shard) {
  std::vector<std::size_t> order(shard.tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto begin = [&](std::size_t i) { return shard.tensors[i].data.data(); };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& before = shard.tensors[order[i - 1]];
    const TensorInfo& after = shard.tensors[order[i]];
    if (before.data.data() + before.data.size() <= after.data.data()) continue;
    cursor.enter("tensor", order[i]);
    cursor.enter_named(after.name);
    cursor.fail_at(shard.tensors_at[order[i]],
                   "the data starts at byte {}, inside that of tensor {}, whose {} bytes of {} "
                   "start at byte {}",
                   after.data.data() - shard.bytes.data(), in_quotes(before.name),
                   before.data.size(), traits(before.type).name,
                   before.data.data() - shard.bytes.data());
  }
}

}  // namespace

Shard parse_shard(std::string name, std::span<const std::byte> bytes, int index) {
  assert(reinterpret_cast<std::uintptr_t>(bytes.data()) % kMinAlignment == 0);
  Shard shard;
  shard.name = std::move(name);
  shard.bytes = bytes;
  Cursor cursor(shard.name, bytes);
  read_magic(cursor, bytes);
  shard.version = read_version(cursor);
  const std::uint64_t n_tensors = cursor.count("the tensor count", kMinTensorInfoBytes);
  const std::uint64_t n_metadata = cursor.count("the metadata count", kMinKeyValueBytes);

  shard.metadata.reserve(n_metadata);
  shard.metadata_at.reserve(n_metadata);
  for (std::uint64_t i = 0; i < n_metadata; ++i) {
    cursor.enter("metadata entry", i);
    shard.metadata_at.push_back(cursor.offset());
    shard.metadata.push_back(read_key_value(cursor));
  }
  check_duplicate_keys(cursor, shard);
  cursor.enter({}, 0);
  const std::uint32_t alignment = alignment_of(cursor, shard);

  std::vector<Extent> extents;
  extents.reserve(n_tensors);
  shard.tensors.reserve(n_tensors);
  shard.tensors_at.reserve(n_tensors);
  for (std::uint64_t i = 0; i < n_tensors; ++i) {
    cursor.enter("tensor", i);
    shard.tensors_at.push_back(cursor.offset());
    extents.push_back(read_tensor_info(cursor, shard.tensors.emplace_back()));
    shard.tensors.back().shard = index;
  }
  place_data(cursor, shard, extents, alignment);
  check_overlap(cursor, shard);
  return shard;
}

}  // namespace strata::gguf
