// The forward pass on tiny models of every format: near the model's equations in double precision,
// and the same bits for every device, window and company.
#include "strata/runtime/forward.hpp"

#include "strata/device/cpu_device.hpp"
#include "tests/runtime/reference_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace strata::runtime {
namespace {

using device::Activations;
using device::KvType;
using gguf::Type;
using testing::TinyModel;
using testing::TinyShape;
using Logits = std::vector<float>;

const std::vector<Isa>& usable_isas() {
  static const std::vector<Isa> isas = [] {
    std::vector<Isa> usable;
    for (const IsaSupport& s : detect_isas()) {
      if (s.usable) usable.push_back(s.isa);
    }
    return usable;
  }();
  return isas;
}

struct Config {
  Isa isa = usable_isas().back();
  int threads = 2;
  Activations activations = Activations::kInt8;
  KvType kv = KvType::kF16;
  int max_window = 64;
};

// A loaded model with one forward pass and as many sequences as are asked for.
class Runner {
 public:
  static constexpr int kContext = 90;  // no multiple of 16

  explicit Runner(const std::vector<std::byte>& bytes, const Config& config = {})
      : config_(config),
        pool_(ThreadPoolOptions{.threads = config.threads, .cpus = {}}),
        device_(pool_, {config.isa, config.activations}),
        model_(load_model(gguf::test::parse(bytes), kContext, device_, pool_, nullptr)),
        forward_(model_, device_, config.max_window) {}

  SequenceState& sequence(std::size_t index) {
    while (sequences_.size() <= index) {
      sequences_.push_back(std::make_unique<SequenceState>(model_, device_, kContext, config_.kv));
    }
    return *sequences_[index];
  }
  // Logits of the tokens that want them, without the padding.
  std::vector<Logits> run(const std::vector<WindowToken>& window) {
    const device::Rows rows = forward_.run(window);
    std::vector<Logits> logits;
    for (int i = 0; i < rows.count; ++i)
      logits.emplace_back(rows.row(i), rows.row(i) + model_.h.vocab);
    return logits;
  }
  // Logits of every token, fed to sequence `index` from position 0 in windows of `step`.
  std::vector<Logits> feed(const std::vector<std::int32_t>& tokens, std::size_t step,
                           std::size_t index = 0) {
    std::vector<Logits> all;
    for (std::size_t first = 0; first < tokens.size(); first += step) {
      std::vector<WindowToken> window;
      for (std::size_t i = first; i < std::min(tokens.size(), first + step); ++i)
        window.push_back({tokens[i], static_cast<std::int32_t>(i), &sequence(index), true});
      for (Logits& l : run(window)) all.push_back(std::move(l));
    }
    return all;
  }
  [[nodiscard]] const Model& model() const { return model_; }
  [[nodiscard]] Forward& forward() { return forward_; }

 private:
  Config config_;
  ThreadPool pool_;
  device::CpuDevice device_;
  Model model_;
  Forward forward_;
  std::vector<std::unique_ptr<SequenceState>> sequences_;
};

std::vector<std::int32_t> random_tokens(int count, int vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> token(0, vocab - 1);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(token(random));
  return tokens;
}

void expect_same_bits(const std::vector<Logits>& expected, const std::vector<Logits>& actual) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(expected[i].size(), actual[i].size());
    ASSERT_EQ(0,
              std::memcmp(expected[i].data(), actual[i].data(), sizeof(float) * expected[i].size()))
        << "token " << i;
  }
}

// Runs `check` for every instruction set, with thread counts in turn.
template <class Check>
void on_every_isa(const Config& base, const Check& check) {
  int threads = 1;
  for (const Isa isa : usable_isas()) {
    Config config = base;
    config.isa = isa;
    config.threads = threads;
    threads = threads == 3 ? 5 : threads == 5 ? 1 : threads + 1;
    SCOPED_TRACE(std::string(isa_name(isa)) + ", " + std::to_string(config.threads) + " threads");
    check(config);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Widths that every format can have.
TinyShape k_quant_shape() {
  TinyShape shape;
  shape.embd = 256;
  shape.heads = 8;
  shape.head_dim = 32;
  shape.hidden = 256;
  shape.experts = 4;
  shape.vocab = 133;
  return shape;
}

// Another format in every matrix, beginning with number `first`.
TinyShape mixed_shape(std::size_t first) {
  TinyShape shape = k_quant_shape();
  shape.layers = 4;
  shape.tied = false;
  shape.type = [first](int index) {
    const std::span<const Type> types = quant::supported_types();
    return types[(first + static_cast<std::size_t>(index)) % types.size()];
  };
  return shape;
}

// The largest difference as a share of the logits' spread.
double worst_difference(const std::vector<double>& expected, const Logits& actual) {
  double worst = 0, squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::fabs(expected[i] - static_cast<double>(actual[i])));
    squares += expected[i] * expected[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(expected.size()));
}

void expect_near_the_equations(const std::vector<std::byte>& bytes, int tokens) {
  const gguf::File file = gguf::test::parse(bytes);
  testing::ReferenceModel reference(file);
  Config config;
  config.activations = Activations::kF32;
  config.kv = KvType::kF32;
  Runner runner(bytes, config);
  const std::vector<std::int32_t> ids =
      random_tokens(tokens, static_cast<int>(runner.model().h.vocab), 5);
  const std::vector<Logits> logits = runner.feed(ids, 7);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::vector<double> expected = reference.next(ids[i]);
    ASSERT_EQ(expected.size(), logits[i].size());
    ASSERT_LT(worst_difference(expected, logits[i]), 1e-4) << "token " << i;
  }
}

