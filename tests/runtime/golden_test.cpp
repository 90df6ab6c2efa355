// The demo model against reference values (tests/data/demo, made by tools/train_demo.py: float32
// over the exactly dequantised weights), and the promise that logits are the same bits however the
// work is cut: by instruction set, threads, windows, and sequences beside it.
#include "strata/base/file_io.hpp"
#include "strata/base/isa.hpp"
#include "strata/runtime/engine.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace strata {
namespace {

using device::Activations;
using Ids = std::vector<std::int32_t>;
using Logits = std::vector<float>;

const std::string kSource = STRATA_SOURCE_DIR;

std::string read_demo(const std::string& name) {
  return read_text_file(kSource + "/tests/data/demo/" + name, 1U << 24);
}

EngineOptions demo(Activations activations = Activations::kInt8) {
  EngineOptions options;
  options.model = kSource + "/data/strata-demo.gguf";
  options.activations = activations;
  options.context = 600;
  return options;
}

const nlohmann::json& golden() {
  static const nlohmann::json values = nlohmann::json::parse(read_demo("golden.json"));
  return values;
}

// The held-out rows: a .npy file whose data, int32 [16][512], stand at its end.
constexpr std::size_t kRows = 16;
constexpr std::size_t kRowLength = 512;
Ids held_out_row(std::size_t row) {
  const std::string bytes = read_demo("heldout_ids.npy");
  Ids ids(kRowLength);
  const std::size_t row_bytes = kRowLength * sizeof(std::int32_t);
  std::memcpy(ids.data(), bytes.data() + bytes.size() - (kRows - row) * row_bytes, row_bytes);
  return ids;
}

// Logits after each of `lengths` tokens of `ids`, fed in one go up to each.
std::vector<Logits> logits_after(Engine& engine, const Ids& ids,
                                 const std::vector<std::size_t>& lengths) {
  const std::unique_ptr<Session> session = engine.new_session();
  std::vector<Logits> result;
  for (const std::size_t length : lengths) {
    const std::size_t done = session->tokens().size();
    session->feed(std::span(ids).subspan(done, length - done));
    result.emplace_back(session->logits().begin(), session->logits().end());
  }
  return result;
}

// Bits, not values: 0 and -0 differ.
void expect_same_bits(const std::vector<Logits>& a, const std::vector<Logits>& b,
                      const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    std::size_t differing = 0;
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      differing += std::memcmp(&a[i][j], &b[i][j], sizeof(float)) != 0;
    }
    EXPECT_EQ(differing, 0U) << what << ", logits number " << i;
  }
}

double mean_loss(Engine& engine, std::size_t rows) {
  const std::unique_ptr<Session> session = engine.new_session();
  double sum = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const Ids ids = held_out_row(row);
    session->truncate(0);
    session->score(ids, [&](std::size_t i, std::span<const float> logits) {
      if (i + 1 < ids.size()) sum -= runtime::token_logprob(logits, ids[i + 1]);
    });
  }
  return sum / static_cast<double>(rows * (kRowLength - 1));
}

TEST(Golden, LogitsAndGreedyTokensWithFloatActivations) {
  const std::unique_ptr<Engine> engine = Engine::load(demo(Activations::kF32));
  for (const nlohmann::json& prompt : golden()["prompts"]) {
    SCOPED_TRACE(prompt["prompt"]);
    const Ids ids = prompt["ids"].get<Ids>();
    if (!prompt["chat"].get<bool>()) {
      EXPECT_EQ(engine->tokenizer().encode(prompt["prompt"].get<std::string>()), ids);
    }
    const std::unique_ptr<Session> session = engine->new_session();
    session->feed(ids);
    const auto expected = prompt["last_logits"].get<Logits>();
    ASSERT_EQ(session->logits().size(), expected.size());
    float worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(session->logits()[i] - expected[i]));
    }
    EXPECT_LT(worst, 2e-3F);

    Ids greedy;
    for (std::size_t i = 0; i < prompt["greedy"].size(); ++i) {
      greedy.push_back(runtime::greedy_token(session->logits()));
      session->feed({&greedy.back(), 1});
    }
    EXPECT_EQ(greedy, prompt["greedy"].get<Ids>());
  }
}

// What integer activations cost: at most half a percent of perplexity.
TEST(Golden, PerplexityWithIntegerActivations) {
#ifdef NDEBUG
  const std::unique_ptr<Engine> engine = Engine::load(demo());
  const double perplexity = std::exp(mean_loss(*engine, kRows));
  EXPECT_NEAR(perplexity, golden()["heldout_ppl"].get<double>(), 23.0225 * 0.005);
  RecordProperty("perplexity", std::to_string(perplexity));
#else
  // Unoptimised code has time for one row only, which the float arithmetic must judge.
  const double int8 = mean_loss(*Engine::load(demo()), 1);
  const double f32 = mean_loss(*Engine::load(demo(Activations::kF32)), 1);
  EXPECT_NEAR(std::exp(int8 - f32), 1.0, 0.02);
#endif
}

#ifdef NDEBUG
TEST(Golden, PerplexityWithFloatActivations) {
  const double perplexity = std::exp(mean_loss(*Engine::load(demo(Activations::kF32)), kRows));
  EXPECT_NEAR(perplexity, golden()["heldout_ppl"].get<double>(), 0.01);
}
#endif

