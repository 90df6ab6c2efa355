// strata profile and strata simulate, on the committed excerpt of the demo model's routing: 4
// layers x 64 experts, 8 a token, two texts of 512 tokens.
#include "tests/app/program.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace strata::app::test {
namespace {

namespace fs = std::filesystem;
using gguf::test::TempFolder;
using nlohmann::json;

const std::string kTrace = std::string(STRATA_SOURCE_DIR) + "/tests/data/routing/demo.trace";

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A record of a trace, all weights 0.
std::string record(std::int32_t layer, const std::vector<std::int32_t>& experts) {
  std::vector<std::int32_t> words = {layer, static_cast<std::int32_t>(experts.size())};
  words.insert(words.end(), experts.begin(), experts.end());
  words.insert(words.end(), experts.size(), 0);
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]};
}

json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Ended ended = run(arguments);
  EXPECT_EQ(ended.code, 0) << ended.err;
  return json::parse(ended.out, nullptr, false);
}

double hit_rate(const json& results, const std::string& policy, const std::string& mode,
                const std::string& quota = "equal") {
  for (const json& result : results["results"]) {
    if (result["policy"] == policy && result["mode"] == mode && result["quota"] == quota) {
      return result["hit_rate"];
    }
  }
  ADD_FAILURE() << "no " << policy << ", " << mode << ", " << quota << " in " << results.dump();
  return std::nan("");
}

class TraceCommands : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ / name; }
  TempFolder folder_;
};

using ProfileCommand = TraceCommands;
using SimulateCommand = TraceCommands;

TEST_F(ProfileCommand, AddsTracesUpAndRanksThem) {
  write(path("a"), record(0, {1, 2}) + record(2, {0, 1}) + record(0, {2, 1}) + record(2, {0, 3}));
  write(path("b"), record(0, {2, 3}) + record(2, {0, 3}));
  const json made = json_of({"profile", path("a"), path("b"), "-o", path("p.strp")});
  EXPECT_EQ(made["tokens"], 3);
  EXPECT_EQ(made["choices"], 12);
  EXPECT_EQ(made["by_layer"].size(), 2U);
  EXPECT_EQ(made["by_layer"][0]["used"], 3);
  EXPECT_EQ(made["by_layer"][1]["covered"], json({0.5, 0.5, 0.5, 5.0 / 6}));
  // Uses: 2.0 and 0.2 three times; 0.1, 2.3 twice, the lower expert first; ...
  EXPECT_EQ(made["hottest"], json::parse("[[2,0],[0,2],[0,1],[2,3],[2,1],[0,3],[0,0],[2,2]]"));
  const json shown = json_of({"profile", "--show", path("p.strp")});
  EXPECT_EQ(shown["hottest"], made["hottest"]);
  EXPECT_EQ(shown["layers"], 3);
  EXPECT_EQ(shown["experts"], 4);
  expect_parts(run({"profile", path("a"), path("b")}).out,
               {"2, 3 tokens, 12 choices", "3 layers x 4"});
}

TEST_F(ProfileCommand, TakesTheGeometryFromTheModel) {
  write(path("a"), record(0, {1, 2}));
  const json made = json_of({"profile", path("a"), "-o", path("p"), "--model", kDemo});
  EXPECT_EQ(made["layers"], 12);
  EXPECT_EQ(made["experts"], 64);
  EXPECT_EQ(run({"profile", "--show", path("p"), "--model", kDemo}).code, 0);
  EXPECT_EQ(json_of({"profile", path("a"), "--layers", "5", "--experts", "7"})["layers"], 5);
  expect_error(run({"profile", path("a"), "--model", kDemo, "--layers", "5"}), 2,
               {"12 layers x 64"});
  write(path("big"), record(3, {64}));
  expect_error(run({"profile", path("big"), "--model", kDemo}), 3, {"expert 64", "12 layers x 64"});
  expect_error(run({"profile", path("a"), "--experts", "2"}), 3, {"as said"});
}

