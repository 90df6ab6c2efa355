// Windows as programs: the same logits as a CPU alone whatever the number of rows and sequences,
// what is resident, what changes between windows, and how far the context has grown.
#include "strata/core/expert_cache.hpp"
#include "strata/runtime/forward.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <map>
#include <stdexcept>

namespace strata::runtime {
namespace {

using device::test::CudaTest;
using testing::TinyModel;
using testing::TinyShape;

constexpr int kProgramContext = 640;  // three chunks of attention
constexpr int kSequences = 8;
constexpr int kLayers = 19;  // more than a program has, no multiple

// A model of more layers than a program has, on a device, and sequences that grow.
class Growing {
 public:
  Growing(const gguf::File& file, device::Device& device, device::Device& pool, ThreadPool& threads)
      : model(load_model(file, kProgramContext, device, threads, nullptr)),
        forward(model, device, pool, 64) {
    for (int i = 0; i < kSequences; ++i) {
      sequences.push_back(
          std::make_unique<SequenceState>(model, device, kProgramContext, device::KvType::kF16));
    }
  }
  // `count` tokens each of sequences [first, first + number), all logits wanted.
  std::vector<float> window(int first, int number, int count) {
    std::vector<WindowToken> rows;
    for (int s = first; s < first + number; ++s) {
      for (int i = 0; i < count; ++i) {
        const int at = position[s]++;
        rows.push_back(
            {(13 * s + 37 * at) % 256, at, sequences[static_cast<std::size_t>(s)].get(), true});
      }
    }
    const device::Rows logits = forward.run(rows);
    std::vector<float> all;
    for (int i = 0; i < logits.count; ++i)
      all.insert(all.end(), logits.row(i), logits.row(i) + model.h.vocab);
    return all;
  }

  Model model;
  Forward forward;
  std::vector<std::unique_ptr<SequenceState>> sequences;
  std::map<int, int> position;
};

class CudaProgramTest : public CudaTest {
 protected:
  CudaProgramTest() {
    TinyShape shape;
    shape.layers = kLayers;
    shape.experts = 8;
    shape.used = 3;
    bytes_ = TinyModel(shape).bytes();
    file_ = std::make_unique<gguf::File>(gguf::test::parse(bytes_));
  }
  void expect_same_window(Growing& a, Growing& b, int first, int number, int count) {
    const std::vector<float> expected = a.window(first, number, count);
    const std::vector<float> found = b.window(first, number, count);
    ASSERT_TRUE(device::test::same_bits(expected, found))
        << number << " sequences from " << first << " at " << b.position[first];
  }
  void fill(core::ExpertCache& cache, core::ExpertId id) {
    const core::ExpertCache::Fill fill = cache.begin(id);
    gpu().copy_from_host(fill.to, fill.from, fill.bytes);
    cache.finish(fill.slot);
  }

