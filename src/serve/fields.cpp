#include "src/serve/fields.hpp"

#include <cmath>

namespace strata::serve {
namespace {

// Bounds what a body may hold while it is read.
class JsonBounds {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json&) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.push_back(0);
        [[fallthrough]];
      case Json::parse_event_t::array_start:
        if (static_cast<std::size_t>(depth) >= kMaxJsonDepth) {
          throw ApiError(400, fmt::format("the JSON is more than {} levels deep", kMaxJsonDepth));
        }
        count();
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (++keys_.back() > kMaxJsonKeys) {
          throw ApiError(400, fmt::format("an object has more than {} members", kMaxJsonKeys));
        }
        break;
      case Json::parse_event_t::value:
        count();
        break;
      case Json::parse_event_t::array_end:
        break;
    }
    return true;
  }

 private:
  void count() {
    if (++values_ > kMaxJsonValues) {
      throw ApiError(400, fmt::format("the JSON has more than {} values", kMaxJsonValues));
    }
  }
  std::vector<std::size_t> keys_;  // of the objects that are open
  std::size_t values_ = 0;
};

}  // namespace

Json parse_body(std::string_view body) {
  Json json;
  try {
    JsonBounds bounds;
    json = Json::parse(body, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return bounds(depth, event, parsed);
    });
  } catch (const Json::parse_error& error) {
    throw ApiError(400, fmt::format("the body is not JSON: wrong at byte {}", error.byte));
  } catch (const Json::out_of_range&) {
    throw ApiError(400, "the JSON has a number that is too large");
  }
  if (!json.is_object()) throw ApiError(400, "the body must be a JSON object");
  return json;
}

std::string to_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Fields::Fields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) refuse(path_, "{}: expected an object", path_);
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::need(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) refuse(path_of(name), "{} is missing", path_of(name));
  return *value;
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    refuse(path_of(name), "{}: expected a number from {} to {}", path_of(name), low, high);
  }
  return number;
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  bool fits = value->is_number_integer() &&
              (!value->is_number_unsigned() ||
               value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  // Some languages write whole numbers as 5.0.
  const double real = value->is_number_float() ? value->get<double>() : 0.5;
  fits = fits || (real == std::floor(real) && std::abs(real) < 9e15);
  const std::int64_t number = fits ? value->get<std::int64_t>() : 0;
  if (!fits || number < low || number > high) {
    refuse(path_of(name), "{}: expected a whole number from {} to {}", path_of(name), low, high);
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(path_of(name), "{}: expected true or false", path_of(name));
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(path_of(name), "{}: expected a string", path_of(name));
  return value->get<std::string>();
}

std::string Fields::need_text(std::string_view name) const {
  (void)need(name);
  return *text(name);
}

std::optional<Fields> Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return Fields(*value, path_of(name));
}

const Json& Fields::array(std::string_view name) const {
  static const Json kNone = Json::array();
  const Json* value = find(name);
  if (value == nullptr) return kNone;
  if (!value->is_array()) refuse(path_of(name), "{}: expected an array", path_of(name));
  return *value;
}

std::vector<std::string> Fields::texts(std::string_view name, std::size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  std::vector<std::string> texts;
  if (value->is_array()) {
    for (const Json& item : *value) {
      if (!item.is_string()) break;
      texts.push_back(item.get<std::string>());
    }
  }
  if (!value->is_array() || texts.size() != value->size() || texts.size() > most) {
    refuse(path_of(name), "{}: expected a string or at most {} strings", path_of(name), most);
  }
  return texts;
}

void Fields::refuse_all(std::initializer_list<Unsupported> unsupported) const {
  for (const Unsupported& field : unsupported) {
    const Json* value = find(field.name);
    if (value == nullptr || *value == field.harmless) continue;
    refuse(path_of(field.name), "{}: {}", path_of(field.name), field.why);
  }
}

}  // namespace strata::serve