TEST_F(ProfileCommand, RefusesWhatItCannotUse) {
  expect_error(run({"profile"}), 2, {"no trace given"});
  expect_error(run({"profile", path("none")}), 4, {path("none")});
  expect_error(run({"profile", kTrace, "--show", path("p")}), 2, {"excludes"});
  expect_error(run({"profile", kDemo}), 3, {"is it a routing trace?"});
  write(path("empty"), "");
  expect_error(run({"profile", path("empty")}), 3, {"without a record"});
  write(path("cut"), record(0, {1, 2}).substr(0, 20));
  expect_error(run({"profile", path("cut"), "-o", path("p")}), 3, {"cut off"});
  EXPECT_FALSE(fs::exists(path("p")));
  expect_error(run({"profile", kTrace, "-o", path("no/folder/p")}), 4, {"no/folder"});
  write(path("no.strp"), "STRP");
  expect_error(run({"profile", "--show", path("no.strp")}), 3, {"too few"});
  expect_error(run({"profile", "--show", kTrace}), 3, {"does not start with 'STRP'"});
}

TEST_F(SimulateCommand, ComparesPoliciesAndDrawsThem) {
  const json results = json_of(
      {"simulate", kTrace, "--cache", "26", "--admission", "both", "--plot", path("plot.svg")});
  EXPECT_EQ(results["trace"]["tokens"], 1024);
  EXPECT_EQ(results["trace"]["layers"], 4);
  EXPECT_EQ(results["results"].size(), 7U);  // 3 policies, 2 admissions, the optimum once
  const double lru = hit_rate(results, "lru", "instant");
  const double ours = hit_rate(results, "default", "passes");
  EXPECT_GT(ours, lru + 0.03);
  EXPECT_GT(hit_rate(results, "optimum", "instant"), ours);
  expect_parts(read_file(path("plot.svg")), {"<svg", "default, passes", "lfu:32, instant"});
  const Ended table = run({"simulate", kTrace, "--cache", "26", "--per-layer"});
  expect_parts(table.out, {"1024 tokens, 4 layers x 64 experts, 32 choices a token",
                           "default  equal      passes    40.6    104", "\n3 "});
}

TEST_F(SimulateCommand, SharesAndSlotsAreTheSameCache) {
  const json share = json_of({"simulate", kTrace, "--cache", "25%", "--policy", "lfu:16"});
  const json slots = json_of({"simulate", kTrace, "--cache", "16", "--policy", "lfu:16"});
  EXPECT_EQ(share, slots);
  const json model =
      json_of({"simulate", kTrace, "--cache", "25%", "--policy", "lfu:16", "--model", kDemo});
  EXPECT_EQ(model["results"][0]["slots"], 4 * 16);
  const std::int64_t copies = model["results"][0]["copies"];
  EXPECT_EQ(model["results"][0]["bytes_moved"], copies * 27648);  // 3 x 256 x 64 in Q4_0
}

