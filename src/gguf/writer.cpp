#include "strata/gguf/writer.hpp"

#include "src/gguf/output_file.hpp"
#include "src/gguf/rules.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

namespace strata::gguf {
namespace {

constexpr std::uint64_t kFixedHeaderBytes = 4 + 4 + 8 + 8;  // magic, version, the two counts
constexpr std::uint64_t kChunkBytes = std::uint64_t{4} << 20;

template <class T>
constexpr ValueType value_type_of() {
  if constexpr (std::is_same_v<T, bool>) return ValueType::kBool;
  if constexpr (std::is_same_v<T, std::uint8_t>) return ValueType::kU8;
  if constexpr (std::is_same_v<T, std::int8_t>) return ValueType::kI8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return ValueType::kU16;
  if constexpr (std::is_same_v<T, std::int16_t>) return ValueType::kI16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return ValueType::kU32;
  if constexpr (std::is_same_v<T, std::int32_t>) return ValueType::kI32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return ValueType::kU64;
  if constexpr (std::is_same_v<T, std::int64_t>) return ValueType::kI64;
  if constexpr (std::is_same_v<T, float>) return ValueType::kF32;
  if constexpr (std::is_same_v<T, double>) return ValueType::kF64;
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void put_text(std::vector<std::byte>& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T>
void put_entry(std::vector<std::byte>& out, std::string_view key, T value) {
  put_text(out, key);
  put(out, value_type_of<T>());
  put(out, value);
}

std::uint64_t info_bytes(std::string_view name, std::size_t n_dims) {
  return 8 + name.size() + 4 + 8 * n_dims + 4 + 8;
}

}  // namespace

// ---- metadata ----

Writer::Writer(const WriterOptions& options) : options_(options) {
  if (options.version != 2 && options.version != 3) {
    fail(ErrorKind::kUsage, "GGUF version {} cannot be written, only 2 and 3", options.version);
  }
  if (!valid_alignment(options.alignment)) {
    fail(ErrorKind::kUsage, "the alignment {} is no power of two of at least {}", options.alignment,
         kMinAlignment);
  }
}

void Writer::begin_entry(std::string_view key, std::uint32_t type) {
  if (key.empty() || key.size() > kMaxKeyBytes || !is_utf8(key)) {
    fail(ErrorKind::kUsage, "the metadata key {} is not 1 to {} bytes of UTF-8", in_quotes(key),
         kMaxKeyBytes);
  }
  if (key == kAlignmentKey || key.starts_with(kSplitPrefix)) {
    fail(ErrorKind::kUsage, "the metadata key {} is written from the WriterOptions",
         in_quotes(key));
  }
  if (!keys_.emplace(key).second) {
    fail(ErrorKind::kUsage, "the metadata key {} was added before", in_quotes(key));
  }
  put_text(metadata_, key);
  put(metadata_, type);
  ++metadata_count_;
}

template <MetadataNumber T>
void Writer::add(std::string_view key, T value) {
  begin_entry(key, static_cast<std::uint32_t>(value_type_of<T>()));
  put(metadata_, value);
}

void Writer::add(std::string_view key, std::string_view text) {
  begin_entry(key, static_cast<std::uint32_t>(ValueType::kString));
  put_text(metadata_, text);
}

void Writer::begin_array(std::string_view key, std::uint32_t type, std::uint64_t count) {
  begin_entry(key, static_cast<std::uint32_t>(ValueType::kArray));
  put(metadata_, type);
  put(metadata_, count);
}

void Writer::begin_strings(std::string_view key, std::uint64_t count) {
  begin_array(key, static_cast<std::uint32_t>(ValueType::kString), count);
}

void Writer::put_string(std::string_view text) { put_text(metadata_, text); }

template <MetadataNumber T>
void Writer::add_numbers(std::string_view key, std::span<const T> values) {
  begin_array(key, static_cast<std::uint32_t>(value_type_of<T>()), values.size());
  const auto bytes = std::as_bytes(values);
  metadata_.insert(metadata_.end(), bytes.begin(), bytes.end());
}

template <class T>
bool Writer::copy_as(const KeyValue& entry) {
  using Wide = std::conditional_t<
      std::is_same_v<T, bool>, bool,
      std::conditional_t<std::is_floating_point_v<T>, double,
                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>>;
  using WideArray = std::conditional_t<std::is_floating_point_v<T>, FloatArray, IntArray>;
  const ValueTypeTraits& type = value_traits(value_type_of<T>());
  if (entry.type_name == type.name) {
    add(entry.key, static_cast<T>(std::get<Wide>(entry.value)));
    return true;
  }
  if (entry.type_name == type.array_name) {
    const auto& values = std::get<WideArray>(entry.value);
    begin_array(entry.key, static_cast<std::uint32_t>(value_type_of<T>()), values.size());
    for (const auto value : values) put(metadata_, static_cast<T>(value));
    return true;
  }
  return false;
}

void Writer::add(const KeyValue& entry) {
  if (const auto* text = std::get_if<std::string_view>(&entry.value)) return add(entry.key, *text);
  if (const auto* texts = std::get_if<StringArray>(&entry.value)) {
    return add_array(entry.key, *texts);
  }
  const bool known = copy_as<bool>(entry) || copy_as<std::uint8_t>(entry) ||
                     copy_as<std::int8_t>(entry) || copy_as<std::uint16_t>(entry) ||
                     copy_as<std::int16_t>(entry) || copy_as<std::uint32_t>(entry) ||
                     copy_as<std::int32_t>(entry) || copy_as<std::uint64_t>(entry) ||
                     copy_as<std::int64_t>(entry) || copy_as<float>(entry) ||
                     copy_as<double>(entry);
  if (!known) {
    fail(ErrorKind::kUsage, "metadata key {}: no type is called {}", in_quotes(entry.key),
         entry.type_name);
  }
}

// ---- tensors ----

void Writer::add_tensor(std::string_view name, Type type, std::vector<std::int64_t> ne,
                        std::span<const std::byte> data) {
  add_any_tensor({std::string(name), type, std::move(ne), data.size(), data, {}});
}

void Writer::add_tensor(std::string_view name, Type type, std::vector<std::int64_t> ne, Fill fill) {
  const std::uint64_t bytes = tensor_bytes(type, ne).value_or(0);  // nullopt fails below
  add_any_tensor({std::string(name), type, std::move(ne), bytes, {}, std::move(fill)});
}

void Writer::add_any_tensor(Tensor tensor) {
  const std::string& name = tensor.name;
  if (name.empty() || name.size() > kMaxTensorNameBytes || !is_utf8(name)) {
    fail(ErrorKind::kUsage, "the tensor name {} is not 1 to {} bytes of UTF-8", in_quotes(name),
         kMaxTensorNameBytes);
  }
  if (tensor.ne.empty() || tensor.ne.size() > kMaxDims) {
    fail(ErrorKind::kUsage, "tensor {} has {} dimensions, expected 1 to {}", in_quotes(name),
         tensor.ne.size(), kMaxDims);
  }
  const auto bytes = tensor_bytes(tensor.type, tensor.ne);
  if (!bytes) {
    fail(ErrorKind::kUsage,
         "tensor {}: a row of {} elements is no whole number of {} blocks, or a dimension is no "
         "positive number",
         in_quotes(name), tensor.ne[0], traits(tensor.type).name);
  }
  if (tensor.bytes != *bytes) {
    fail(ErrorKind::kUsage, "tensor {} has {} bytes of data, expected {}", in_quotes(name),
         tensor.bytes, *bytes);
  }
  // With this bound no sum of sizes below can overflow.
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
  if (*bytes > kMostBytes - total_bytes_) {
    fail(ErrorKind::kUsage, "with tensor {} the file would take more than 2^62 bytes",
         in_quotes(name));
  }
  if (!tensor_names_.insert(name).second) {
    fail(ErrorKind::kUsage, "tensor {} was added before", in_quotes(name));
  }
  total_bytes_ += *bytes;
  tensors_.push_back(std::move(tensor));
}

// ---- shards ----

// Tensors [first, last) of one file, and the bytes it takes.
struct Writer::ShardPlan {
  std::size_t first = 0;
  std::size_t last = 0;
  std::uint64_t header_bytes = 0;  // without the padding behind it
  std::uint64_t data_bytes = 0;    // each tensor padded to the alignment
};

namespace {

// The entries that the options ask for rather than add(): the alignment, and which shard of how
// many this is.
struct OwnEntries {
  std::vector<std::byte> bytes;
  std::uint64_t count = 0;
};

OwnEntries own_entries(std::uint32_t alignment, std::size_t shard, std::size_t shards,
                       std::size_t tensors) {
  OwnEntries own;
  const auto add = [&](std::string_view key, auto value) {
    put_entry(own.bytes, key, value);
    ++own.count;
  };
  if (alignment != kDefaultAlignment) add(kAlignmentKey, alignment);
  if (shards > 1) {
    add(kSplitNoKey, static_cast<std::uint16_t>(shard));
    add(kSplitCountKey, static_cast<std::uint16_t>(shards));
    add(kSplitTensorsKey, static_cast<std::int32_t>(tensors));
  }
  return own;
}

}  // namespace

std::uint64_t Writer::file_bytes(const ShardPlan& shard) const {
  if (shard.first == shard.last) return shard.header_bytes;
  return align_up(shard.header_bytes, options_.alignment) + shard.data_bytes;
}

void Writer::append(ShardPlan& shard) const {
  const Tensor& tensor = tensors_[shard.last++];
  shard.header_bytes += info_bytes(tensor.name, tensor.ne.size());
  shard.data_bytes += align_up(tensor.bytes, options_.alignment);
}

Writer::ShardPlan Writer::empty_shard(std::size_t first, std::size_t number,
                                      std::size_t shards) const {
  ShardPlan shard{first, first, kFixedHeaderBytes, 0};
  shard.header_bytes +=
      own_entries(options_.alignment, number, shards, tensors_.size()).bytes.size();
  if (number == 0) shard.header_bytes += metadata_.size();
  return shard;
}

// Tensors in order, each shard as full as the limit allows.
std::vector<Writer::ShardPlan> Writer::plan() const {
  ShardPlan whole = empty_shard(0, 0, 1);
  while (whole.last < tensors_.size()) append(whole);
  if (whole.header_bytes > kMaxHeaderBytes) {
    fail(ErrorKind::kUsage, "the metadata and tensor list take {} bytes, expected at most {}",
         whole.header_bytes, kMaxHeaderBytes);
  }
  const std::uint64_t limit = options_.max_shard_bytes;
  if (limit == 0 || file_bytes(whole) <= limit) return {whole};

  std::vector<ShardPlan> shards;
  for (std::size_t next = 0; next < tensors_.size(); next = shards.back().last) {
    // The keys of a split take the same bytes for any number of shards.
    shards.push_back(empty_shard(next, shards.size(), 2));
    while (shards.back().last < tensors_.size()) {
      ShardPlan grown = shards.back();
      append(grown);
      if (file_bytes(grown) > limit) break;
      shards.back() = grown;
    }
    if (shards.back().first == shards.back().last) {
      fail(ErrorKind::kUsage,
           "a file of at most {} bytes has no room for {} bytes of header and tensor {} of {}",
           limit, shards.back().header_bytes, in_quotes(tensors_[next].name), tensors_[next].bytes);
    }
  }
  if (shards.size() < 2 || shards.size() > std::numeric_limits<std::uint16_t>::max()) {
    fail(ErrorKind::kUsage, "files of at most {} bytes would make {} shards, expected 2 to 65535",
         limit, shards.size());
  }
  return shards;
}

std::vector<std::byte> Writer::header(const ShardPlan& shard, std::size_t number,
                                      std::size_t shards) const {
  const OwnEntries own = own_entries(options_.alignment, number, shards, tensors_.size());
  std::vector<std::byte> out;
  out.reserve(align_up(shard.header_bytes, options_.alignment));
  const auto magic = std::as_bytes(std::span(kMagic));
  out.insert(out.end(), magic.begin(), magic.end());
  put(out, options_.version);
  put(out, std::uint64_t{shard.last - shard.first});
  put(out, own.count + (number == 0 ? metadata_count_ : 0));
  if (number == 0) out.insert(out.end(), metadata_.begin(), metadata_.end());
  out.insert(out.end(), own.bytes.begin(), own.bytes.end());
  std::uint64_t offset = 0;
  for (std::size_t i = shard.first; i < shard.last; ++i) {
    const Tensor& tensor = tensors_[i];
    put_text(out, tensor.name);
    put(out, static_cast<std::uint32_t>(tensor.ne.size()));
    for (const std::int64_t ne : tensor.ne) put(out, ne);
    put(out, tensor.type);
    put(out, offset);
    offset += align_up(tensor.bytes, options_.alignment);
  }
  if (shard.first != shard.last) out.resize(align_up(out.size(), options_.alignment));
  return out;
}

void Writer::write_tensor(OutputFile& file, const Tensor& tensor,
                          std::vector<std::byte>& chunk) const {
  if (!tensor.fill) {
    file.write(tensor.data);
  } else {
    const std::uint64_t row = row_bytes(tensor.type, tensor.ne[0]).value();
    chunk.resize(std::max(row, kChunkBytes / row * row));
    for (std::uint64_t offset = 0; offset < tensor.bytes; offset += chunk.size()) {
      const auto part =
          std::span(chunk).first(std::min<std::uint64_t>(chunk.size(), tensor.bytes - offset));
      tensor.fill(offset, part);
      file.write(part);
    }
  }
  const std::vector<std::byte> padding(align_up(tensor.bytes, options_.alignment) - tensor.bytes);
  file.write(padding);
}

std::vector<std::filesystem::path> Writer::write(const std::filesystem::path& path) const {
  const std::vector<ShardPlan> shards = plan();
  std::vector<std::filesystem::path> paths = {path};
  if (shards.size() > 1) {
    if (path.extension() != ".gguf") {
      fail(ErrorKind::kUsage, "{}: the name of a file to be split must end in .gguf",
           path.string());
    }
    paths.clear();
    for (std::size_t i = 0; i < shards.size(); ++i) {
      paths.push_back(path.parent_path() /
                      shard_file_name(path.stem().string(), static_cast<std::int64_t>(i + 1),
                                      static_cast<std::int64_t>(shards.size())));
    }
  }
  std::vector<OutputFile> files;
  std::vector<std::byte> chunk;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    files.emplace_back(paths[i], file_bytes(shards[i]));
    files.back().write(header(shards[i], i, shards.size()));
    for (std::size_t t = shards[i].first; t < shards[i].last; ++t) {
      write_tensor(files.back(), tensors_[t], chunk);
    }
    files.back().finish();
  }
  // The first shard, by which a model is opened, comes last.
  for (auto file = files.rbegin(); file != files.rend(); ++file) file->publish();
  return paths;
}

template void Writer::add(std::string_view, bool);
template void Writer::add(std::string_view, std::uint8_t);
template void Writer::add(std::string_view, std::int8_t);
template void Writer::add(std::string_view, std::uint16_t);
template void Writer::add(std::string_view, std::int16_t);
template void Writer::add(std::string_view, std::uint32_t);
template void Writer::add(std::string_view, std::int32_t);
template void Writer::add(std::string_view, std::uint64_t);
template void Writer::add(std::string_view, std::int64_t);
template void Writer::add(std::string_view, float);
template void Writer::add(std::string_view, double);
template void Writer::add_numbers(std::string_view, std::span<const bool>);
template void Writer::add_numbers(std::string_view, std::span<const std::uint8_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::int8_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::uint16_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::int16_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::uint32_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::int32_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::uint64_t>);
template void Writer::add_numbers(std::string_view, std::span<const std::int64_t>);
template void Writer::add_numbers(std::string_view, std::span<const float>);
template void Writer::add_numbers(std::string_view, std::span<const double>);

}  // namespace strata::gguf
