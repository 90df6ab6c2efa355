# cmake -DFOLDER=... -DOUTPUT=... -P EmbedFiles.cmake: writes a C++ source with the files of a
# folder as bytes, for src/serve/page.hpp.
file(GLOB names RELATIVE ${FOLDER} ${FOLDER}/*.html ${FOLDER}/*.css ${FOLDER}/*.js ${FOLDER}/*.svg)
list(SORT names)
set(arrays "")
set(entries "")
set(index 0)
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  cmake_path(GET name EXTENSION LAST_ONLY extension)
  set(type "application/octet-stream")
  if(extension STREQUAL ".html")
    set(type "text/html; charset=utf-8")
  elseif(extension STREQUAL ".css")
    set(type "text/css; charset=utf-8")
  elseif(extension STREQUAL ".js")
    set(type "text/javascript; charset=utf-8")
  elseif(extension STREQUAL ".svg")
    set(type "image/svg+xml")
  endif()
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {${bytes}0};\n")
  set(array kFile${index})
  string(APPEND entries "    {\"/${name}\", \"${type}\", text(${array}, sizeof(${array}) - 1)},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT}.new "// Written by cmake/EmbedFiles.cmake.
#include \"src/serve/page.hpp\"

#include <cstddef>

namespace strata::serve {
namespace {

${arrays}
std::string_view text(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

std::span<const PageFile> page_files() noexcept {
  static const PageFile kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace strata::serve
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
