#include "src/app/console.hpp"

#include "strata/base/error.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace strata::app {
namespace {

constexpr std::size_t kBuffered = std::size_t{64} << 10;

}  // namespace

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBuffered) flush();
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EPIPE) throw OutputClosed{};
    const bool full = errno == ENOSPC || errno == EDQUOT;
    fail(full ? ErrorKind::kResource : ErrorKind::kIo, "standard output: {}", std::strerror(errno));
  }
  buffer_.clear();
}

Console::Console()
    : log("strata", std::make_shared<spdlog::sinks::stderr_color_sink_st>()),
      input_is_terminal(::isatty(STDIN_FILENO) == 1),
      output_is_terminal(::isatty(STDOUT_FILENO) == 1),
      error_is_terminal(::isatty(STDERR_FILENO) == 1) {
  log.set_pattern("strata: %^%l%$: %v");
}

void Console::note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

}  // namespace strata::app
