// One GGUF file (a whole model or a shard) from bytes: everything that can be checked without its
// siblings.
#pragma once

#include "strata/gguf/file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strata::gguf {

struct Shard {
  std::string name;  // for messages
  std::span<const std::byte> bytes;
  std::uint32_t version = 0;
  std::vector<KeyValue> metadata;
  std::vector<TensorInfo> tensors;
  // Where the entries of the two lists stand in the file, for messages.
  std::vector<std::uint64_t> metadata_at;
  std::vector<std::uint64_t> tensors_at;
};

// `index` becomes TensorInfo::shard. Names and data are views into `bytes`. Tensors of the same
// name are left to the caller, who must look for them over all shards. Error(kInput) as Cursor's.
[[nodiscard]] Shard parse_shard(std::string name, std::span<const std::byte> bytes, int index);

}  // namespace strata::gguf
