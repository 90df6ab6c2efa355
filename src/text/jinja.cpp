#include "strata/text/jinja.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include "src/text/jinja_interpreter.hpp"
#include "src/text/jinja_parser.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text {
namespace jinja {
namespace {

// Deeper than any document in use, and shallow enough for recursion.
constexpr int kMaxJsonDepth = 150;

Value text_from_json(Runtime& runtime, std::string_view text, bool trusted) {
  runtime.check_text_size(text.size());
  return runtime.text(repair_utf8(text), trusted);
}

}  // namespace

Value from_json(Runtime& runtime, const nlohmann::ordered_json& json, TrustRule trusts,
                std::string_view key, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > kMaxJsonDepth) runtime.fail("a variable is nested more than {} deep", kMaxJsonDepth);
  runtime.step();
  switch (json.type()) {
    case Type::null:
      return None{};
    case Type::boolean:
      return json.get<bool>();
    case Type::number_integer:
      return static_cast<Int>(json.get<std::int64_t>());
    case Type::number_unsigned:
      return static_cast<Int>(json.get<std::uint64_t>());
    case Type::number_float:
      return json.get<double>();
    case Type::string: {
      const auto& text = json.get_ref<const std::string&>();
      return text_from_json(runtime, text, trusts(key, text));
    }
    case Type::array: {
      runtime.check_items(json.size());
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json)
        items.push_back(from_json(runtime, item, trusts, key, depth + 1));
      return runtime.list(std::move(items));
    }
    case Type::object: {
      runtime.check_items(json.size());
      DictObject dict;
      for (const auto& [name, member] : json.items()) {
        dict.insert(text_from_json(runtime, name, trusts({}, name)),
                    from_json(runtime, member, trusts, name, depth + 1));
      }
      return runtime.dict(std::move(dict));
    }
    default:
      runtime.fail("a variable holds something that is not JSON");
  }
}

}  // namespace jinja

bool trust_nothing(std::string_view /*key*/, std::string_view /*text*/) { return false; }
bool trust_everything(std::string_view /*key*/, std::string_view /*text*/) { return true; }

JinjaTemplate JinjaTemplate::parse(std::string_view source, const JinjaLimits& limits) {
  if (source.size() > limits.max_source_bytes) {
    fail(ErrorKind::kInput, "the chat template has {} bytes, above the bound of {}", source.size(),
         limits.max_source_bytes);
  }
  if (const std::size_t valid = valid_utf8_prefix(source); valid != source.size()) {
    fail(ErrorKind::kInput, "the chat template is not UTF-8: byte {} is ill-formed", valid);
  }
  JinjaTemplate parsed;
  parsed.program_ = jinja::Parser(source, limits).parse();
  return parsed;
}

bool JinjaTemplate::mentions(std::string_view variable) const {
  const auto& names = program_->names;
  return std::find(names.begin(), names.end(), variable) != names.end();
}

std::vector<RenderedSegment> JinjaTemplate::render(std::span<const JinjaVariable> variables,
                                                   CivilTime now) const {
  const jinja::Text text = jinja::Interpreter(*program_, now).run(variables);
  std::vector<RenderedSegment> segments;
  text.for_each_run(0, text.size(), [&segments](std::string_view run, bool trusted) {
    segments.push_back({std::string(run), trusted});
  });
  return segments;
}

}  // namespace strata::text
