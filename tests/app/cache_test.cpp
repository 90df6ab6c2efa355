// The expert cache from the command line: run, plan, bench parity.
#include "tests/app/program.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::app::test {
namespace {

using gguf::test::TempFolder;
using nlohmann::json;

TEST(Cache, TheAnswerIsTheSameAndTheSummarySaysWhatItDid) {
  const std::vector<std::string> base = {"run", kDemo, "Tell me a story.", "-n", "40", "--greedy"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  const Ended off = with({});
  EXPECT_EQ(off.err.find("\ncache "), std::string::npos);
  for (const char* size : {"1", "200", "10MiB", "auto"}) {
    const Ended on = with({"--expert-cache", size});
    EXPECT_EQ(on.code, 0);
    EXPECT_EQ(on.out, off.out) << size;
    expect_parts(on.err, {"cache    ", "of experts", "expert uses hit", "the optimum", "copies"});
  }
  const json cache = with({"--expert-cache", "200", "--json", "--quiet"}).last_event().at("cache");
  EXPECT_EQ(cache["slots"], 200);
  EXPECT_EQ(cache["layers"].size(), 12U);
  EXPECT_GT(cache["hit_rate"], 0.0);
  EXPECT_GT(cache["optimum_hit_rate"], cache["recorded_hit_rate"]);
}

TEST(Cache, FlagsThatWouldDoNothingAreRefused) {
  const auto refused = [](std::vector<std::string> flags, const std::string& part) {
    flags.insert(flags.begin(), {"run", kDemo, "Hi"});
    const Ended ended = run(flags);
    EXPECT_EQ(ended.code, 2);
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  };
  refused({"--adapt-every", "4"}, "--adapt-every does nothing without an expert cache");
  refused({"--expert-cache", "0", "--expert-profile", "x"}, "--expert-profile does nothing");
  refused({"--expert-cache", "lots"}, "--expert-cache 'lots'");
  refused({"--expert-cache", "9", "--cache-policy", "best"}, "--cache-policy");
  refused({"--expert-cache", "9", "--cache-policy", "lru", "--adapt-decay", "9"}, "--adapt-decay");
  refused({"--expert-cache", "9", "--cache-policy", "pairs", "--adapt-decay", "9"},
          "--cache-policy pairs has no single half-life");
  refused({"--expert-cache", "9", "--vram-limit", "huge"}, "'huge' is not a size");
}

TEST(Cache, AMadeUpTraceOfAnySizeIsReplayed) {
  const TempFolder folder;
  const std::string trace = folder / "t";
  const Ended made = run({"trace", trace, "--model", kDemo, "--tokens", "50"});
  EXPECT_EQ(made.code, 0) << made.err;
  expect_parts(made.out, {"50 tokens, 12 layers x 64 experts, 8 a token and layer"});
  const Ended bench = run({"bench", kDemo, "-p", "8", "-n", "8", "-r", "1", "--replay-routing",
                           trace, "--expert-cache", "200", "--json", "-"});
  EXPECT_EQ(bench.code, 0) << bench.err;
  expect_parts(bench.err, {"routing  replayed from", "50 tokens"});
  EXPECT_EQ(json::parse(bench.out)[1]["replayed_tokens"], 50);
  EXPECT_EQ(run({"bench", "parity", kDemo, "-n", "60", "--cache", "200", "--policy", "lru",
                 "--adapt", "1", "--thread-counts", "2", "--replay-routing", trace})
                .code,
            0);
  EXPECT_EQ(run({"trace", trace, "--layers", "3", "--experts", "12", "--used", "3"}).code, 0);
  const Ended foreign = run({"run", kDemo, "Hi", "--replay-routing", trace});
  EXPECT_EQ(foreign.code, 3) << foreign.err;
  expect_parts(foreign.err, {"token 0 has 3 experts", "12 layers and uses 8"});
  EXPECT_EQ(run({"trace", trace, "--experts", "2", "--used", "3"}).code, 2);
}

TEST(Cache, ProfileAuditAndTraceAreWritten) {
  const TempFolder folder;
  const std::string profile = folder / "p.strp", audit = folder / "a.jsonl", trace = folder / "t";
  const Ended first =
      run({"run", kDemo, "Tell me a story.", "-n", "20", "--greedy", "--expert-cache", "100",
           "--expert-profile-save", profile, "--audit", audit, "--dump-routing", trace});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.jsonl", "p.strp", "t"}));
  const Ended second = run({"run", kDemo, "Tell me a story.", "-n", "20", "--greedy",
                            "--expert-cache", "100", "--expert-profile", profile});
  EXPECT_EQ(second.out, first.out);
  expect_parts(second.err, {"100 filled from the profile"});
  const auto perplexity = [&](const std::string& slots) {
    const Ended ended =
        run({"perplexity", kDemo, "--text", audit, "--expert-cache", slots, "--json"});
    return json::parse(ended.out).at("mean_nll").get<double>();
  };
  EXPECT_EQ(perplexity("0"), perplexity("50"));
}

TEST(Plan, SaysWhatFitsAndWhatWould) {
  const Ended fits = run({"plan", kDemo});
  EXPECT_EQ(fits.code, 0);
  expect_parts(fits.out, {"RAM\n", "experts", "20.2 MiB", "dense weights", "FITS\n"});
  const Ended gpu = run({"plan", kDemo, "--vram", "1GiB", "--ram", "1GiB"});
  EXPECT_EQ(gpu.code, 0);
  expect_parts(gpu.out, {"accelerator\n", "expert cache", "768 slots, 100.0 %", "FITS\n"});
  const Ended small = run({"plan", kDemo, "--vram", "300MiB"});
  EXPECT_EQ(small.code, 5);
  expect_parts(small.out, {"DOES NOT FIT", "try --vram-reserve-mib"});
  const json plan = json::parse(
      run({"plan", kDemo, "--vram", "710MiB", "--ram", "1GiB", "--json", "-c", "64"}).out);
  EXPECT_TRUE(plan["fits"]);
  EXPECT_LT(plan["resident_share"], 1.0);
  EXPECT_EQ(plan["accelerator_needed"], 710U << 20);
  EXPECT_EQ(run({"plan", kDemo, "-c", "999999"}).code, 2);
}

TEST(BenchParity, FindsNoDifferingBitAndSaysSoInJson) {
  const Ended ended =
      run({"bench", "parity", kDemo, "-q", "-n", "60", "--cache", "0,7,50%", "--policy",
           "default,pairs", "--adapt", "1,1000", "--thread-counts", "1,3", "--json", "-"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const json result = json::parse(ended.out);
  EXPECT_EQ(result["rows"].size(), 2U * (1 + 3 * 2 * 2));
  double hits = 0;
  for (const json& row : result["rows"]) {
    EXPECT_EQ(row["differing"], 0) << row;
    EXPECT_GT(row["logits"], 0);
    hits += row["hit_rate"].get<double>();
  }
  EXPECT_GT(hits, 0);
  EXPECT_EQ(run({"bench", "parity", kDemo, "--cache", "769"}).code, 2);
  EXPECT_EQ(run({"bench", "parity"}).code, 2);
}

}  // namespace
}  // namespace strata::app::test
