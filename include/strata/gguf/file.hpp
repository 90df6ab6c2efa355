// Reads GGUF files (versions 2 and 3), single or split in shards, through memory maps.
//
// Every length, count, offset and type is checked against the bytes the file really has before it
// is used, and nothing is allocated on the word of an unchecked length. A broken file throws
// Error(kInput) whose text names the file, the field, its byte offset, what was found and what was
// expected. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include "strata/base/mapped_file.hpp"
#include "strata/gguf/types.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace strata::gguf {

// Unsigned and signed scalars are widened to u64 and i64, floats to double. Arrays of any integer
// type or bool become an IntArray, of f32 or f64 a FloatArray; KeyValue::type_name says what the
// file has.
using IntArray = std::vector<std::int64_t>;  // u64 above 2^63-1 keeps its bit pattern; bool: 0 or 1
using FloatArray = std::vector<double>;
// Views into the map, as all string_views here: valid while the File lives.
using StringArray = std::vector<std::string_view>;
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string_view, IntArray,
                           FloatArray, StringArray>;

struct KeyValue {
  std::string_view key;
  std::string_view type_name;  // as stored: "u32", "str", "arr[i32]"
  Value value;
};

struct TensorInfo {
  std::string_view name;
  Type type;
  int n_dims;
  std::array<std::int64_t, 4> ne;   // ne[0] contiguous; unused dimensions are 1
  std::uint64_t row_bytes;          // bytes of one row of ne[0] elements
  std::span<const std::byte> data;  // the whole tensor, mapped
  int shard;                        // which mapped file, for File::release
  [[nodiscard]] std::int64_t rows() const noexcept { return ne[1] * ne[2] * ne[3]; }
};

// A file that is in memory already; `name` stands in messages where a path would.
struct ShardBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

struct Shard;

// Immutable once open: all const members may be called from several threads.
class File {
 public:
  // `path` is a whole model or its first shard (PREFIX-00001-of-0000N.gguf): siblings are found
  // beside it.
  [[nodiscard]] static File open(const std::filesystem::path& path);
  // The same from memory, at least one shard. The bytes must be 8-aligned and outlive the File.
  [[nodiscard]] static File from_bytes(std::span<const ShardBytes> shards);

  [[nodiscard]] std::span<const KeyValue> metadata() const noexcept { return metadata_; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const noexcept { return tensors_; }
  [[nodiscard]] const Value* find(std::string_view key) const noexcept;
  [[nodiscard]] const TensorInfo* find_tensor(std::string_view name) const noexcept;

  // Typed reads. Missing key: nullopt; present with another type or out of range: Error(kInput)
  // naming key and types. Any integer width is accepted for the integer reads (writers differ); a
  // float for get_float also from integers.
  [[nodiscard]] std::optional<std::int64_t> get_int(std::string_view key) const;
  [[nodiscard]] std::optional<double> get_float(std::string_view key) const;
  [[nodiscard]] std::optional<bool> get_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> get_string(std::string_view key) const;
  [[nodiscard]] const StringArray* get_strings(std::string_view key) const;
  [[nodiscard]] const IntArray* get_ints(std::string_view key) const;
  [[nodiscard]] const FloatArray* get_floats(std::string_view key) const;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept { return total_bytes_; }  // all shards
  [[nodiscard]] std::size_t shard_count() const noexcept { return shard_count_; }
  // Tells the OS that bytes [offset, offset + size) of the tensor will not be read soon, so that
  // they stop counting as our memory. Reading them again is allowed. Nothing happens to a File made
  // from memory.
  void release(const TensorInfo& tensor, std::size_t offset, std::size_t size) const noexcept;

 private:
  [[nodiscard]] static File assemble(std::span<Shard> shards);
  void add_metadata(Shard& shard);
  void add_tensors(const Shard& shard, std::span<const Shard> shards);
  [[nodiscard]] const KeyValue* find_entry(std::string_view key) const noexcept;

  std::filesystem::path path_;
  std::uint32_t version_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::size_t shard_count_ = 0;
  std::vector<MappedFile> shards_;  // empty when made from memory
  std::vector<KeyValue> metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, std::size_t> key_index_;
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace strata::gguf
