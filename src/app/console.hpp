// Where a command writes: results to standard output, everything else to standard error.
#pragma once

#include <fmt/core.h>
#include <spdlog/logger.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace strata::app {

// Whoever read our standard output has gone: the command ends at once and without complaint.
struct OutputClosed {};

// Results, buffered until flush(). Errors of writing: OutputClosed, or Error(kIo), or
// Error(kResource) for a full disk.
class Output {
 public:
  void write(std::string_view text);
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void flush();

 private:
  std::string buffer_;
};

// Standard input to its end. Error(kIo), or Error(kInput) for more than `max_bytes`.
[[nodiscard]] std::string read_standard_input(std::size_t max_bytes);

struct Console {
  Console();

  // A line of plain text on standard error.
  void note(std::string_view text);

  Output out;
  spdlog::logger log;  // "strata: warning: ..." on standard error
  bool input_is_terminal;
  bool output_is_terminal;
  bool error_is_terminal;
};

}  // namespace strata::app
