// JSON Schema once more, as its specification reads: a validator that shares no code with the
// compiler whose texts it judges. Regular expressions are PCRE2's.
#pragma once

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace strata::text::test {

class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit SchemaValidator(const Json& root) : root_(root) {}

  [[nodiscard]] bool valid(const Json& value) const { return valid(value, root_); }

 private:
  static bool matches(const std::string& pattern, const std::string& text) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX, &error, &offset, nullptr),
        &pcre2_code_free);
    if (code == nullptr) throw std::runtime_error("PCRE2 cannot read " + pattern);
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
        pcre2_match_data_create_from_pattern(code.get(), nullptr), &pcre2_match_data_free);
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       data.get(), nullptr) >= 0;
  }

  static bool days_exist(const std::string& date) {
    const int year = std::stoi(date.substr(0, 4));
    const int month = std::stoi(date.substr(5, 2));
    const int day = std::stoi(date.substr(8, 2));
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    const int last = month == 2 ? (leap ? 29 : 28) : 30 + (month + month / 8) % 2;
    return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= last;
  }

  static bool format_holds(const std::string& format, const std::string& text) {
    const std::string date = R"(\d{4}-\d{2}-\d{2})";
    const std::string time =
        R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
    if (format == "date") return matches("^" + date + "$", text) && days_exist(text);
    if (format == "time") return matches("^" + time + "$", text);
    if (format == "date-time") {
      return matches("^" + date + "T" + time + "$", text) && days_exist(text);
    }
    if (format == "uuid") {
      return matches("^[[:xdigit:]]{8}(-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}$", text);
    }
    if (format == "email") {
      return text.size() <= 254 &&
             matches(R"(^(?=[^@]{1,64}@)[\w%+-]+(\.[\w%+-]+)*@)"
                     R"((?:[A-Za-z\d](?:[A-Za-z\d-]{0,61}[A-Za-z\d])?\.)+[A-Za-z]{2,63}$)",
                     text);
    }
    if (format == "hostname") {
      return text.size() <= 253 &&
             matches(R"(^(?!-)[A-Za-z\d-]{1,63}(?<!-)(\.(?!-)[A-Za-z\d-]{1,63}(?<!-))*$)", text);
    }
    if (format == "ipv4") {
      return matches(R"(^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(?!$)|$)){4}$)", text);
    }
    if (format == "duration") {
      return matches(R"(^P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)$)",
                     text);
    }
    if (format == "ipv6") {  // eight groups, or fewer around one "::"
      return matches(R"(^(?=.*::|([^:]+:){7}[^:]+$)(?!.*::.*::)(?!.*:::)(?!:[^:])(?!.*[^:]:$))"
                     R"((:?:?[[:xdigit:]]{1,4}){0,8}(::)?$)",
                     text);
    }
    if (format == "uri")
      return matches(R"(^[A-Za-z][A-Za-z\d+.-]*:[!#$%&'()*+,./\d:;=?@A-Z_a-z~-]+$)", text);
    throw std::runtime_error("format " + format);
  }

  [[nodiscard]] const Json& resolve(const std::string& reference) const {
    std::string pointer = reference.substr(1);
    if (const std::size_t at = pointer.find("%20"); at != std::string::npos) {
      pointer.replace(at, 3, " ");
    }
    return root_.at(Json::json_pointer(pointer));
  }

  static bool type_holds(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (!value.is_number()) return false;
    return type == "number" || value.get<double>() == std::floor(value.get<double>());
  }

  [[nodiscard]] bool valid(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    return general_valid(value, schema) && combined_valid(value, schema) &&
           (!value.is_number() || number_valid(value, schema)) &&
           (!value.is_string() || string_valid(value, schema)) &&
           (!value.is_array() || array_valid(value, schema)) &&
           (!value.is_object() || object_valid(value, schema));
  }

  static bool general_valid(const Json& value, const Json& schema) {
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json{schema["type"]};
      bool any = false;
      for (const Json& type : types) any = any || type_holds(value, type);
      if (!any) return false;
    }
    if (schema.contains("enum")) {
      bool any = false;
      for (const Json& each : schema["enum"]) any = any || each == value;
      if (!any) return false;
    }
    return !schema.contains("const") || schema["const"] == value;
  }

  [[nodiscard]] bool combined_valid(const Json& value, const Json& schema) const {
    const auto count = [&](const char* keyword) {
      int valid_ones = 0;
      for (const Json& each : schema[keyword]) valid_ones += valid(value, each) ? 1 : 0;
      return valid_ones;
    };
    if (schema.contains("$ref") && !valid(value, resolve(schema["$ref"]))) return false;
    if (schema.contains("allOf") && count("allOf") != static_cast<int>(schema["allOf"].size())) {
      return false;
    }
    if (schema.contains("anyOf") && count("anyOf") == 0) return false;
    if (schema.contains("oneOf") && count("oneOf") != 1) return false;
    return !schema.contains("not") || !valid(value, schema["not"]);
  }

  static bool number_valid(const Json& value, const Json& schema) {
    const auto bound = [&](const char* keyword, auto holds) {
      return !schema.contains(keyword) || holds(value, schema[keyword]);
    };
    return bound("minimum", [](const Json& a, const Json& b) { return a >= b; }) &&
           bound("maximum", [](const Json& a, const Json& b) { return a <= b; }) &&
           bound("exclusiveMinimum", [](const Json& a, const Json& b) { return a > b; }) &&
           bound("exclusiveMaximum", [](const Json& a, const Json& b) { return a < b; }) &&
           bound("multipleOf", [](const Json& a, const Json& b) {
             return a.is_number_integer() && b.is_number_integer() &&
                    a.get<std::int64_t>() % b.get<std::int64_t>() == 0;
           });
  }

  static bool in_range(std::size_t size, const Json& schema, const char* min, const char* max) {
    return (!schema.contains(min) || size >= schema[min].get<double>()) &&
           (!schema.contains(max) || size <= schema[max].get<double>());
  }

  static bool string_valid(const Json& value, const Json& schema) {
    const auto text = value.get<std::string>();
    std::size_t length = 0;
    for (const char c : text) length += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return in_range(length, schema, "minLength", "maxLength") &&
           (!schema.contains("pattern") || matches(schema["pattern"], text)) &&
           (!schema.contains("format") || format_holds(schema["format"], text));
  }

  [[nodiscard]] bool array_valid(const Json& value, const Json& schema) const {
    if (!in_range(value.size(), schema, "minItems", "maxItems")) return false;
    const Json prefix = schema.value("prefixItems", Json::array());
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i < prefix.size()) {
        if (!valid(value[i], prefix[i])) return false;
      } else if (schema.contains("items") && !valid(value[i], schema["items"])) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool object_valid(const Json& value, const Json& schema) const {
    if (!in_range(value.size(), schema, "minProperties", "maxProperties")) return false;
    for (const Json& key : schema.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) return false;
    }
    for (const auto& member : value.items()) {
      if (schema.contains("propertyNames") && !valid(Json(member.key()), schema["propertyNames"])) {
        return false;
      }
      bool known = false;
      if (schema.contains("properties") && schema["properties"].contains(member.key())) {
        known = true;
        if (!valid(member.value(), schema["properties"][member.key()])) return false;
      }
      if (schema.contains("patternProperties")) {
        for (const auto& each : schema["patternProperties"].items()) {
          if (!matches(each.key(), member.key())) continue;
          known = true;
          if (!valid(member.value(), each.value())) return false;
        }
      }
      if (!known && schema.contains("additionalProperties") &&
          !valid(member.value(), schema["additionalProperties"])) {
        return false;
      }
    }
    return true;
  }

  const Json& root_;
};

}  // namespace strata::text::test
