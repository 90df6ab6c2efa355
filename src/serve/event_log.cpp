#include "strata/serve/event_log.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace strata::serve {
namespace {

using nlohmann::ordered_json;

std::string now() {
  const auto time = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch());
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)), ms.count() % 1000);
}

std::string dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// Neither ends the line or the value nor hides what it is: clients choose these bytes.
bool is_plain(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '"'; });
}

}  // namespace

EventLog::EventLog(std::shared_ptr<spdlog::sinks::sink> sink, Form form,
                   spdlog::level::level_enum level)
    : logger_("strata", std::move(sink)), form_(form) {
  logger_.set_level(level);
  logger_.set_pattern("%v");
  logger_.flush_on(spdlog::level::trace);
}

void EventLog::write(spdlog::level::level_enum level, std::string_view event,
                     const ordered_json& fields) {
  if (!logger_.should_log(level)) return;
  const auto name = spdlog::level::to_string_view(level);
  const std::string_view level_name(name.data(), name.size());
  if (form_ == Form::kJson) {
    ordered_json line = {{"time", now()}, {"level", level_name}, {"event", event}};
    line.update(fields);
    logger_.log(level, "{}", dump(line));
    return;
  }
  std::string line = fmt::format("{} {:<7} {}", now(), level_name, event);
  for (const auto& [key, value] : fields.items()) {
    const bool plain = value.is_string() && is_plain(value.get_ref<const std::string&>());
    line += fmt::format(" {}={}", key, plain ? value.get<std::string>() : dump(value));
  }
  logger_.log(level, "{}", line);
}

}  // namespace strata::serve