TEST(ForwardEquationsTest, TiedSmallModel) {
  expect_near_the_equations(TinyModel(TinyShape{}).bytes(), 40);
}

TEST(ForwardEquationsTest, HeadOfItsOwnFusedExpertsAndPartlyRotatedScaledPositions) {
  TinyShape shape;
  shape.tied = false;
  shape.fused = true;
  shape.heads = 6;
  shape.kv_heads = 2;
  shape.head_dim = 32;
  shape.experts = 5;
  shape.used = 3;
  shape.hidden = 96;
  TinyModel model(shape);
  model.metadata["qwen3moe.rope.dimension_count"] = std::uint32_t{16};
  model.metadata["qwen3moe.rope.freq_base"] = 1e6f;
  model.metadata["qwen3moe.rope.scaling.type"] = "linear";
  model.metadata["qwen3moe.rope.scaling.factor"] = 2.0f;
  model.metadata["qwen3moe.attention.layer_norm_rms_epsilon"] = 1e-2f;
  expect_near_the_equations(model.bytes(), 30);
}

TEST(ForwardEquationsTest, OneHeadOneLayerOneExpert) {
  TinyShape shape;
  shape.layers = 1;
  shape.heads = shape.kv_heads = 1;
  shape.head_dim = 32;
  shape.experts = shape.used = 1;
  expect_near_the_equations(TinyModel(shape).bytes(), 20);
}

TEST(ForwardEquationsTest, EveryFormatInEveryPlace) {
  expect_near_the_equations(TinyModel(mixed_shape(0)).bytes(), 4);
}

// All ways of computing the same logits against the plainest one.
void expect_the_same_bits_everywhere(const TinyShape& shape, const Config& base, int tokens) {
  const std::vector<std::byte> bytes = TinyModel(shape).bytes();
  const std::vector<std::int32_t> ids = random_tokens(tokens, shape.vocab, 9);
  Config plain = base;
  plain.isa = Isa::kGeneric;
  plain.threads = 1;
  const std::vector<Logits> alone = Runner(bytes, plain).feed(ids, 1);
  for (const Logits& l : alone) {
    for (const float v : l) ASSERT_TRUE(std::isfinite(v));
  }
  on_every_isa(base, [&](const Config& config) {
    Runner runner(bytes, config);
    for (const std::size_t window : {std::size_t{1}, std::size_t{3}, std::size_t{7}, ids.size()})
      expect_same_bits(alone, runner.feed(ids, window));
  });
}

class ForwardFormatTest : public ::testing::TestWithParam<Type> {};

TEST_P(ForwardFormatTest, EveryWindowAndDeviceGivesTheSameBits) {
  TinyShape shape = k_quant_shape();
  shape.layers = 1;
  shape.type = [](int) { return GetParam(); };
  expect_the_same_bits_everywhere(shape, {}, 20);
}

INSTANTIATE_TEST_SUITE_P(Types, ForwardFormatTest,
                         ::testing::ValuesIn(quant::supported_types().begin(),
                                             quant::supported_types().end()),
                         [](const auto& info) {
                           return std::string(gguf::traits(info.param).name);
                         });

TEST(ForwardTest, MixedFormatsGiveTheSameBitsEverywhere) {
  expect_the_same_bits_everywhere(mixed_shape(4), {}, 19);
}

TEST(ForwardTest, FloatActivationsGiveTheSameBitsEverywhere) {
  TinyShape shape;
  shape.type = [](int index) { return index % 2 == 0 ? Type::kQ4_0 : Type::kF16; };
  Config config;
  config.activations = Activations::kF32;
  config.kv = KvType::kF32;
  expect_the_same_bits_everywhere(shape, config, 40);
}

