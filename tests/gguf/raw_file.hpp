// GGUF files built byte by byte, so that a test can break any field of them and knows where it
// stands.
#pragma once

#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::gguf::test {

class RawFile {
 public:
  // Remembers where the next field starts.
  RawFile& mark(const std::string& field) {
    marks_[field] = bytes_.size();
    return *this;
  }
  template <class T>
  RawFile& put(T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
    return *this;
  }
  RawFile& text(std::string_view text) {
    put(std::uint64_t{text.size()});
    return raw(text);
  }
  RawFile& raw(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  RawFile& pad(std::size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  RawFile& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  RawFile& begin(std::uint32_t version, std::uint64_t tensors, std::uint64_t metadata) {
    return raw("GGUF")
        .mark("version")
        .put(version)
        .mark("tensor count")
        .put(tensors)
        .mark("metadata count")
        .put(metadata);
  }
  RawFile& key(std::string_view name, std::uint32_t type) {
    const std::string prefix(name);
    return mark(prefix).text(name).mark(prefix + " type").put(type).mark(prefix + " value");
  }
  RawFile& tensor(std::string_view name, const std::vector<std::int64_t>& ne, std::uint32_t type,
                  std::uint64_t offset) {
    const std::string prefix(name);
    mark(prefix).text(name).mark(prefix + " n_dims").put(static_cast<std::uint32_t>(ne.size()));
    mark(prefix + " ne");
    for (const std::int64_t n : ne) put(n);
    return mark(prefix + " type").put(type).mark(prefix + " offset").put(offset);
  }

  [[nodiscard]] std::size_t at(const std::string& field) const { return marks_.at(field); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

  // A copy with `value` in place of what stands at `offset`.
  template <class T>
  [[nodiscard]] std::vector<std::byte> with(std::size_t offset, T value) const {
    std::vector<std::byte> copy = bytes_;
    std::memcpy(copy.data() + offset, &value, sizeof(T));
    return copy;
  }

 private:
  std::vector<std::byte> bytes_;
  std::map<std::string, std::size_t> marks_;
};

inline File parse(std::span<const std::byte> bytes, const std::string& name = "test.gguf") {
  const ShardBytes shard{name, bytes};
  return File::from_bytes({&shard, 1});
}

// What opening says: nullopt when it succeeds. Only Error(kInput) may come out.
inline std::optional<std::string> parse_error(std::span<const std::byte> bytes) {
  try {
    (void)parse(bytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInput) throw;
    return error.what();
  }
  return std::nullopt;
}

// A small file with every value type and two tensors, F32 [2,3] and Q4_0 [64,2].
inline RawFile sample(std::uint32_t version = 3) {
  RawFile file;
  file.begin(version, 2, 16);
  file.key("a.u8", 0).put(std::uint8_t{200});
  file.key("a.i8", 1).put(std::int8_t{-100});
  file.key("a.u16", 2).put(std::uint16_t{60000});
  file.key("a.i16", 3).put(std::int16_t{-30000});
  file.key("a.u32", 4).put(std::uint32_t{4000000000});
  file.key("a.i32", 5).put(std::int32_t{-2000000000});
  file.key("a.f32", 6).put(1.5f);
  file.key("a.bool", 7).put(std::uint8_t{1});
  file.key("a.str", 8).text("gr\xC3\xBC\xC3\x9F dich");
  file.key("a.u64", 10).put(~std::uint64_t{0});
  file.key("a.i64", 11).put(std::int64_t{-5000000000});
  file.key("a.f64", 12).put(0.1);
  file.key("b.i32", 9)
      .put(std::uint32_t{5})
      .put(std::uint64_t{2})
      .put(std::int32_t{7})
      .put(std::int32_t{-8});
  file.key("b.str", 9).put(std::uint32_t{8}).put(std::uint64_t{2}).text("").text("two");
  file.key("b.bool", 9)
      .put(std::uint32_t{7})
      .put(std::uint64_t{3})
      .put(std::uint8_t{1})
      .put(std::uint8_t{0})
      .put(std::uint8_t{1});
  file.key("b.f32", 9).put(std::uint32_t{6}).put(std::uint64_t{1}).put(0.25f);
  file.tensor("norm.weight", {2, 3}, 0, 0).tensor("w", {64, 2}, 2, 32);
  file.mark("header end").pad(32).mark("data");
  for (int i = 0; i < 6; ++i) file.put(static_cast<float>(i));
  file.pad(32);
  for (int i = 0; i < 72; ++i) file.put(static_cast<std::uint8_t>(i));
  return file;
}

}  // namespace strata::gguf::test
