// The example of docs/api.md compiles, runs, and is what the page shows.
#include "tests/runtime/api_example.hpp"

#include "strata/base/file_io.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace strata {
namespace {

TEST(ApiExample, TellsAStory) {
  const std::string model = std::string(STRATA_SOURCE_DIR) + "/data/strata-demo.gguf";
  std::ostringstream story;
  const double speed = tell_story(model.c_str(), "Once upon a time", 20, story);
  EXPECT_GT(story.str().size(), 20U);
  EXPECT_GT(speed, 0);
  std::ostringstream again;
  tell_story(model.c_str(), "Once upon a time", 20, again);
  EXPECT_EQ(again.str(), story.str()) << "the seed decides";
}

TEST(ApiExample, StandsInTheDocumentation) {
  const std::string source = STRATA_SOURCE_DIR;
  const std::string page = read_text_file(source + "/docs/api.md", 1U << 20);
  const std::string example = read_text_file(source + "/tests/runtime/api_example.hpp", 1U << 20);
  EXPECT_NE(page.find("```cpp\n" + example + "```"), std::string::npos)
      << "copy tests/runtime/api_example.hpp into docs/api.md";
}

}  // namespace
}  // namespace strata
