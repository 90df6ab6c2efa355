#include "strata/gguf/file.hpp"

#include "src/gguf/parse.hpp"
#include "src/gguf/rules.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace strata::gguf {
namespace {

// ---- split files ----

// An integer of the shard's own metadata, whatever width it was written in.
std::optional<std::int64_t> shard_int(const Shard& shard, std::string_view key) {
  for (std::size_t i = 0; i < shard.metadata.size(); ++i) {
    const KeyValue& entry = shard.metadata[i];
    if (entry.key != key) continue;
    if (const auto* s = std::get_if<std::int64_t>(&entry.value)) return *s;
    const auto* u = std::get_if<std::uint64_t>(&entry.value);
    if (u != nullptr && *u <= std::numeric_limits<std::int64_t>::max()) {
      return static_cast<std::int64_t>(*u);
    }
    fail(ErrorKind::kInput, "{}: byte {}: {} is no 64-bit integer but {}", shard.name,
         shard.metadata_at[i], key, entry.type_name);
  }
  return std::nullopt;
}

struct Split {
  std::int64_t no = 0;
  std::int64_t count = 1;  // 1: not split
};

Split split_of(const Shard& shard) {
  const Split split{shard_int(shard, kSplitNoKey).value_or(0),
                    shard_int(shard, kSplitCountKey).value_or(1)};
  // Tools write 0 into files they did not split.
  if (split.count == 0 && split.no == 0) return {};
  if (split.count < 1 || split.count > kMaxShards || split.no < 0 || split.no >= split.count) {
    fail(ErrorKind::kInput, "{}: {} {} of {} {} makes no sense, expected 0 <= no < count <= {}",
         shard.name, kSplitNoKey, split.no, kSplitCountKey, split.count, kMaxShards);
  }
  return split;
}

void check_splits(std::span<const Shard> shards) {
  std::int64_t tensors = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Split split = split_of(shards[i]);
    if (split.count != static_cast<std::int64_t>(shards.size()) ||
        split.no != static_cast<std::int64_t>(i)) {
      fail(ErrorKind::kInput,
           "{}: its metadata says {} {} of {} {}, expected {} of {}: shards of different files?",
           shards[i].name, kSplitNoKey, split.no, kSplitCountKey, split.count, i, shards.size());
    }
    tensors += static_cast<std::int64_t>(shards[i].tensors.size());
  }
  for (const Shard& shard : shards) {
    const auto expected = shard_int(shard, kSplitTensorsKey);
    if (shards.size() > 1 && expected && *expected != tensors) {
      fail(ErrorKind::kInput,
           "{}: {} is {}, but the {} shards have {} tensors: shards of different files?",
           shard.name, kSplitTensorsKey, *expected, shards.size(), tensors);
    }
  }
}

// The paths of all shards of the file whose first shard this is, in order.
std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path,
                                               const Split& split) {
  const std::string file_name = path.filename().string();
  const auto name = parse_shard_name(file_name);
  if (!name || name->number != split.no + 1 || name->count != split.count) {
    fail(ErrorKind::kInput, "{}: it is shard {} of {} and must be named {}, as must its siblings",
         path.string(), split.no + 1, split.count,
         shard_file_name(name ? name->prefix : "PREFIX", split.no + 1, split.count));
  }
  if (split.no != 0) {
    fail(ErrorKind::kInput, "{}: it is shard {} of {}; give the first one, {}", path.string(),
         name->number, name->count, shard_file_name(name->prefix, 1, name->count));
  }
  std::vector<std::filesystem::path> paths = {path};
  std::vector<std::string> missing;
  for (std::int64_t number = 2; number <= split.count; ++number) {
    const std::string sibling = shard_file_name(name->prefix, number, split.count);
    paths.push_back(path.parent_path() / sibling);
    std::error_code error;
    if (!std::filesystem::exists(paths.back(), error)) missing.push_back(sibling);
  }
  if (!missing.empty()) {
    fail(ErrorKind::kInput,
         "{}: {} of its {} shards are missing from its folder, the first of them {}", path.string(),
         missing.size(), split.count, missing.front());
  }
  return paths;
}

}  // namespace

// ---- opening ----

File File::open(const std::filesystem::path& path) {
  std::vector<MappedFile> maps;
  std::vector<Shard> shards;
  const auto add = [&](const std::filesystem::path& shard_path) {
    maps.push_back(MappedFile::open(shard_path));
    shards.push_back(
        parse_shard(shard_path.string(), maps.back().bytes(), static_cast<int>(shards.size())));
  };
  add(path);
  const Split split = split_of(shards.front());
  if (split.count > 1) {
    const std::vector<std::filesystem::path> paths = shard_paths(path, split);
    std::for_each(paths.begin() + 1, paths.end(), add);
  }
  File file = assemble(shards);
  file.path_ = path;
  file.shards_ = std::move(maps);
  return file;
}

File File::from_bytes(std::span<const ShardBytes> shards) {
  std::vector<Shard> parsed;
  for (const ShardBytes& shard : shards) {
    parsed.push_back(parse_shard(shard.name, shard.bytes, static_cast<int>(parsed.size())));
  }
  File file = assemble(parsed);
  file.path_ = shards.front().name;
  return file;
}

File File::assemble(std::span<Shard> shards) {
  check_splits(shards);
  File file;
  file.version_ = shards.front().version;
  file.shard_count_ = shards.size();
  for (Shard& shard : shards) {
    file.total_bytes_ += shard.bytes.size();
    file.add_metadata(shard);
    file.add_tensors(shard, shards);
  }
  return file;
}

