// The forward pass with the CUDA device, experts on it and on the CPU: the logits of a CPU alone,
// bit for bit.
#include "strata/runtime/forward.hpp"
#include "strata/core/expert_cache.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tiny_model.hpp"

#include <filesystem>

namespace strata::runtime {
namespace {

using device::test::CudaTest;
using testing::TinyModel;
using testing::TinyShape;

constexpr int kContext = 64;

// Reads 40 tokens: windows of 9 and 8 with some logits wanted, then one by one.
std::vector<float> read(const Model& model, device::Device& device, Forward& forward) {
  const SequenceState sequence(model, device, kContext, device::KvType::kF16);
  std::vector<float> all;
  int position = 0;
  const auto window = [&](int tokens) {
    std::vector<WindowToken> w;
    for (int i = 0; i < tokens; ++i, ++position) {
      w.push_back({37 * position % 256, position, &sequence, i % 3 == 2 || i + 1 == tokens});
    }
    const device::Rows logits = forward.run(w);
    for (int i = 0; i < logits.count; ++i)
      all.insert(all.end(), logits.row(i), logits.row(i) + model.h.vocab);
  };
  window(9);
  window(8);
  while (position < 40) window(1);
  return all;
}

class CudaForwardTest : public CudaTest {
 protected:
  // Of `every` experts one is missing in the cache.
  void expect_the_cpus_logits(const gguf::File& file, int every) {
    Model on_cpu = load_model(file, kContext, cpu_, threads_, nullptr);
    Forward cpu_forward(on_cpu, cpu_, 16);
    const std::vector<float> expected = read(on_cpu, cpu_, cpu_forward);

    const Model model = load_model(file, kContext, gpu(), threads_, nullptr);
    const std::vector<int> quotas(static_cast<std::size_t>(model.h.layers), model.h.experts);
    core::ExpertCache cache(gpu(), model.experts, model.h.experts, quotas);
    for (int layer = 0; layer < model.h.layers; ++layer) {
      for (int e = 0; e < model.h.experts; ++e) {
        if ((e + layer) % every == 0) continue;
        const core::ExpertCache::Fill fill = cache.begin({layer, e});
        gpu().copy_from_host(fill.to, fill.from, fill.bytes);
        cache.finish(fill.slot);
      }
    }
    Forward forward(model, gpu(), cpu_, 16);
    forward.tiers().attach(cache, gpu(), 16 * model.h.experts_used);
    const std::vector<float> logits = read(model, gpu(), forward);
    EXPECT_TRUE(device::test::same_bits(expected, logits));
    EXPECT_GT(forward.tiers().total().hit_rows, 0u);
  }

 private:
  ThreadPool threads_{ThreadPoolOptions{.threads = 2, .cpus = {}}};
  device::CpuDevice cpu_{threads_, {}};
};

TEST_F(CudaForwardTest, TinyModelsOfEveryFormat) {
  for (const gguf::Type type : quant::supported_types()) {
    TinyShape shape;
    if (gguf::traits(type).block_elems == 256) {
      shape.embd = 256;
      shape.heads = 4;
      shape.head_dim = 64;
      shape.hidden = 256;
    }
    shape.type = [type](int) { return type; };
    const auto bytes = TinyModel(shape).bytes();
    expect_the_cpus_logits(gguf::test::parse(bytes), 4);
    if (HasFailure()) FAIL() << gguf::traits(type).name;
  }
}

TEST_F(CudaForwardTest, TheDemoModel) {
  std::filesystem::path path = "data/strata-demo.gguf";  // where a copied program is run
  if (!std::filesystem::exists(path)) path = STRATA_SOURCE_DIR / path;
  const gguf::File file = gguf::File::open(path);
  expect_the_cpus_logits(file, 5);
  expect_the_cpus_logits(file, 1000);
}

}  // namespace
}  // namespace strata::runtime