TEST_F(SimulateCommand, StartsFromWhatIsKnown) {
  const std::vector<std::string> base = {"simulate", kTrace,   "--cache",  "16",
                                         "--policy", "static", "--policy", "default"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  ASSERT_EQ(run({"profile", kTrace, "-o", path("p")}).code, 0);
  const json profile = json_of(with({"--profile", path("p"), "--quota", "marginal"}));
  const json trained = json_of(with({"--train", kTrace, "--quota", "marginal"}));
  EXPECT_GT(hit_rate(profile, "static", "passes", "marginal"), 0.45);
  EXPECT_NEAR(hit_rate(profile, "static", "passes", "marginal"),
              hit_rate(trained, "static", "passes", "marginal"), 0.001);
  // The second text, knowing the first: adapting beats what is fixed.
  const json split = json_of(with({"--train-split", "0.5"}));
  EXPECT_EQ(split["trace"]["tokens"], 512);
  EXPECT_GT(hit_rate(split, "default", "passes"), hit_rate(split, "static", "passes") + 0.02);
}

TEST_F(SimulateCommand, ShowsTheHitRateOverTime) {
  const std::vector<std::string> base = {"simulate",    kTrace, "--cache",  "16",
                                         "--over-time", "64",   "--policy", "default"};
  auto arguments = base;
  arguments.insert(arguments.end(), {"--plot", path("plot.svg")});
  const json all = json_of(arguments);
  ASSERT_EQ(all["over_time"].size(), 1U);
  EXPECT_EQ(all["over_time"][0]["name"], "default 25 %");
  const std::vector<double> rates = all["over_time"][0]["hit_rates"];
  ASSERT_EQ(rates.size(), 16U);
  expect_parts(read_file(path("plot.svg")), {"default 25 %", "tokens</text>"});
  arguments = base;
  arguments.insert(arguments.end(), {"--period", "512", "--skip", "512"});
  const json second = json_of(arguments);
  EXPECT_EQ(second["over_time"][0]["hit_rates"],
            json(std::vector<double>(rates.begin() + 8, rates.end())));
  arguments = base;
  arguments.insert(arguments.end(), {"--period", "100"});
  expect_error(run(arguments), 2, {"multiples of --over-time 64"});
}

TEST_F(SimulateCommand, ASwapEarnsItsCopyWithinTheHorizon) {
  const auto copies = [](const char* horizon) {
    return json_of({"simulate", kTrace, "--cache", "16", "--policy", "default", "--horizon",
                    horizon})["results"][0]["copies"]
        .get<int>();
  };
  EXPECT_LT(copies("16"), copies("96") / 2);
  EXPECT_EQ(copies("96"), json_of({"simulate", kTrace, "--cache", "16", "--policy",
                                   "default"})["results"][0]["copies"]);
}

TEST_F(SimulateCommand, MakesATraceUp) {
  const json results = json_of({"simulate", "--synthetic", "3", "--cache", "50%", "--policy",
                                "fill", "--layers", "0,46-47"});
  EXPECT_EQ(results["trace"], json::parse("{\"tokens\": 3, \"layers\": 3, \"experts\": 512, "
                                          "\"choices\": 90}"));
  const json two = json_of({"simulate", "--synthetic", "3", "--seed", "1", "--seed", "2",
                            "--layers", "0", "--cache", "0"});
  EXPECT_EQ(two["trace"]["tokens"], 6);
}

TEST_F(SimulateCommand, RefusesWhatItCannotUse) {
  const auto refused = [&](std::vector<std::string> arguments, int code,
                           const std::vector<std::string>& words) {
    arguments.insert(arguments.begin(), {"simulate", kTrace});
    expect_error(run(arguments), code, words);
  };
  expect_error(run({"simulate"}), 2, {"give a routing trace"});
  refused({"--synthetic", "10"}, 2, {"give a routing trace"});
  refused({"--policy", "fifo"}, 2, {"--policy fifo", "lfru"});
  refused({"--policy", "optimum"}, 2, {"always shown"});
  refused({"--policy", "lru:3"}, 2, {"only lfu and lfru"});
  for (const char* half_life : {"lfu:", "lfu:0.5", "lfu:x", "lfu:8x", "lfu:nan"}) {
    refused({"--policy", half_life}, 2, {half_life, "half-life of 1"});
  }
  for (const char* cache : {"", "65", "1.5", "101%", "-1", "x", "8GiB", "%", "inf%"}) {
    refused({"--cache", cache}, 2, {"give per cent of all experts", "0 to 64"});
  }
  refused({"--quota", "fair"}, 2, {"equal, marginal and first-come"});
  for (const char* layers : {"4", "0,", "2-1", "a", "0-3x", "1--2"}) {
    refused({"--layers", layers}, 2, {"--layers " + std::string(layers), "such as 0,3-5"});
  }
  refused({"--policy", "static"}, 2, {"needs a profile"});
  refused({"--experts", "8"}, 2, {"uses expert 63"});
  refused({"--ram", "600"}, 2, {"500 GB/s"});
  refused({"--adapt-every", "0"}, 2, {"--adapt-every"});
  refused({"--train-split", "0.0001"}, 2, {"nothing of 1024 tokens"});
  refused({"--train", kTrace, "--profile", "x"}, 2, {"excludes"});
  refused({"--profile", kTrace}, 3, {"does not start with 'STRP'"});
  write(path("wide"), record(0, {64}) + record(5, {1}));
  refused({"--train", path("wide")}, 3, {"6 layers x 65"});
  ASSERT_EQ(run({"profile", path("wide"), "-o", path("p"), "--layers", "3"}).code, 3);
  ASSERT_EQ(run({"profile", kTrace, "-o", path("p"), "--layers", "4", "--experts", "64"}).code, 0);
  expect_error(run({"simulate", path("wide"), "--profile", path("p")}), 3,
               {"4 layers x 64 experts", "6 x 65", "is not its"});
  expect_error(run({"simulate", path("wide"), "--model", kDemo}), 3, {"is not its"});
  refused({"--profile", path("p"), "--experts", "65"}, 3, {"4 layers x 64", "4 x 65"});
  refused({"--profile", path("p"), "--model", kDemo}, 3, {"4 layers x 64", "12 x 64"});
  refused({"--plot", path("no/folder/plot.svg")}, 4, {"no/folder"});
}

}  // namespace
}  // namespace strata::app::test
