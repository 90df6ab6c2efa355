#include "src/app/run_output.hpp"

#include "src/app/cache_report.hpp"
#include "src/app/sampling_options.hpp"
#include "strata/base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace strata::app {
namespace {

nlohmann::ordered_json speed_json(const Phase& phase) {
  return {{"tokens", phase.tokens},
          {"seconds", phase.seconds},
          {"tokens_per_second", phase.tokens_per_second()},
          {"bytes_per_token", phase.bytes_per_token()},
          {"gb_per_s", phase.bytes_per_second() / 1e9},
          {"parts", parts_json(phase)}};
}

}  // namespace

void RunOutput::event(const nlohmann::ordered_json& json) {
  console_.out.write(json_line(json));
  console_.out.flush();
}

void RunOutput::loaded(const runtime::SamplingParams& sampling) {
  if (json_) {
    nlohmann::ordered_json json = {{"event", "load"}};
    json.update(load_json(engine_));
    json["sampling"] = to_json(sampling);
    event(json);
  } else {
    note(start_report(engine_));
    note(fmt::format("sampling {}\n", describe(sampling)));
  }
}

AnswerEvents RunOutput::events(std::function<bool()> interrupted) {
  AnswerEvents events;
  events.interrupted = std::move(interrupted);
  events.prompt_progress = [this](std::size_t done, std::size_t total) {
    status_.show("Reading the prompt", static_cast<double>(done) / static_cast<double>(total));
  };
  events.prompt_done = [this](const Answer& answer) {
    status_.clear();
    if (!json_) return;
    event({{"event", "prompt"},
           {"tokens", answer.reused + answer.prompt.tokens},
           {"reused", answer.reused},
           {"seconds", answer.prompt.seconds},
           {"tokens_per_second", answer.prompt.tokens_per_second()}});
  };
  events.token = [this](std::int32_t id, std::string_view text) {
    if (json_) {
      nlohmann::ordered_json json = {{"event", "token"}, {"id", nullptr}, {"text", text}};
      if (id >= 0) json["id"] = id;
      event(json);
    } else if (!text.empty()) {
      console_.out.write(text);
      console_.out.flush();
      on_fresh_line_ = text.back() == '\n';
    }
  };
  return events;
}

void RunOutput::answered(const Answer& answer) {
  prompt_ += answer.prompt;
  decode_ += answer.decode;
  reused_ += answer.reused;
  generated_ += answer.generated;
  engine_.audit({0, task_++, answer.reused + answer.prompt.tokens, answer.generated,
                 answer.prompt.seconds, answer.decode.seconds});
  if (json_) {
    end_event(answer);
    return;
  }
  if (!std::exchange(on_fresh_line_, true)) {
    console_.out.write("\n");
    console_.out.flush();
  }
  if (answer.reason == EndReason::kContext) {
    console_.log.warn("the answer ends here: the context of {} tokens is full; -c sets its size",
                      engine_.context());
  } else if (answer.reason == EndReason::kInterrupt) {
    note("[interrupted]");
  } else if (answer.reason == EndReason::kLength) {
    note(fmt::format("[ended by -n after {} tokens]", answer.generated));
  }
}

void RunOutput::note(std::string_view text) {
  if (!quiet_ && !json_) console_.note(text);
}

void RunOutput::chat_speed(const Answer& answer) {
  note(fmt::format(
      "[prompt {} tokens, {} reused, {:.0f} tokens/s; answer {} tokens, {:.1f} tokens/s]",
      answer.reused + answer.prompt.tokens, answer.reused, answer.prompt.tokens_per_second(),
      answer.generated, answer.decode.tokens_per_second()));
}

std::optional<double> RunOutput::peak() {
  try {
    return engine_.measure_read_bandwidth();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    return std::nullopt;
  }
}

void RunOutput::finished() {
  if (json_ || quiet_ || prompt_.tokens == 0) return;
  console_.note(fmt::format("\nprompt   {} tokens in {}, {:.1f} tokens/s{}", prompt_.tokens,
                            format_seconds(prompt_.seconds), prompt_.tokens_per_second(),
                            reused_ > 0 ? fmt::format(" ({} more reused)", reused_) : ""));
  if (decode_.tokens == 0) return;
  const std::optional<double> memory = peak();
  console_.note(fmt::format("answer   {} tokens, {:.1f} tokens/s; {}", generated_,
                            decode_.tokens_per_second(),
                            memory ? share_of_peak(decode_, *memory)
                                   : fmt::format("{:.1f} GB/s", decode_.bytes_per_second() / 1e9)));
  console_.note(fmt::format("a token  {}", parts_of_token(decode_)));
  if (const std::string cache = cache_summary(engine_); !cache.empty()) console_.note(cache);
}

void RunOutput::end_event(const Answer& answer) {
  nlohmann::ordered_json json = {{"event", "end"},
                                 {"reason", end_reason_name(answer.reason)},
                                 {"prompt_tokens", answer.reused + answer.prompt.tokens},
                                 {"reused", answer.reused},
                                 {"generated", answer.generated},
                                 {"prompt", speed_json(answer.prompt)},
                                 {"answer", speed_json(answer.decode)}};
  if (engine_.caching() != nullptr) json["cache"] = cache_json(engine_);
  if (!quiet_) {
    if (const std::optional<double> memory = peak()) {
      json["read_bandwidth_gb_s"] = *memory / 1e9;
      json["share_of_peak"] = answer.decode.bytes_per_second() / *memory;
    }
  }
  event(json);
}

}  // namespace strata::app
