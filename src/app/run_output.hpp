// What `strata run` prints around and between the words of an answer: reports, events, speed.
#pragma once

#include "src/app/answer.hpp"
#include "src/app/console.hpp"
#include "src/app/status_line.hpp"

#include <functional>
#include <optional>
#include <string_view>

namespace strata::app {

class RunOutput {
 public:
  RunOutput(Console& console, Engine& engine, bool json, bool quiet)
      : console_(console),
        engine_(engine),
        json_(json),
        quiet_(quiet),
        status_(console.error_is_terminal && !quiet) {}

  void loaded(const runtime::SamplingParams& sampling);
  // Streams an answer to standard output.
  [[nodiscard]] AnswerEvents events(std::function<bool()> interrupted);
  // After each answer: why it ended, where that needs saying. In a chat its speed, too.
  void answered(const Answer& answer);
  void chat_speed(const Answer& answer);
  // A line for the user, unless --quiet.
  void note(std::string_view text);
  // Once, at the end: the speed of all answers.
  void finished();

 private:
  void event(const nlohmann::ordered_json& json);
  // Measured once, when somebody will see it; nullopt when there is no memory to measure with.
  [[nodiscard]] std::optional<double> peak();
  void end_event(const Answer& answer);

  Console& console_;
  Engine& engine_;
  bool json_;
  bool quiet_;
  StatusLine status_;
  bool on_fresh_line_ = true;  // does the terminal's cursor stand at a line's start?
  Phase prompt_, decode_;      // of all answers
  std::size_t reused_ = 0;
  std::size_t generated_ = 0;
  std::int64_t task_ = 0;  // number of the next answer in the audit log
};

}  // namespace strata::app
