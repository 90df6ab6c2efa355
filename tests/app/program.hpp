// Runs the real program, with its streams as pipes or at a pseudo-terminal.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::app::test {

inline const std::string kDemo = std::string(STRATA_SOURCE_DIR) + "/data/strata-demo.gguf";

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in:\n" << text;
  }
}

struct Ended {
  int code = -1;  // exit code; 128 + the signal's number when one ended it
  std::string out, err;

  [[nodiscard]] std::vector<nlohmann::json> events() const {  // of --json
    std::vector<nlohmann::json> events;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      events.push_back(nlohmann::json::parse(line));
    }
    return events;
  }
  [[nodiscard]] nlohmann::json last_event() const {
    const std::vector<nlohmann::json> all = events();
    return all.empty() ? nlohmann::json::object() : all.back();
  }
};

inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// In the child: becomes the program. SIGINT is as at a terminal, whatever started the tests.
[[noreturn]] inline void become_program(const std::vector<std::string>& arguments) {
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv = {const_cast<char*>(STRATA_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(STRATA_PROGRAM, argv.data());
  ::_exit(127);
}

// A running program whose three streams are pipes.
class Program {
 public:
  explicit Program(const std::vector<std::string>& arguments) {
    int in[2], out[2], err[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 ||
        ::pipe2(err, O_CLOEXEC) != 0) {
      throw std::runtime_error("pipe2 failed");
    }
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      become_program(arguments);
    }
    ::close(in[0]);
    ::close(out[1]);
    ::close(err[1]);
    in_ = in[1];
    out_ = out[0];
    err_ = err[0];
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    close_input();
    close_output();
    ::close(err_);
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      wait_for(child_);
    }
  }

  void send(std::string_view text) const {
    ::signal(SIGPIPE, SIG_IGN);
    while (!text.empty()) {
      const ssize_t written = ::write(in_, text.data(), text.size());
      if (written <= 0) return;  // the program does not want it
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }
  void close_input() {
    if (in_ >= 0) ::close(in_);
    in_ = -1;
  }
  void close_output() {
    if (out_ >= 0) ::close(out_);
    out_ = -1;
  }
  void signal(int number) const { ::kill(child_, number); }

  // A line of standard output, with its line break; what there is at its end.
  [[nodiscard]] std::string read_line() const {
    std::string line;
    char c = 0;
    while (::read(out_, &c, 1) == 1) {
      line += c;
      if (c == '\n') break;
    }
    return line;
  }

  // Everything it still prints, and how it ends.
  [[nodiscard]] Ended finish() {
    Ended ended;
    close_input();
    pollfd files[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    std::string* texts[] = {&ended.out, &ended.err};
    while (files[0].fd >= 0 || files[1].fd >= 0) {
      ::poll(files, 2, -1);
      for (int i = 0; i < 2; ++i) {
        if (files[i].fd < 0 || files[i].revents == 0) continue;
        char piece[65536];
        const ssize_t count = ::read(files[i].fd, piece, sizeof(piece));
        if (count > 0) texts[i]->append(piece, static_cast<std::size_t>(count));
        if (count <= 0) files[i].fd = -1;
      }
    }
    ended.code = wait_for(std::exchange(child_, -1));
    return ended;
  }

 private:
  pid_t child_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
};

inline Ended run(const std::vector<std::string>& arguments, std::string_view input = "") {
  Program program(arguments);
  program.send(input);
  return program.finish();
}

// The program at a terminal, as a user has it.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& arguments) {
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ == 0) become_program(arguments);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    ::close(terminal_);
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      wait_for(child_);
    }
  }

  void type(std::string_view text) const {
    ASSERT_EQ(::write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Waits until the text appears after what earlier calls have found; returns what came before it.
  // Fails the test, with all that is on the screen, after a minute or at the program's end.
  std::string expect(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      const std::size_t at = screen_.find(text, seen_);
      if (at != std::string::npos) {
        std::string before = screen_.substr(seen_, at - seen_);
        seen_ = at + text.size();
        return before;
      }
      if (std::chrono::steady_clock::now() > deadline || !read_more()) {
        ADD_FAILURE() << "'" << text << "' did not appear on the terminal:\n" << screen_;
        return {};
      }
    }
  }
  // Reads to the program's end; its exit code.
  int finish() {
    while (read_more()) {
    }
    return wait_for(std::exchange(child_, -1));
  }
  [[nodiscard]] pid_t process() const { return child_; }
  [[nodiscard]] const std::string& screen() const { return screen_; }

 private:
  // False at the end, which a terminal reports as EIO.
  bool read_more() {
    pollfd file{terminal_, POLLIN, 0};
    if (::poll(&file, 1, 60'000) != 1) return false;
    char piece[4096];
    const ssize_t count = ::read(terminal_, piece, sizeof(piece));
    if (count <= 0) return false;
    screen_.append(piece, static_cast<std::size_t>(count));
    return true;
  }

  pid_t child_ = -1;
  int terminal_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

// It ended with this code, said so in one error, and the error has all of the words.
inline void expect_error(const Ended& ended, int code, const std::vector<std::string>& words) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_NE(ended.err.find("strata: error: "), std::string::npos) << ended.err;
  for (const std::string& word : words) {
    EXPECT_NE(ended.err.find(word), std::string::npos) << "'" << word << "' in: " << ended.err;
  }
}

}  // namespace strata::app::test
