// The page that is built into the program: the files of src/serve/page.
#pragma once

#include <span>
#include <string_view>

namespace strata::serve {

struct PageFile {
  std::string_view path;  // "/index.html"
  std::string_view content_type;
  std::string_view bytes;
};

[[nodiscard]] std::span<const PageFile> page_files() noexcept;

}  // namespace strata::serve
