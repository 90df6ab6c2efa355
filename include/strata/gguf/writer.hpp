// Writes GGUF files, whole or split in shards: tests, converters and re-quantisers use it.
//
//   Writer writer;
//   writer.add("general.architecture", "qwen3moe");
//   writer.add("qwen3moe.block_count", std::uint32_t{48});
//   writer.add_tensor("output_norm.weight", Type::kF32, {2048}, bytes);
//   writer.write("model.gguf");
//
// What the reader would refuse, the writer refuses with Error(kUsage) when it is added. A file
// appears under its name only when it is complete and on the disk; until then it has a temporary
// name beside it, which an error removes again. Not thread-safe.
#pragma once

#include "strata/gguf/file.hpp"
#include "strata/gguf/types.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace strata::gguf {

struct WriterOptions {
  std::uint32_t version = 3;  // 2 or 3
  // Of tensor data: a power of two of at least 8; stated in the file unless it is 32.
  std::uint32_t alignment = 32;
  // No file larger than this: tensors are spread, in order, over shards named
  // PREFIX-00001-of-0000N.gguf. 0: never split.
  std::uint64_t max_shard_bytes = 0;
};

template <class T>
concept MetadataNumber = std::same_as<T, bool> || std::same_as<T, std::uint8_t> ||
    std::same_as<T, std::int8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::int16_t> || std::same_as<T, std::uint32_t> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::uint64_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, float> || std::same_as<T, double>;

class OutputFile;

class Writer {
 public:
  // Fills `out` with the tensor's bytes from `offset` on. Called from write() for rising offsets,
  // whole rows each time.
  using Fill = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

  explicit Writer(const WriterOptions& options = {});

  // The C++ type is the type in the file. Keys are unique; general.alignment and split.* are the
  // writer's own.
  template <MetadataNumber T>
  void add(std::string_view key, T value);
  void add(std::string_view key, std::string_view text);
  // As it was read: same type, same value.
  void add(const KeyValue& entry);

  template <std::ranges::contiguous_range Range>
  requires MetadataNumber<std::ranges::range_value_t<Range>>
  void add_array(std::string_view key, const Range& values) {
    add_numbers<std::ranges::range_value_t<Range>>(
        key, {std::ranges::data(values), std::ranges::size(values)});
  }
  template <std::ranges::sized_range Range>
  requires std::convertible_to<std::ranges::range_reference_t<const Range>, std::string_view>
  void add_array(std::string_view key, const Range& texts) {
    begin_strings(key, std::ranges::size(texts));
    for (const auto& text : texts) put_string(text);
  }

  // ne as in TensorInfo, 1 to 4 dimensions. `data` is not copied: it must live until write() has
  // returned.
  void add_tensor(std::string_view name, Type type, std::vector<std::int64_t> ne,
                  std::span<const std::byte> data);
  void add_tensor(std::string_view name, Type type, std::vector<std::int64_t> ne, Fill fill);

  // Returns the paths written: `path` itself, or when it took several shards,
  // PREFIX-0000i-of-0000N.gguf where `path` is PREFIX.gguf. Existing files are replaced. Error(kIo)
  // or, for a full disk, Error(kResource); what Fill throws passes.
  std::vector<std::filesystem::path> write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string name;
    Type type;
    std::vector<std::int64_t> ne;
    std::uint64_t bytes;
    std::span<const std::byte> data;  // used when fill is empty
    Fill fill;
  };
  struct ShardPlan;

  // The element types are ValueType's numbers.
  void begin_entry(std::string_view key, std::uint32_t type);
  void begin_array(std::string_view key, std::uint32_t type, std::uint64_t count);
  void begin_strings(std::string_view key, std::uint64_t count);
  void put_string(std::string_view text);
  template <MetadataNumber T>
  void add_numbers(std::string_view key, std::span<const T> values);
  template <class T>
  [[nodiscard]] bool copy_as(const KeyValue& entry);
  void add_any_tensor(Tensor tensor);

  [[nodiscard]] std::vector<ShardPlan> plan() const;
  [[nodiscard]] ShardPlan empty_shard(std::size_t first, std::size_t number,
                                      std::size_t shards) const;
  void append(ShardPlan& shard) const;
  [[nodiscard]] std::uint64_t file_bytes(const ShardPlan& shard) const;
  [[nodiscard]] std::vector<std::byte> header(const ShardPlan& shard, std::size_t number,
                                              std::size_t shards) const;
  void write_tensor(OutputFile& file, const Tensor& tensor, std::vector<std::byte>& chunk) const;

  WriterOptions options_;
  std::vector<std::byte> metadata_;  // entries as they stand in the file
  std::uint64_t metadata_count_ = 0;
  std::unordered_set<std::string> keys_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> tensor_names_;
  std::uint64_t total_bytes_ = 0;  // of tensors_
};

}  // namespace strata::gguf