TEST(ForwardTest, IntegerActivationsStayNearFloatOnes) {
  const std::vector<std::byte> bytes = TinyModel(mixed_shape(2)).bytes();
  const std::vector<std::int32_t> ids = random_tokens(12, 133, 3);
  Config config;
  const std::vector<Logits> int8 = Runner(bytes, config).feed(ids, 12);
  config.activations = Activations::kF32;
  config.kv = KvType::kF32;
  const std::vector<Logits> f32 = Runner(bytes, config).feed(ids, 12);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double difference =
        worst_difference(std::vector<double>(f32[i].begin(), f32[i].end()), int8[i]);
    EXPECT_LT(difference, 0.2) << "token " << i;
    EXPECT_GT(difference, 0) << "the two are different arithmetic";
  }
}

class ForwardWindowTest : public ::testing::Test {
 protected:
  ForwardWindowTest() : bytes_(TinyModel(TinyShape{}).bytes()) {}
  std::vector<std::byte> bytes_;
};

TEST_F(ForwardWindowTest, SequencesSideBySideDoNotTouchEachOther) {
  const std::vector<std::vector<std::int32_t>> texts = {
      random_tokens(30, 277, 1), random_tokens(17, 277, 2), random_tokens(23, 277, 3)};
  Config plain;
  plain.isa = Isa::kGeneric;
  plain.threads = 1;
  Runner alone(bytes_, plain);
  std::vector<std::vector<Logits>> expected;
  for (std::size_t s = 0; s < texts.size(); ++s) expected.push_back(alone.feed(texts[s], 1, s));

  on_every_isa({}, [&](const Config& config) {
    Runner runner(bytes_, config);
    std::mt19937 random(4);
    std::vector<std::size_t> done(texts.size());
    std::vector<std::vector<Logits>> found(texts.size());
    for (;;) {
      // A window of 0 to 6 tokens of each, the sequences in an order of its own.
      std::vector<std::size_t> order = {0, 1, 2};
      std::ranges::shuffle(order, random);
      std::vector<WindowToken> window;
      std::vector<std::size_t> owner;
      for (const std::size_t s : order) {
        const std::size_t n = std::min<std::size_t>(random() % 7, texts[s].size() - done[s]);
        for (std::size_t i = 0; i < n; ++i, ++done[s]) {
          window.push_back(
              {texts[s][done[s]], static_cast<std::int32_t>(done[s]), &runner.sequence(s), true});
          owner.push_back(s);
        }
      }
      if (window.empty() && done == std::vector<std::size_t>{30, 17, 23}) break;
      if (window.empty()) continue;
      const std::vector<Logits> logits = runner.run(window);
      for (std::size_t i = 0; i < logits.size(); ++i) found[owner[i]].push_back(logits[i]);
    }
    for (std::size_t s = 0; s < texts.size(); ++s) expect_same_bits(expected[s], found[s]);
  });
}

TEST_F(ForwardWindowTest, OnlyWantedLogitsComeAndTheOthersStillFillTheCache) {
  const std::vector<std::int32_t> ids = random_tokens(24, 277, 6);
  Runner all(bytes_);
  const std::vector<Logits> expected = all.feed(ids, ids.size());
  const std::vector<std::vector<int>> wanted = {{}, {23}, {0}, {5, 6, 20}, {0, 23}};
  for (const std::vector<int>& subset : wanted) {
    Runner runner(bytes_);
    std::vector<WindowToken> window;
    std::vector<Logits> chosen;
    for (int i = 0; i < 24; ++i) {
      const bool wants = std::ranges::find(subset, i) != subset.end();
      window.push_back({ids[static_cast<std::size_t>(i)], i, &runner.sequence(0), wants});
      if (wants) chosen.push_back(expected[static_cast<std::size_t>(i)]);
    }
    expect_same_bits(chosen, runner.run(window));
    const std::vector<Logits> next = runner.run({{7, 24, &runner.sequence(0), true}});
    Runner fresh(bytes_);
    std::vector<std::int32_t> longer = ids;
    longer.push_back(7);
    expect_same_bits({fresh.feed(longer, 25).back()}, next);
  }
}

TEST_F(ForwardWindowTest, WantedLogitsOfSeveralSequences) {
  const std::vector<std::int32_t> a = random_tokens(9, 277, 7), b = random_tokens(5, 277, 8);
  Runner alone(bytes_);
  const std::vector<Logits> la = alone.feed(a, 9, 0), lb = alone.feed(b, 5, 1);
  Runner runner(bytes_);
  std::vector<WindowToken> window;
  for (int i = 0; i < 9; ++i)
    window.push_back({a[static_cast<std::size_t>(i)], i, &runner.sequence(0), i == 3 || i == 8});
  for (int i = 0; i < 5; ++i)
    window.push_back({b[static_cast<std::size_t>(i)], i, &runner.sequence(1), i == 0 || i == 4});
  expect_same_bits({la[3], la[8], lb[0], lb[4]}, runner.run(window));
}

