// Reads the fields of a header in order, none of them past its end. Every failure is an
// Error(kInput) that names the file, the byte, the entry being read and the field.
#pragma once

#include "src/gguf/rules.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strata::gguf {

class Cursor {
 public:
  // Both must outlive the cursor; `name` is the file's, for messages.
  Cursor(std::string_view name, std::span<const std::byte> bytes)
      : name_(name), bytes_(bytes), end_(std::min<std::uint64_t>(bytes.size(), kMaxHeaderBytes)) {}

  [[nodiscard]] std::uint64_t offset() const noexcept { return at_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return end_ - at_; }

  // What is being read from here on: "metadata entry 3", later with the name it turned out to have.
  void enter(std::string_view kind, std::uint64_t index) {
    kind_ = kind;
    index_ = index;
    entry_name_ = {};
  }
  void enter_named(std::string_view entry_name) { entry_name_ = entry_name; }

  template <class T>
  [[nodiscard]] T read(std::string_view field) {
    T value;
    std::memcpy(&value, take(sizeof(T), field).data(), sizeof(T));
    return value;
  }

  [[nodiscard]] std::span<const std::byte> take(std::uint64_t size, std::string_view field) {
    if (size > left()) {
      fail_at(at_, "{} takes {} bytes, but {}", field, size, what_is_left());
    }
    const auto taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }

  // A 64-bit length and that many bytes.
  [[nodiscard]] std::string_view string(std::string_view field) {
    const std::uint64_t length_at = at_;
    if (left() < sizeof(std::uint64_t)) {
      fail_at(at_, "the length of {} takes 8 bytes, but {}", field, what_is_left());
    }
    const auto length = read<std::uint64_t>(field);
    if (length > left()) {
      fail_at(length_at, "{} has length {}, but {}", field, length, what_is_left());
    }
    const auto text = take(length, field);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // A 64-bit count of items that take at least `min_bytes` each: never more than there is room for.
  [[nodiscard]] std::uint64_t count(std::string_view field, std::uint64_t min_bytes) {
    const std::uint64_t count_at = at_;
    const auto count = read<std::uint64_t>(field);
    if (count > left() / min_bytes) {
      fail_at(count_at, "{} is {}, but there is room for {} at most: {}", field, count,
              left() / min_bytes, what_is_left());
    }
    return count;
  }

  template <class... Args>
  [[noreturn]] void fail_at(std::uint64_t offset, fmt::format_string<Args...> format,
                            Args&&... args) const {
    fail(ErrorKind::kInput, "{}: byte {}: {}{}", name_, offset, entry(),
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  [[nodiscard]] std::string entry() const {
    if (kind_.empty()) return {};
    if (entry_name_.empty()) return fmt::format("{} {}: ", kind_, index_);
    return fmt::format("{} {} {}: ", kind_, index_, in_quotes(entry_name_));
  }

  [[nodiscard]] std::string what_is_left() const {
    if (end_ < bytes_.size()) {
      return fmt::format("a header may have at most {} bytes and {} of them are left", end_,
                         left());
    }
    return fmt::format("only {} bytes are left in the file (is it complete?)", left());
  }

  std::string_view name_;
  std::span<const std::byte> bytes_;
  std::uint64_t end_;
  std::uint64_t at_ = 0;
  std::string_view kind_;  // empty: the fixed part in front
  std::uint64_t index_ = 0;
  std::string_view entry_name_;
};

}  // namespace strata::gguf
