// Reads bytes nobody vouches for as a GGUF file: what the fuzzer does with its inputs and a test
// with the corpus.
#pragma once

#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"
#include "strata/gguf/writer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::gguf::test {

// Stands between the shards of a split file in one input.
inline constexpr std::string_view kShardSeparator = "\n--shard--\n";

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// Buffers of exactly the shards' sizes, so that the address sanitizer sees a read past their ends.
inline std::vector<std::vector<std::byte>> cut_at_separators(std::string_view input) {
  std::vector<std::vector<std::byte>> shards;
  for (;;) {
    const std::size_t end = input.find(kShardSeparator);
    const auto part = std::as_bytes(std::span(input.substr(0, end)));
    shards.emplace_back(part.begin(), part.end());
    if (end == std::string_view::npos) return shards;
    input.remove_prefix(end + kShardSeparator.size());
  }
}

template <class Call>
void allow_input_error(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kInput,
            "a file's content causes Error(kInput) and no other");
  }
}

// All that the header promises of a file that opened, and that the writer takes what the reader
// took.
inline void check_promises(const File& file, std::span<const std::vector<std::byte>> shards) {
  Writer writer;
  for (const KeyValue& entry : file.metadata()) {
    require(file.find(entry.key) == &entry.value, "every key is found");
    allow_input_error([&] { (void)file.get_int(entry.key); });
    allow_input_error([&] { (void)file.get_float(entry.key); });
    allow_input_error([&] { (void)file.get_string(entry.key); });
    const bool own = entry.key == "general.alignment" || entry.key.starts_with("split.");
    if (!own) writer.add(entry);
  }
  std::vector<std::span<const std::byte>> extents;
  for (const TensorInfo& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor, "every tensor is found");
    const std::vector<std::byte>& shard = shards[static_cast<std::size_t>(tensor.shard)];
    require(tensor.data.data() >= shard.data() &&
                tensor.data.data() + tensor.data.size() <= shard.data() + shard.size(),
            "data lies in its shard");
    require(tensor.data.size() == tensor.row_bytes * static_cast<std::uint64_t>(tensor.rows()),
            "rows fill the data");
    require(!tensor.data.empty() && reinterpret_cast<std::uintptr_t>(tensor.data.data()) % 8 == 0,
            "data is aligned");
    extents.push_back(tensor.data);
    writer.add_tensor(tensor.name, tensor.type,
                      {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims}, tensor.data);
    file.release(tensor, 0, tensor.data.size());
  }
  std::sort(extents.begin(), extents.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    require(extents[i - 1].data() + extents[i - 1].size() <= extents[i].data(),
            "tensors do not overlap");
  }
}

// Returns whether the bytes are a valid file.
inline bool read_any_bytes(std::string_view input) {
  const std::vector<std::vector<std::byte>> buffers = cut_at_separators(input);
  std::vector<ShardBytes> shards;
  for (const auto& buffer : buffers)
    shards.push_back({"shard " + std::to_string(shards.size()), buffer});
  bool valid = false;
  allow_input_error([&] {
    const File file = File::from_bytes(shards);
    valid = true;
    check_promises(file, buffers);
  });
  return valid;
}

}  // namespace strata::gguf::test
