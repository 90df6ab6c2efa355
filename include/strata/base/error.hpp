// The one exception type of the engine: every failure a user can cause or meet ends as an Error
// whose text says what failed, where, and what to do about it. Programming mistakes are assertions,
// not Errors.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace strata {

// What went wrong, as the outside sees it: `strata` exits with the number, the server maps it to an
// HTTP status.
enum class ErrorKind {
  kUsage = 2,        // a flag, an argument or a request that cannot be obeyed
  kInput = 3,        // a file or text with wrong content: a broken GGUF, an unsupported model
  kIo = 4,           // the operating system refused to open, read or write
  kResource = 5,     // too little memory, too few threads, a full disk
  kUnsupported = 6,  // this machine or build lacks what was asked for
  kInternal = 70,    // our mistake: please report
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] int exit_code() const noexcept { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

// fail(ErrorKind::kInput, "{}: tensor '{}' ends at {} but the file has {} bytes", ...)
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace strata
