#include "strata/core/trace.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace strata::core {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string record(std::int32_t layer, const std::vector<std::int32_t>& experts,
                   const std::vector<float>& weights) {
  const auto k = static_cast<std::int32_t>(experts.size());
  std::string bytes;
  const auto put = [&bytes](const auto* values, std::size_t count) {
    bytes.append(reinterpret_cast<const char*>(values), count * sizeof *values);
  };
  put(&layer, 1);
  put(&k, 1);
  put(experts.data(), experts.size());
  put(weights.data(), weights.size());
  return bytes;
}

class TraceTest : public ::testing::Test {
 protected:
  TraceTest() { fs::create_directories(folder_); }
  ~TraceTest() override { fs::remove_all(folder_); }

  fs::path file(const std::string& bytes) {
    const fs::path path = folder_ / "trace.bin";
    write_atomically(path, bytes);
    return path;
  }
  std::string error_of(const std::string& bytes) {
    try {
      (void)Trace::load(file(bytes));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "no error";
  }
  std::size_t files_left() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const fs::path folder_ =
      fs::temp_directory_path() / ("strata-trace-" + std::to_string(::getpid()) + "-" +
                                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(TraceTest, ReadsTheDocumentedBytes) {
  // Two tokens of a model whose MoE layers are 1 and 2; the second token's layer 1 uses one expert.
  const std::string first = record(1, {5, 0}, {0.75F, 0.25F});
  TraceReader reader(file(first + record(2, {3, 4}, {0, 0}) + record(1, {7}, {1})));
  RoutingEvent event;
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.token, 0);
  EXPECT_EQ(event.layer, 1);
  EXPECT_THAT(event.experts, ElementsAre(5, 0));
  EXPECT_THAT(event.weights, ElementsAre(0.75F, 0.25F));
  EXPECT_EQ(reader.offset(), first.size());
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.token, 0);
  EXPECT_EQ(event.layer, 2);
  ASSERT_TRUE(reader.next(event));
  EXPECT_EQ(event.token, 1);
  EXPECT_EQ(event.layer, 1);
  EXPECT_THAT(event.experts, ElementsAre(7));
  EXPECT_FALSE(reader.next(event));
  EXPECT_FALSE(reader.next(event));
}

TEST_F(TraceTest, EveryCutIsRefusedWithTheRecordsOffset) {
  const std::string first = record(0, {1, 2}, {0.5F, 0.5F});
  const std::string both = first + record(1, {1, 2}, {0.5F, 0.5F});
  for (std::size_t cut = 1; cut < both.size(); ++cut) {
    if (cut == first.size()) continue;
    const std::string at = std::to_string(cut < first.size() ? 0 : first.size());
    EXPECT_THAT(error_of(both.substr(0, cut)), HasSubstr("record at byte " + at + " is cut off"))
        << cut;
  }
  EXPECT_THAT(error_of(""), HasSubstr("is empty"));
}

TEST_F(TraceTest, WhatNoRouterGivesIsRefused) {
  const std::string good = record(0, {1}, {1});
  const auto bad = [&](const std::string& second) { return error_of(good + second); };
  EXPECT_THAT(bad(record(-1, {1}, {1})), HasSubstr("record at byte 16 has layer -1"));
  EXPECT_THAT(bad(record(kMaxTraceLayers, {1}, {1})), HasSubstr("has layer 65536"));
  EXPECT_THAT(bad(record(0, {}, {})), HasSubstr("and 0 experts"));
  std::vector<std::int32_t> many(kMaxTraceUsed + 1);
  std::iota(many.begin(), many.end(), 0);
  EXPECT_THAT(bad(record(0, many, std::vector<float>(many.size()))), HasSubstr("1025 experts"));
  EXPECT_THAT(bad(record(1, {1, -2}, {1, 1})), HasSubstr("has expert -2"));
  EXPECT_THAT(bad(record(1, {kMaxTraceExperts}, {1})), HasSubstr("has expert 65536"));
  EXPECT_THAT(bad(record(1, {4, 5, 4}, {1, 1, 1})), HasSubstr("(layer 1) has expert 4 twice"));
  EXPECT_THAT(bad(record(1, {4}, {std::numeric_limits<float>::quiet_NaN()})),
              HasSubstr("weight nan"));
  EXPECT_THAT(bad(record(1, {4}, {std::numeric_limits<float>::infinity()})),
              HasSubstr("weight inf"));
}

TEST_F(TraceTest, MissingFilesAndFoldersAreRefused) {
  EXPECT_THROW(TraceReader(folder_ / "none"), Error);
  EXPECT_THROW(TraceReader{folder_}, Error);
  EXPECT_THROW(TraceWriter(folder_ / "no folder" / "trace"), Error);
}

TEST_F(TraceTest, WriterGivesTheSameBytesAndOnlyAtClose) {
  const fs::path path = folder_ / "out.bin";
  std::string expected;
  {
    TraceWriter writer(path);
    for (std::int32_t i = 0; i < 20000; ++i) {  // more than the buffer holds
      const std::vector<std::int32_t> experts = {i % 50, 50 + i % 7};
      const std::vector<float> weights = {static_cast<float>(i), 0.5F};
      writer.append(i % 3, experts, weights);
      expected += record(i % 3, experts, weights);
    }
    EXPECT_FALSE(fs::exists(path));
    writer.close();
    EXPECT_TRUE(fs::exists(path));
    writer.close();
  }
  EXPECT_EQ(read_text_file(path, 1U << 24), expected);
  EXPECT_EQ(files_left(), 1U);
}

TEST_F(TraceTest, AWriterGivenUpLeavesTheOldTrace) {
  const fs::path path = file(record(0, {9}, {1}));
  {
    TraceWriter writer(path);
    const std::int32_t experts[] = {1};
    const float weights[] = {1};
    writer.append(0, experts, weights);
  }
  EXPECT_EQ(read_text_file(path, 1000), record(0, {9}, {1}));
  EXPECT_EQ(files_left(), 1U);
}

TEST_F(TraceTest, AWindowIsWrittenTokenByToken) {
  const fs::path path = folder_ / "window.bin";
  TraceWriter writer(path);
  const std::int32_t layer_3[] = {1, 2, 3, 4};  // two tokens of two experts
  const float weights_3[] = {0.6F, 0.4F, 0.7F, 0.3F};
  const std::int32_t layer_5[] = {8, 9};  // and of one
  const float weights_5[] = {1, 1};
  writer.add_layer(3, 2, layer_3, weights_3);
  writer.add_layer(5, 1, layer_5, weights_5);
  writer.end_window();
  writer.end_window();
  writer.close();
  EXPECT_EQ(read_text_file(path, 1000), record(3, {1, 2}, {0.6F, 0.4F}) + record(5, {8}, {1}) +
                                            record(3, {3, 4}, {0.7F, 0.3F}) + record(5, {9}, {1}));
  const Trace trace = Trace::load(path);
  EXPECT_EQ(trace.tokens(), 2);
}

TEST_F(TraceTest, CloseFailsWhereTheFolderHasGone) {
  const fs::path inner = folder_ / "inner";
  fs::create_directories(inner);
  TraceWriter writer(inner / "trace.bin");
  const std::int32_t experts[] = {1};
  const float weights[] = {1};
  writer.append(0, experts, weights);
  fs::remove_all(inner);
  EXPECT_THROW(writer.close(), Error);
}

TEST_F(TraceTest, SlicesAndCounts) {
  const Trace trace = Trace::load(file(record(0, {1, 2}, {1, 1}) + record(2, {0, 3}, {1, 1}) +
                                       record(0, {2, 3}, {1, 1}) + record(2, {3, 0}, {1, 1})));
  EXPECT_EQ(trace.tokens(), 2);
  EXPECT_EQ(trace.layers(), 3);
  EXPECT_EQ(trace.experts(), 4);
  EXPECT_EQ(trace.picks(), 8);
  EXPECT_THAT(trace.counts(5), ElementsAre(0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2, 0));
  const Trace second = trace.slice(1, 2, {false, false, true});
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].token, 0);
  EXPECT_EQ(second[0].layer, 2);
  EXPECT_THAT(second[0].experts, ElementsAre(3, 0));
  EXPECT_EQ(trace.slice(2, 9).size(), 0U);
}

}  // namespace
}  // namespace strata::core
