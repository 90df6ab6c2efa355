// Lines of standard input, with the terminal's own editing.
#pragma once

#include <string>

namespace strata::app {

class LineReader {
 public:
  enum class Result { kLine, kEnd, kInterrupted };

  // Waits for a line, without its line break. While an InterruptWatch lives, Ctrl-C gives
  // kInterrupted; the terminal has dropped what was typed then.
  [[nodiscard]] Result read(std::string& line);

 private:
  [[nodiscard]] bool fill();  // false: the end of the input

  std::string buffer_;
};

}  // namespace strata::app