  std::vector<std::byte> bytes_;
  std::unique_ptr<gguf::File> file_;
  ThreadPool threads_{ThreadPoolOptions{.threads = 2, .cpus = {}}};
  device::CpuDevice pool_{threads_, {}};
};

TEST_F(CudaProgramTest, AnyNumberOfRowsAndSequences) {
  Growing on_cpu(*file_, pool_, pool_, threads_);
  Growing on_gpu(*file_, gpu(), pool_, threads_);
  const std::vector<int> quotas(static_cast<std::size_t>(on_gpu.model.h.layers), 8);
  core::ExpertCache cache(gpu(), on_gpu.model.experts, on_gpu.model.h.experts, quotas);
  for (int layer = 0; layer < on_gpu.model.h.layers; ++layer) {
    for (int e = layer % 3; e < 8; e += 2) fill(cache, {layer, e});
  }
  on_gpu.forward.tiers().attach(cache, gpu(), 64 * on_gpu.model.h.experts_used);
  ASSERT_TRUE(on_gpu.forward.tiers().can_record());
  for (int number = 1; number <= kSequences; ++number) {
    expect_same_window(on_cpu, on_gpu, 0, number, 1);
  }
  expect_same_window(on_cpu, on_gpu, 3, 1, 8);   // all of one sequence
  expect_same_window(on_cpu, on_gpu, 2, 2, 3);   // two of three
  expect_same_window(on_cpu, on_gpu, 0, 1, 50);  // no program: too many rows
  expect_same_window(on_cpu, on_gpu, 0, 8, 1);
  const core::TierCounts total = on_gpu.forward.tiers().total();
  EXPECT_GT(total.hit_rows, 0U);
  EXPECT_GT(total.miss_rows, 0U);
  const Stats& stats = on_gpu.forward.stats();
  for (std::size_t part = 0; part < kParts; ++part) {
    EXPECT_EQ(stats.parts[part].bytes, on_cpu.forward.stats().parts[part].bytes)
        << part_name(static_cast<Part>(part));
  }
}

// A context that grows past the chunks that a program was made for, and many runs of one program.
TEST_F(CudaProgramTest, AContextGrows) {
  Growing on_cpu(*file_, pool_, pool_, threads_);
  Growing on_gpu(*file_, gpu(), pool_, threads_);
  for (int i = 0; i < 4; ++i) expect_same_window(on_cpu, on_gpu, 0, 1, 62);
  for (int i = 0; i < 20; ++i) expect_same_window(on_cpu, on_gpu, 0, 2, 1);
  for (int i = 0; i < 5; ++i) expect_same_window(on_cpu, on_gpu, 0, 1, 60);
  for (int i = 0; i < 4; ++i) expect_same_window(on_cpu, on_gpu, 0, 2, 1);
}

// Nothing resident, then all, then others: the table is the device's before the window is.
TEST_F(CudaProgramTest, ResidentsChangeBetweenWindows) {
  Growing on_cpu(*file_, pool_, pool_, threads_);
  Growing on_gpu(*file_, gpu(), pool_, threads_);
  const int layers = on_gpu.model.h.layers;
  expect_same_window(on_cpu, on_gpu, 0, 1, 1);  // without a cache
  const std::vector<int> quotas(static_cast<std::size_t>(layers), 4);
  core::ExpertCache cache(gpu(), on_gpu.model.experts, on_gpu.model.h.experts, quotas);
  on_gpu.forward.tiers().attach(cache, gpu(), 64 * on_gpu.model.h.experts_used);
  expect_same_window(on_cpu, on_gpu, 0, 2, 1);
  for (int layer = 0; layer < layers; ++layer) {
    for (int e = 0; e < 4; ++e) fill(cache, {layer, e});
  }
  for (int round = 0; round < 12; ++round) {
    expect_same_window(on_cpu, on_gpu, 0, 1 + round % 3, 1);
    for (int layer = 0; layer < layers; ++layer) {
      const int out = (round + layer) % 8;
      const int in = (round + layer + 4) % 8;
      if (cache.slot_of({layer, out}) == core::kNotResident ||
          cache.slot_of({layer, in}) != core::kNotResident)
        continue;
      const core::ExpertCache::Fill swap = cache.begin({layer, in}, {layer, out});
      gpu().copy_from_host(swap.to, swap.from, swap.bytes);
      cache.finish(swap.slot);
    }
  }
  EXPECT_GT(on_gpu.forward.tiers().total().hit_rows, 0U);
}

// What the device lacks comes over the link while it computes, some of it before it is asked for.
TEST_F(CudaProgramTest, PromptsStreamWhatIsLacking) {
  for (const core::FetchRequest request :
       {core::FetchRequest{.share = 1.0}, core::FetchRequest{.automatic = true}}) {
    const std::vector<int> quotas(kLayers, 4);
    for (const int staging : {core::kFetchStaging, 1, 4}) {
      Growing fresh(*file_, gpu(), pool_, threads_);
      core::ExpertCache cache(gpu(), fresh.model.experts, fresh.model.h.experts, quotas, staging);
      for (int layer = 0; layer < fresh.model.h.layers; ++layer) {
        for (int e = 0; e < layer % 5; ++e) fill(cache, {layer, e});
      }
      fresh.forward.tiers().attach(cache, gpu(), 64 * fresh.model.h.experts_used);
      fresh.forward.tiers().fetch(request, 0);
      Growing again(*file_, pool_, pool_, threads_);
      for (const int tokens : {60, 64, 12, 64}) expect_same_window(again, fresh, 0, 1, tokens);
      EXPECT_GT(fresh.forward.tiers().total().fetch_rows, 0U) << staging;
    }
  }
}

// A pool that fails in the middle of a program: the device is let go, and the next window is right.
TEST_F(CudaProgramTest, AFailingPoolEndsTheWindowOnly) {
  class Failing final : public device::Device {
   public:
    explicit Failing(device::Device& inner) : inner_(inner) {}
    [[nodiscard]] std::string description() const override { return "failing"; }
    [[nodiscard]] std::unique_ptr<device::Memory> allocate(std::size_t n) override {
      return inner_.allocate(n);
    }
    [[nodiscard]] std::unique_ptr<device::Memory> upload(Buffer&& host) override {
      return inner_.upload(std::move(host));
    }
    void embed(const device::Linear&, device::Rows) override {}
    void rms_norm(device::Rows, const float*, float, device::Rows) override {}
    void linear(device::Rows, std::span<const device::LinearOutput>) override {}
    void rope(device::Rows, int, const device::Rope&) override {}
    void kv_append(device::Rows, device::Rows, int, const device::AttentionShape&) override {}
    void attention(device::Rows, int, const device::AttentionShape&, device::Rows) override {}
    void route(device::Rows, const device::RouterShape&, std::int32_t*, float*) override {}
    void combine(device::Rows, const float*, int, device::Rows) override {}
    void experts(device::Rows x, const quant::ExpertLayout& layout,
                 std::span<const device::ExpertWork> work, device::Rows parts) override {
      if (left > 0 && --left == 0) throw std::runtime_error("the pool broke");
      inner_.experts(x, layout, work, parts);
    }
    int left = 0;  // calls until one fails

   private:
    device::Device& inner_;
  };
  Failing pool(pool_);
  Growing on_cpu(*file_, pool_, pool_, threads_);
  Growing on_gpu(*file_, gpu(), pool, threads_);
  for (const int left : {1, 7, 8, 9, 19}) {
    pool.left = left;
    EXPECT_THROW(static_cast<void>(on_gpu.window(0, 1, 1)), std::runtime_error);
    --on_gpu.position[0];
    expect_same_window(on_cpu, on_gpu, 0, 1, 1);
  }
}

// What does not come is not waited for.
TEST_F(CudaProgramTest, ADeviceThatPostsNothingIsAnError) {
  core::WindowExchange exchange(gpu(), 2, 8, 3, 32, 0.2);
  const std::vector<device::WindowRow> rows = {{.token = 0, .position = 0, .cache = {}}};
  gpu().begin_window(rows);
  exchange.publish(nullptr);
  EXPECT_TRUE(testing::fails_with(ErrorKind::kInternal, {"before layer 1"},
                                  [&] { static_cast<void>(exchange.wait(1, 1)); }));
}

}  // namespace
}  // namespace strata::runtime
