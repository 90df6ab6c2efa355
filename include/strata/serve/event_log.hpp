// What a server tells about its work: an event a line, as text for people or as JSON for programs.
#pragma once

#include <spdlog/logger.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string_view>

namespace strata::serve {

// Thread-safe where its sink is.
class EventLog {
 public:
  enum class Form { kText, kJson };

  // kText: "2026-01-31 12:00:00.000 info  request method=POST status=200"
  // kJson: {"time": ..., "level": ..., "event": "request", "method": "POST", "status": 200}
  EventLog(std::shared_ptr<spdlog::sinks::sink> sink, Form form, spdlog::level::level_enum level);

  // `fields`: an object of plain values. No prompts and no answers: they are the users' own.
  void write(spdlog::level::level_enum level, std::string_view event,
             const nlohmann::ordered_json& fields = nlohmann::ordered_json::object());

 private:
  spdlog::logger logger_;
  Form form_;
};

}  // namespace strata::serve