TEST_F(ForwardWindowTest, PositionsComputedAgainForgetWhatStoodThere) {
  const std::vector<std::int32_t> ids = random_tokens(40, 277, 9);
  Runner runner(bytes_);
  const std::vector<Logits> expected = runner.feed(ids, 8);
  (void)runner.feed(random_tokens(60, 277, 10), 13);  // another text over the same cells
  expect_same_bits(expected, runner.feed(ids, 5));
}

TEST_F(ForwardWindowTest, TheLastPositionOfTheContextCanBeUsed) {
  const std::vector<std::int32_t> ids = random_tokens(Runner::kContext, 277, 11);
  Config plain;
  plain.isa = Isa::kGeneric;
  const std::vector<Logits> expected = Runner(bytes_, plain).feed(ids, 1);
  EXPECT_EQ(Runner(bytes_).sequence(0).capacity(), Runner::kContext);
  expect_same_bits(expected, Runner(bytes_).feed(ids, 64));
}

// ---- what is counted ----

std::size_t dense_weights(const Layer& l) {
  std::size_t bytes = 0;
  for (const device::Linear* w : {&l.q, &l.k, &l.v, &l.output, &l.router})
    bytes += w->matrix.bytes();
  return bytes;
}

TEST_F(ForwardWindowTest, CountsEveryByteOfAWindow) {
  Runner runner(bytes_);
  std::vector<std::set<std::int32_t>> distinct(2);
  runner.forward().observe_routing(
      [&](int layer, std::span<const std::int32_t> ids, std::span<const float> weights, int used) {
        EXPECT_EQ(used, 2);
        EXPECT_EQ(ids.size(), weights.size());
        distinct[static_cast<std::size_t>(layer)].insert(ids.begin(), ids.end());
      });
  std::vector<WindowToken> window;
  for (int i = 0; i < 11; ++i) window.push_back({i * 3, i, &runner.sequence(0), true});
  for (int i = 0; i < 4; ++i) window.push_back({i * 5, i, &runner.sequence(1), true});
  (void)runner.run(window);
  const Stats stats = runner.forward().stats();
  const Model& m = runner.model();
  std::size_t experts = 0, dense = 0;
  for (int l = 0; l < 2; ++l) {
    experts += distinct[static_cast<std::size_t>(l)].size() * m.experts.layout(l).bytes();
    dense += dense_weights(m.layers[static_cast<std::size_t>(l)]);
  }
  EXPECT_EQ(stats.of(Part::kExperts).bytes, experts);
  EXPECT_EQ(stats.of(Part::kDense).bytes, dense);
  EXPECT_EQ(stats.of(Part::kHead).bytes, m.head.matrix.bytes());
  // 11 + 4 positions, 2 layers, keys and values of 2 heads of 16 halves.
  EXPECT_EQ(stats.of(Part::kAttention).bytes, (11u + 4u) * 2 * 2 * 2 * 16 * 2);
  EXPECT_EQ(stats.bytes(), experts + dense + m.head.matrix.bytes() + 15u * 256);
  EXPECT_EQ(stats.windows, 1u);
  EXPECT_EQ(stats.tokens, 15u);
  EXPECT_EQ(runner.sequence(0).bytes_per_position(), 256u);
}

TEST_F(ForwardWindowTest, PartsAddUpToAtMostTheWhole) {
  Runner runner(bytes_);
  Stats before;
  for (int round = 0; round < 3; ++round) {
    (void)runner.feed(random_tokens(40, 277, 12), 16);
    const Stats now = runner.forward().stats();
    const Stats step = now - before;
    double parts = 0;
    for (std::size_t p = 0; p < kParts; ++p) {
      EXPECT_GT(step.parts[p].seconds, 0) << part_name(static_cast<Part>(p));
      parts += step.parts[p].seconds;
    }
    EXPECT_LE(parts, step.seconds);
    EXPECT_EQ(step.windows, 3u);
    EXPECT_EQ(step.tokens, 40u);
    before = now;
  }
}

TEST_F(ForwardWindowTest, AWindowWithoutWantedLogitsReadsNoHead) {
  Runner runner(bytes_);
  EXPECT_TRUE(runner.run({{1, 0, &runner.sequence(0), false}}).empty());
  EXPECT_EQ(runner.forward().stats().of(Part::kHead).bytes, 0u);
  EXPECT_EQ(runner.forward().stats().tokens, 1u);
}

}  // namespace
}  // namespace strata::runtime
