#include "src/serve/ascii.hpp"
#include "src/serve/output_parser.hpp"

#include <sys/random.h>

#include <array>

namespace strata::serve {
namespace {

std::optional<Json> try_json(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::optional<ToolCall> parse_json_call(std::string_view body) {
  const std::optional<Json> json = try_json(body);
  if (!json || !json->is_object()) return std::nullopt;
  const auto name = json->find("name");
  if (name == json->end() || !name->is_string()) return std::nullopt;
  ToolCall call{random_id("call_"), name->get<std::string>(), "{}"};
  for (const char* key : {"arguments", "parameters"}) {
    const auto arguments = json->find(key);
    if (arguments == json->end()) continue;
    call.arguments = arguments->is_string() ? arguments->get<std::string>() : to_text(*arguments);
    break;
  }
  return call;
}

// The schema of a function's parameter, or null.
const Json* schema_of(const Json& tools, std::string_view function, std::string_view parameter) {
  for (const Json& tool : tools) {
    const auto f = tool.find("function");
    if (f == tool.end() || f->value("name", "") != function) continue;
    const Json::json_pointer path("/parameters/properties");
    if (!f->contains(path)) return nullptr;
    const Json& properties = f->at(path);
    const auto found = properties.find(parameter);
    return found == properties.end() ? nullptr : &*found;
  }
  return nullptr;
}

bool is_text(const Json* schema) {
  if (schema == nullptr || !schema->is_object()) return false;
  const auto type = schema->find("type");
  if (type == schema->end()) return false;
  return *type == "string" || (type->is_array() && type->size() == 1 && type->front() == "string");
}

std::string_view between(std::string_view& text, std::string_view open, std::string_view close) {
  const std::size_t from = text.find(open);
  if (from == std::string_view::npos) return {};
  text.remove_prefix(from + open.size());
  const std::size_t to = text.find(close);
  const std::string_view inside = text.substr(0, to);
  text.remove_prefix(to == std::string_view::npos ? text.size() : to + close.size());
  return inside;
}

std::optional<ToolCall> parse_xml_call(std::string_view body, const Json& tools) {
  const std::string_view name = trim(between(body, "<function=", ">"));
  if (name.empty()) return std::nullopt;
  Json arguments = Json::object();
  for (;;) {
    const std::string parameter(trim(between(body, "<parameter=", ">")));
    if (parameter.empty()) break;
    const std::size_t end = body.find("</parameter>");
    std::string_view value = body.substr(0, end);
    body.remove_prefix(end == std::string_view::npos ? body.size() : end);
    if (value.starts_with('\n')) value.remove_prefix(1);
    if (value.ends_with('\n')) value.remove_suffix(1);
    std::optional<Json> json;
    if (!is_text(schema_of(tools, name, parameter))) json = try_json(trim(value));
    arguments[parameter] = json ? std::move(*json) : Json(std::string(value));
  }
  return ToolCall{random_id("call_"), std::string(name), to_text(arguments)};
}

}  // namespace

std::string random_id(std::string_view prefix) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::array<unsigned char, 24> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw ApiError(500, "the system gives no random numbers");
  }
  std::string id(prefix);
  for (const unsigned char byte : bytes) id += kLetters[byte % kLetters.size()];
  return id;
}

std::optional<ToolCall> parse_tool_call(std::string_view body, const Json& tools) {
  body = trim(body);
  return body.starts_with("<function=") ? parse_xml_call(body, tools) : parse_json_call(body);
}

}  // namespace strata::serve