// Every way of computing the same logits, against the plainest one.
class SameBits : public ::testing::TestWithParam<Activations> {
 protected:
  [[nodiscard]] static EngineOptions options() { return demo(GetParam()); }
  [[nodiscard]] static std::vector<Logits> compute(const EngineOptions& options) {
    const std::unique_ptr<Engine> engine = Engine::load(options);
    return logits_after(*engine, text(), lengths());
  }
  static const Ids& text() {
    static const Ids ids = held_out_row(3);
    return ids;
  }
  // Prompts of 70 and 260 tokens, then single ones: attention joins two chunks of positions at 256.
  static std::vector<std::size_t> lengths() { return {70, 330, 331, 332, 333}; }
};

TEST_P(SameBits, ForEveryInstructionSet) {
  EngineOptions generic = options();
  generic.isa = Isa::kGeneric;
  const std::vector<Logits> expected = compute(generic);
  for (const IsaSupport& support : detect_isas()) {
    if (!support.usable || support.isa == Isa::kGeneric) continue;
    EngineOptions other = options();
    other.isa = support.isa;
    expect_same_bits(compute(other), expected, std::string(isa_name(support.isa)));
  }
}

TEST_P(SameBits, ForAnyNumberOfThreads) {
  EngineOptions one = options();
  one.threads = 1;
  const std::vector<Logits> expected = compute(one);
  for (const int threads : {2, 5}) {
    EngineOptions other = options();
    other.threads = threads;
    expect_same_bits(compute(other), expected, std::to_string(threads) + " threads");
  }
}

TEST_P(SameBits, ForAPromptAtOnceAndTokenByToken) {
  const std::unique_ptr<Engine> engine = Engine::load(options());
  std::vector<std::size_t> single(333);
  for (std::size_t i = 0; i < single.size(); ++i) single[i] = i + 1;
  const std::vector<Logits> one_by_one = logits_after(*engine, text(), single);
  std::vector<Logits> expected;
  for (const std::size_t length : lengths()) expected.push_back(one_by_one[length - 1]);
  expect_same_bits(logits_after(*engine, text(), lengths()), expected, "one by one");
}

TEST_P(SameBits, ForAnyWindow) {
  EngineOptions large = options();
  large.window = 512;
  const std::vector<Logits> expected = compute(large);
  for (const int window : {1, 7, 64}) {
    EngineOptions other = options();
    other.window = window;
    expect_same_bits(compute(other), expected, "window " + std::to_string(window));
  }
}

TEST_P(SameBits, ForScoringAndFeeding) {
  const std::unique_ptr<Engine> engine = Engine::load(options());
  const std::unique_ptr<Session> session = engine->new_session();
  const Ids ids(text().begin(), text().begin() + 333);
  std::vector<Logits> rows;
  session->score(ids, [&](std::size_t index, std::span<const float> logits) {
    EXPECT_EQ(index, rows.size());
    rows.emplace_back(logits.begin(), logits.end());
  });
  std::vector<Logits> chosen;
  for (const std::size_t length : lengths()) chosen.push_back(rows[length - 1]);
  expect_same_bits(chosen, logits_after(*engine, text(), lengths()), "score");
}

TEST_P(SameBits, AfterForgettingAndFeedingAgain) {
  const std::unique_ptr<Engine> engine = Engine::load(options());
  const std::unique_ptr<Session> session = engine->new_session();
  session->feed(std::span(text()).first(333));
  session->truncate(50);
  EXPECT_TRUE(session->logits().empty());
  const Ids other = held_out_row(5);
  session->feed(std::span(other).first(60));  // another text in the cells that were freed
  session->truncate(50);
  EXPECT_EQ(session->common_prefix(text()), 50U);
  session->feed(std::span(text()).subspan(50, 283));
  const std::vector<Logits> again = {{session->logits().begin(), session->logits().end()}};
  expect_same_bits(again, {logits_after(*engine, text(), {333})}, "fed again");
}

// Two sequences of different lengths share windows: each gets the logits it gets alone.
TEST_P(SameBits, ForTwoSequencesInAWindow) {
  const std::unique_ptr<Engine> engine = Engine::load(options());
  const Ids texts[] = {text(), held_out_row(8)};
  const std::size_t prompts[] = {40, 25};
  constexpr std::size_t kSteps = 4;
  const std::unique_ptr<Session> a = engine->new_session();
  const std::unique_ptr<Session> b = engine->new_session();
  const runtime::SequenceState* states[] = {&a->state(), &b->state()};

  std::vector<Logits> together[2];
  const auto vocab = static_cast<std::size_t>(engine->hparams().vocab);
  const auto run = [&](std::size_t step) {  // 0: both prompts; later: a token of each
    std::vector<runtime::WindowToken> window;
    for (int s = 0; s < 2; ++s) {
      const std::size_t begin = step == 0 ? 0 : prompts[s] + step - 1;
      const std::size_t end = prompts[s] + step;
      for (std::size_t i = begin; i < end; ++i) {
        window.push_back({texts[s][i], static_cast<std::int32_t>(i), states[s], i + 1 == end});
      }
    }
    const device::Rows logits = engine->run(window);
    ASSERT_EQ(logits.count, 2);
    for (int s = 0; s < 2; ++s) together[s].emplace_back(logits.row(s), logits.row(s) + vocab);
  };
  for (std::size_t step = 0; step < kSteps; ++step) run(step);

  for (int s = 0; s < 2; ++s) {
    std::vector<std::size_t> lengths;
    for (std::size_t step = 0; step < kSteps; ++step) lengths.push_back(prompts[s] + step);
    expect_same_bits(together[s], logits_after(*engine, texts[s], lengths),
                     "sequence " + std::to_string(s));
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, SameBits,
                         ::testing::Values(Activations::kInt8, Activations::kF32),
                         [](const ::testing::TestParamInfo<Activations>& info) {
                           return info.param == Activations::kInt8 ? "Int8" : "F32";
                         });

}  // namespace
}  // namespace strata