// The metadata is that of the first shard. Others repeat some of it at most: what they add is kept,
// what contradicts it means that the shards do not belong together.
void File::add_metadata(Shard& shard) {
  const bool is_first = metadata_.empty();
  for (std::size_t i = 0; i < shard.metadata.size(); ++i) {
    KeyValue& entry = shard.metadata[i];
    const bool per_shard = entry.key.starts_with(kSplitPrefix) || entry.key == kAlignmentKey;
    if (per_shard && !is_first) continue;
    const auto [known, is_new] = key_index_.try_emplace(entry.key, metadata_.size());
    if (is_new) {
      metadata_.push_back(std::move(entry));
      continue;
    }
    const KeyValue& first = metadata_[known->second];
    if (first.type_name != entry.type_name || first.value != entry.value) {
      fail(ErrorKind::kInput,
           "{}: byte {}: metadata entry {}: the value of {} differs from that of the shards "
           "before: shards of different files?",
           shard.name, shard.metadata_at[i], i, in_quotes(entry.key));
    }
  }
}

void File::add_tensors(const Shard& shard, std::span<const Shard> shards) {
  for (std::size_t i = 0; i < shard.tensors.size(); ++i) {
    const TensorInfo& tensor = shard.tensors[i];
    const auto [known, is_new] = tensor_index_.try_emplace(tensor.name, tensors_.size());
    if (!is_new) {
      const auto other = static_cast<std::size_t>(tensors_[known->second].shard);
      fail(ErrorKind::kInput,
           "{}: byte {}: tensor {} {}: the name is taken by another tensor of {}", shard.name,
           shard.tensors_at[i], i, in_quotes(tensor.name), shards[other].name);
    }
    tensors_.push_back(tensor);
  }
}

// ---- reading ----

namespace {

[[noreturn]] void wrong_type(const std::filesystem::path& path, const KeyValue& entry,
                             std::string_view expected) {
  fail(ErrorKind::kInput, "{}: metadata key {} is {}, expected {}", path.string(),
       in_quotes(entry.key), entry.type_name, expected);
}

template <class T>
const T* get_array(const std::filesystem::path& path, const KeyValue* entry,
                   std::string_view expected) {
  if (entry == nullptr) return nullptr;
  const T* array = std::get_if<T>(&entry->value);
  if (array == nullptr) wrong_type(path, *entry, expected);
  return array;
}

}  // namespace

const KeyValue* File::find_entry(std::string_view key) const noexcept {
  const auto it = key_index_.find(key);
  return it == key_index_.end() ? nullptr : &metadata_[it->second];
}

const Value* File::find(std::string_view key) const noexcept {
  const KeyValue* entry = find_entry(key);
  return entry == nullptr ? nullptr : &entry->value;
}

const TensorInfo* File::find_tensor(std::string_view name) const noexcept {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

std::optional<std::int64_t> File::get_int(std::string_view key) const {
  const KeyValue* entry = find_entry(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* s = std::get_if<std::int64_t>(&entry->value)) return *s;
  const auto* u = std::get_if<std::uint64_t>(&entry->value);
  if (u == nullptr) wrong_type(path_, *entry, "an integer");
  if (*u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    fail(ErrorKind::kInput, "{}: metadata key {} is {}, expected less than 2^63", path_.string(),
         in_quotes(key), *u);
  }
  return static_cast<std::int64_t>(*u);
}

std::optional<double> File::get_float(std::string_view key) const {
  const KeyValue* entry = find_entry(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* d = std::get_if<double>(&entry->value)) return *d;
  if (const auto* s = std::get_if<std::int64_t>(&entry->value)) return static_cast<double>(*s);
  const auto* u = std::get_if<std::uint64_t>(&entry->value);
  if (u == nullptr) wrong_type(path_, *entry, "a number");
  return static_cast<double>(*u);
}

std::optional<bool> File::get_bool(std::string_view key) const {
  const KeyValue* entry = find_entry(key);
  if (entry == nullptr) return std::nullopt;
  const auto* value = std::get_if<bool>(&entry->value);
  if (value == nullptr) wrong_type(path_, *entry, "bool");
  return *value;
}

std::optional<std::string_view> File::get_string(std::string_view key) const {
  const KeyValue* entry = find_entry(key);
  if (entry == nullptr) return std::nullopt;
  const auto* value = std::get_if<std::string_view>(&entry->value);
  if (value == nullptr) wrong_type(path_, *entry, "str");
  return *value;
}

const StringArray* File::get_strings(std::string_view key) const {
  return get_array<StringArray>(path_, find_entry(key), "an array of str");
}

const IntArray* File::get_ints(std::string_view key) const {
  return get_array<IntArray>(path_, find_entry(key), "an array of integers");
}

const FloatArray* File::get_floats(std::string_view key) const {
  return get_array<FloatArray>(path_, find_entry(key), "an array of floats");
}

void File::release(const TensorInfo& tensor, std::size_t offset, std::size_t size) const noexcept {
  if (shards_.empty() || offset > tensor.data.size()) return;
  const MappedFile& shard = shards_[static_cast<std::size_t>(tensor.shard)];
  const auto start = static_cast<std::size_t>(tensor.data.data() - shard.bytes().data());
  shard.release(start + offset, std::min(size, tensor.data.size() - offset));
}

}  // namespace strata::gguf
