#include "strata/serve/event_log.hpp"

#include "src/serve/fields.hpp"
#include "strata/base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace strata::serve {
namespace {

using nlohmann::ordered_json;

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
    ordered_json line = {{"time", utc_now()}, {"level", level_name}, {"event", event}};
    line.update(fields);
    logger_.log(level, "{}", to_text(line));
    return;
  }
  std::string line = fmt::format("{} {:<7} {}", utc_now(), level_name, event);
  for (const auto& [key, value] : fields.items()) {
    const bool plain = value.is_string() && is_plain(value.get_ref<const std::string&>());
    line += fmt::format(" {}={}", key, plain ? value.get<std::string>() : to_text(value));
  }
  logger_.log(level, "{}", line);
}

}  // namespace strata::serve
