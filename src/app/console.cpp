#include "src/app/console.hpp"

#include "strata/base/error.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

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

// Not through /dev/stdin, which cannot be opened where standard input is a socket.
std::string read_standard_input(std::size_t max_bytes) {
  std::string text;
  std::vector<char> piece(kBuffered);
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorKind::kIo, "standard input: {}", std::strerror(errno));
    text.append(piece.data(), static_cast<std::size_t>(count));
    if (text.size() > max_bytes) {
      fail(ErrorKind::kInput, "standard input: more than {} bytes", max_bytes);
    }
  }
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
