// Cases whose results jinja2 gave: see tools/check_templates.py.
#pragma once

#include "strata/text/jinja.hpp"

#include "strata/base/error.hpp"

#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::test {

// 2025-07-04 09:08:07, what the expected texts take as the time.
inline constexpr CivilTime kNow{std::chrono::seconds(1751620087)};

// What came of a template: a text, or the message of an error and where it arose.
struct Outcome {
  std::string text;
  std::string error;
  bool parsed = false;
};

inline std::string joined(std::span<const RenderedSegment> segments) {
  std::string text;
  for (const RenderedSegment& segment : segments) text += segment.text;
  return text;
}

// Renders with the members of `context` as variables.
inline Outcome render(std::string_view source, const nlohmann::ordered_json& context,
                      const JinjaLimits& limits = {}) {
  Outcome outcome;
  try {
    const JinjaTemplate parsed = JinjaTemplate::parse(source, limits);
    outcome.parsed = true;
    std::vector<JinjaVariable> variables;
    for (const auto& [name, value] : context.items()) variables.push_back({name, &value});
    outcome.text = joined(parsed.render(variables, kNow));
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

inline std::string data_path(std::string_view name) {
  return std::string(STRATA_SOURCE_DIR) + "/tests/data/templates/" + std::string(name);
}

inline nlohmann::ordered_json load(std::string_view name) {
  const std::string path = data_path(name);
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  return nlohmann::ordered_json::parse(file);
}

// Empty when the outcome is what jinja2's was, else what differs.
inline std::string difference(const Outcome& outcome, const nlohmann::ordered_json& expected) {
  if (expected.contains("text")) {
    if (!outcome.error.empty()) return "fails: " + outcome.error;
    const auto text = expected["text"].get<std::string>();
    return outcome.text == text ? "" : "gives: " + outcome.text + "\ninstead of: " + text;
  }
  const auto kind = expected["error"].get<std::string>();
  if (outcome.error.empty())
    return "gives: " + outcome.text + "\ninstead of an error: " + expected.dump();
  if (outcome.parsed == (kind == "syntax")) return "fails at the wrong time: " + outcome.error;
  std::string wanted;
  if (kind == "raise") wanted = expected["message"].get<std::string>();
  if (expected.contains("line")) wanted = "line " + expected["line"].dump() + ":";
  return outcome.error.find(wanted) != std::string::npos
             ? ""
             : "fails with: " + outcome.error + "\nwithout: " + wanted;
}

}  // namespace strata::text::test
