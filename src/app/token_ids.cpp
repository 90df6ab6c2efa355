#include "src/app/token_ids.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace strata::app {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 32;
constexpr std::string_view kNpyMagic = "\x93NUMPY";

static_assert(std::endian::native == std::endian::little, "ids are read as they stand in the file");

// The text between `begin` and `end` in a .npy header, which is a Python dict literal.
std::string_view between(std::string_view text, std::string_view begin, char end) {
  const std::size_t at = text.find(begin);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find(end));
}

// "(16, 512)" without the brackets, or "8192,".
std::vector<std::size_t> parse_shape(std::string_view text) {
  std::vector<std::size_t> shape;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" ,");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    std::size_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return {};
    shape.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return shape;
}

std::int32_t narrow(std::int64_t id, const std::filesystem::path& path) {
  if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
    fail(ErrorKind::kInput, "{}: {} is not a token id", path.string(), id);
  }
  return static_cast<std::int32_t>(id);
}

// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
TokenRows parse_npy(std::string_view bytes, const std::filesystem::path& path) {
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::kInput, "{}: {}; expected a .npy file with one or two dimensions of i4 or i8",
         path.string(), why);
  };
  if (bytes.size() < 12) refuse("it ends within its header");
  const std::size_t length_bytes = bytes[6] == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, length_bytes);
  const std::size_t data_at = 8 + length_bytes + length;
  if (data_at > bytes.size()) refuse("it ends within its header");
  const std::string_view header = bytes.substr(8 + length_bytes, length);
  const std::string_view type = between(header, "'descr': '", '\'');
  if (type != "<i4" && type != "<i8") refuse(fmt::format("its type is '{}'", type));
  if (header.find("'fortran_order': False") == std::string_view::npos)
    refuse("it is not in C order");
  const std::vector<std::size_t> shape = parse_shape(between(header, "'shape': (", ')'));
  if (shape.empty() || shape.size() > 2) refuse("its shape is odd");

  const std::size_t width = shape.back();
  const std::size_t rows = shape.size() == 2 ? shape.front() : 1;
  const std::size_t item = type == "<i4" ? 4 : 8;
  const std::size_t items = (bytes.size() - data_at) / item;
  if (width == 0 || rows != items / width || items % width != 0 ||
      (bytes.size() - data_at) % item != 0) {
    refuse(fmt::format("it has {} bytes of data, which is not what its shape asks for",
                       bytes.size() - data_at));
  }
  TokenRows result(rows);
  const char* at = bytes.data() + data_at;
  for (std::vector<std::int32_t>& row : result) {
    for (std::size_t i = 0; i < width; ++i, at += item) {
      std::int64_t wide = 0;
      std::int32_t small = 0;
      std::memcpy(item == 4 ? static_cast<void*>(&small) : &wide, at, item);
      row.push_back(narrow(item == 4 ? small : wide, path));
    }
  }
  return result;
}

TokenRows parse_json(std::string_view text, const std::filesystem::path& path) {
  const auto row = [&](const nlohmann::json& array) {
    std::vector<std::int32_t> ids;
    for (const auto& id : array) {
      if (!id.is_number_integer()) {
        fail(ErrorKind::kInput, "{}: {} is not a token id", path.string(), id.dump());
      }
      ids.push_back(narrow(id.get<std::int64_t>(), path));
    }
    return ids;
  };
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array() || json.empty()) {
    fail(ErrorKind::kInput, "{}: expected .npy, or JSON: an array of ids or of arrays of ids",
         path.string());
  }
  if (!json.front().is_array()) return {row(json)};
  TokenRows rows;
  for (const auto& array : json) {
    if (!array.is_array()) fail(ErrorKind::kInput, "{}: arrays and ids are mixed", path.string());
    rows.push_back(row(array));
  }
  return rows;
}

}  // namespace

TokenRows read_token_rows(const std::filesystem::path& path) {
  const std::string bytes = read_text_file(path, kLargestFile);
  return bytes.starts_with(kNpyMagic) ? parse_npy(bytes, path) : parse_json(bytes, path);
}

}  // namespace strata::app
