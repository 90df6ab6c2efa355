#include "strata/core/profile.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/core/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace strata::core {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 2 layers x 3 experts, made by hand from the format's description.
const std::vector<std::uint32_t> kWords = {
    0x50525453, 1,          2,          3, 4, 3,  // "STRP", version, layers, experts, slots, ranked
    0x00020001, 0x00000000, 0x00010001,           // (1,2) (0,0) (1,1)
    1,          0xFFFFFFFF, 0xFFFFFFFF,           // layer 0
    0xFFFFFFFF, 2,          0,                    // layer 1
};

std::string text_of(const std::vector<std::uint32_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * 4};
}

Profile parse(const std::string& text, std::optional<ExpertGeometry> model = std::nullopt) {
  return parse_profile(std::as_bytes(std::span(text)), "p.strp", model);
}

std::string error_of(const std::string& text, std::optional<ExpertGeometry> model = std::nullopt) {
  try {
    (void)parse(text, model);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

// The example with one word changed.
std::string with(std::size_t word, std::uint32_t value) {
  std::vector<std::uint32_t> words = kWords;
  words[word] = value;
  return text_of(words);
}

TEST(Profile, ReadsAndWritesTheDocumentedBytes) {
  const Profile profile = parse(text_of(kWords), ExpertGeometry{2, 3});
  EXPECT_EQ(profile.geometry, (ExpertGeometry{2, 3}));
  EXPECT_EQ(profile.slots, 4U);
  EXPECT_THAT(profile.ranked,
              ElementsAre(RankedExpert{1, 2}, RankedExpert{0, 0}, RankedExpert{1, 1}));
  const std::vector<std::byte> bytes = serialise_profile(profile);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
            text_of(kWords));
}

TEST(Profile, EachRefusalNamesItsReason) {
  EXPECT_THAT(error_of(with(0, 0x46554747)), HasSubstr("does not start with 'STRP'"));
  EXPECT_THAT(error_of(with(1, 2)), HasSubstr("profile version 2"));
  EXPECT_THAT(error_of(with(2, 0)), HasSubstr("0 layers of 3 experts"));
  EXPECT_THAT(error_of(with(2, 0xFFFFFFFF)), HasSubstr("no model has"));
  EXPECT_THAT(error_of(with(3, 65537)), HasSubstr("no model has"));
  EXPECT_THAT(error_of(with(3, 4)), HasSubstr("has 60 bytes where its header asks for 68"));
  EXPECT_THAT(error_of(with(5, 7)), HasSubstr("ranks 7 experts"));
  EXPECT_THAT(error_of(with(6, 0x00030001)), HasSubstr("rank 0 is expert 3 of layer 1, outside"));
  EXPECT_THAT(error_of(with(7, 0x00000002)), HasSubstr("rank 1 is expert 0 of layer 2, outside"));
  EXPECT_THAT(error_of(with(8, 0x00020001)), HasSubstr("expert 2 of layer 1 is ranked twice"));
  EXPECT_THAT(error_of(with(9, 2)), HasSubstr("expert 0 of layer 0 the rank 2, its list 1"));
  EXPECT_THAT(error_of(with(10, 5)), HasSubstr("expert 1 of layer 0 the rank 5, its list -1"));
  EXPECT_THAT(error_of(text_of(kWords), ExpertGeometry{2, 4}),
              HasSubstr("2 layers x 3 experts, but this one has 2 x 4"));
  EXPECT_THAT(error_of(text_of(kWords) + "x"), HasSubstr("followed by something else"));
}

TEST(Profile, EveryCutIsRefused) {
  const std::string text = text_of(kWords);
  for (std::size_t cut = 0; cut < text.size(); ++cut) {
    EXPECT_THAT(error_of(text.substr(0, cut)),
                HasSubstr(cut < 24 ? "too few for a profile's header" : "it is cut off"))
        << cut;
  }
}

TEST(Profile, RanksByCountThenSpreadsTheRest) {
  // Layer 1 is dense; of layers 0 and 2 two experts were never seen.
  const std::vector<double> counts = {0, 7, 2, 0, 0, 0, 2, 0, 9};
  const Profile profile = profile_from_counts(counts, {3, 3}, 5);
  EXPECT_EQ(profile.slots, 5U);
  EXPECT_THAT(profile.ranked,
              ElementsAre(RankedExpert{2, 2}, RankedExpert{0, 1}, RankedExpert{2, 0},
                          RankedExpert{0, 2}, RankedExpert{0, 0}, RankedExpert{2, 1}));
}

class ProfileFile : public ::testing::Test {
 protected:
  ProfileFile() { fs::create_directories(folder_); }
  ~ProfileFile() override { fs::remove_all(folder_); }
  const fs::path folder_ =
      fs::temp_directory_path() / ("strata-profile-" + std::to_string(::getpid()));
};

TEST_F(ProfileFile, IsReadBackWhole) {
  const Profile profile = parse(text_of(kWords));
  write_profile(folder_ / "p.strp", profile);
  EXPECT_EQ(read_profile(folder_ / "p.strp", ExpertGeometry{2, 3}).ranked, profile.ranked);
  EXPECT_THROW((void)read_profile(folder_ / "p.strp", ExpertGeometry{48, 512}), Error);
  EXPECT_THROW((void)read_profile(folder_ / "none.strp"), Error);
}

TEST_F(ProfileFile, ThePythonToolGivesTheSameBytes) {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no python3";
  constexpr std::int32_t kExperts = 40;
  std::mt19937 random(7);
  TraceWriter writer(folder_ / "t.bin");
  const std::vector<float> weights(4, 0.25F);
  for (int token = 0; token < 50; ++token) {
    for (const std::int32_t layer : {1, 2, 5}) {
      const auto base = static_cast<std::int32_t>(random() % 9);
      const std::vector<std::int32_t> experts = {base, base + 10, base + 20, base + 25};
      writer.append(layer, experts, weights);
    }
  }
  writer.close();
  const Trace trace = Trace::load(folder_ / "t.bin");
  std::vector<double> counts = trace.counts(kExperts);
  counts.resize(std::size_t{7} * kExperts);
  write_profile(folder_ / "cpp.strp", profile_from_counts(counts, {7, kExperts}, 33));
  const std::string command = std::string("python3 " STRATA_SOURCE_DIR "/tools/make_profile.py ") +
                              (folder_ / "t.bin").string() + " -o " +
                              (folder_ / "py.strp").string() +
                              " --layers 7 --experts 40 --slots 33 > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_text_file(folder_ / "py.strp", 1U << 20),
            read_text_file(folder_ / "cpp.strp", 1U << 20));
}

}  // namespace
}  // namespace strata::core
