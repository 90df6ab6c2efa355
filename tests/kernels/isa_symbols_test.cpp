// What the object files of the instruction sets offer the linker. A weak function of theirs, say an
// inline one of a shared header, may be taken for the whole program: machines without AVX-512 would
// then die in code that is meant for all. So each may define its own namespace and table, no more.
#include "strata/base/isa.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace strata::kernels {
namespace {

struct Symbol {
  char kind;  // as nm prints it
  std::string name;
};

// Defined symbols of the archive that other object files can see, by object file.
std::map<std::string, std::vector<Symbol>> external_symbols(const std::string& archive) {
  std::FILE* pipe = ::popen(("nm -C --defined-only '" + archive + "'").c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  ::pclose(pipe);

  std::map<std::string, std::vector<Symbol>> found;
  std::vector<Symbol>* object = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(".o:")) {
      object = &found[line.substr(0, line.find('.'))];
    } else if (object != nullptr && line.size() > 19) {  // 16 digits, space, kind, space, name
      const char kind = line[17];
      // Capitals are global; these small letters are weak or unique, which is as visible.
      if (std::string_view("ABCDGRSTUVWuvwi").find(kind) != std::string_view::npos)
        object->push_back({kind, line.substr(19)});
    }
  }
  return found;
}

TEST(IsaSymbolsTest, NothingIsOfferedButNamespaceAndTable) {
#ifndef NDEBUG
  GTEST_SKIP() << "unoptimised object files keep copies of inline functions";
#endif
  if (std::system("nm --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs nm";
  const auto objects = external_symbols(STRATA_KERNELS_ARCHIVE);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx}) {
    const std::string name(isa_name(isa));
    const auto object = objects.find("isa_" + name);
    ASSERT_NE(object, objects.end()) << "no isa_" << name << ".cpp.o in " << STRATA_KERNELS_ARCHIVE;
    const std::string table = "strata::kernels::k_" + name;
    bool has_table = false;
    for (const Symbol& s : object->second) {
      has_table = has_table || s.name == table;
      EXPECT_TRUE(s.name == table || s.name.starts_with("strata::kernels::" + name + "::"))
          << "isa_" << name << ": " << s.kind << ' ' << s.name;
    }
    EXPECT_TRUE(has_table) << name;
  }
}

}  // namespace
}  // namespace strata::kernels
