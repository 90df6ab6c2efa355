// Reading a client's JSON: what a field must be is said where it is read, and what is wrong is told
// with the field's path.
#pragma once

#include "src/serve/api_error.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMaxJsonDepth = 64;
inline constexpr std::size_t kMaxJsonValues = 500'000;
inline constexpr std::size_t kMaxJsonKeys =
    1024;  // of one object: looking one up takes linear time

// A body that must be a JSON object. ApiError(400) for anything else, and for one that is deeper or
// has more values than the bounds above.
[[nodiscard]] Json parse_body(std::string_view body);

// One line, bytes that are no UTF-8 replaced.
[[nodiscard]] std::string to_text(const Json& json);

// An object of the request. A member that is null counts as absent. Every reader throws
// ApiError(400) that names the field.
class Fields {
 public:
  // `path`: of the object, "" for the request itself. The object must outlive this.
  Fields(const Json& object, std::string path);

  [[nodiscard]] const Json* find(std::string_view name) const;  // null when absent
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  [[nodiscard]] const Json& need(std::string_view name) const;
  [[nodiscard]] std::string path_of(std::string_view name) const;

  [[nodiscard]] std::optional<double> number(std::string_view name, double low, double high) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name, std::int64_t low,
                                                    std::int64_t high) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::string need_text(std::string_view name) const;
  [[nodiscard]] std::optional<Fields> object(std::string_view name) const;
  // Its items; empty when absent.
  [[nodiscard]] const Json& array(std::string_view name) const;

  // A text, or an array of texts.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name, std::size_t most) const;

  // Fields whose wish this server does not grant, unless they have the value that wishes nothing.
  struct Unsupported {
    std::string_view name;
    Json harmless;
    std::string_view why;
  };
  void refuse_all(std::initializer_list<Unsupported> unsupported) const;

  [[nodiscard]] const Json& json() const noexcept { return *object_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  const Json* object_;
  std::string path_;
};

}  // namespace strata::serve
