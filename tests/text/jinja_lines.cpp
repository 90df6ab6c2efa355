// Renders templates for tools/check_templates.py, which compares the results with jinja2's. Reads
// one JSON object a line, {"template": ..., "context": {...}, "now": seconds}, and answers each
// with {"text": ...} or {"error": ..., "stage": ...}.
#include "strata/text/jinja.hpp"

#include "strata/base/error.hpp"

#include <iostream>
#include <string>

namespace {

using nlohmann::ordered_json;
using namespace strata::text;

ordered_json answer(const ordered_json& request) {
  std::string stage = "parse";
  try {
    const JinjaTemplate parsed =
        JinjaTemplate::parse(request.at("template").get_ref<const std::string&>());
    stage = "render";
    std::vector<JinjaVariable> variables;
    for (const auto& [name, value] : request.at("context").items()) {
      variables.push_back({name, &value});
    }
    const CivilTime now(std::chrono::seconds(request.at("now").get<std::int64_t>()));
    std::string text;
    for (const RenderedSegment& segment : parsed.render(variables, now)) {
      text += segment.text;
    }
    return {{"text", text}};
  } catch (const strata::Error& error) {
    return {{"error", error.what()}, {"stage", stage}};
  }
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(ordered_json::parse(line)).dump() << std::endl;
  }
}
