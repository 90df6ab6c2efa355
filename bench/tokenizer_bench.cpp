// Tokenizer speed on one core, bytes of text a second, for each vocabulary and text.
//   tokenizer_bench [Google Benchmark's flags] [MODEL.gguf ...]
// Without models: the demo's 8,192 tokens and GPT-2's 50,257.
#include "strata/gguf/file.hpp"
#include "strata/text/detokenizer.hpp"
#include "strata/text/tokenizer.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace {

using strata::text::Tokenizer;

constexpr std::size_t kTextBytes = 256 * 1024;

// Sentences in an order of their own, so that the text does not repeat as a whole.
std::string shuffled(const std::vector<std::string_view>& sentences) {
  std::string text;
  std::uint64_t state = 1;
  while (text.size() < kTextBytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    text += sentences[(state >> 33) % sentences.size()];
  }
  return text;
}

std::string english() {
  std::ifstream file(STRATA_SOURCE_DIR "/data/heldout.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) throw std::runtime_error("cannot read data/heldout.txt");
  std::string result;
  while (result.size() < kTextBytes) result += text;
  return result;
}

std::string chinese() {
  return shuffled({
      "模型的每一层都有许多专家，路由器为每个词元挑选其中的八个。",
      "显存放不下的权重留在内存里，由处理器直接计算。",
      "昨天下午我们沿着河边走了很久，直到太阳落到山后面才回家。",
      "他把那封信读了三遍，仍然不明白其中的意思。",
      "如果缓存没有命中，程序就要等待数据从磁盘读入。",
      "春天来了，院子里的桃花开得比往年更早一些。",
      "请用简单的语言解释一下量子力学的基本原理。",
      "2024年，全国铁路旅客发送量超过四十亿人次，再创历史新高！",
      "老师问：“你们谁知道这首诗的作者？”教室里一片安静。",
      "测试结果表明，新的算法比原来的快百分之三十七。",
      "小猫从窗台上跳下来，悄悄地走到了门口。",
      "这个函数返回一个列表，其中包含所有满足条件的元素。",
  });
}

std::string code() {
  return shuffled({
      "for (std::size_t i = 0; i < items.size(); ++i) {\n    total += items[i].weight * 0.5f;\n}\n",
      "def load(path: str) -> dict:\n    with open(path, encoding=\"utf-8\") as f:\n        return "
      "json.load(f)\n\n",
      "\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %q: %w\", name, err)\n\t}\n",
      "<div class=\"row mt-4\"><a href=\"/docs/index.html#top\">Back to top</a></div>\n",
      "SELECT id, COUNT(*) AS n FROM events WHERE ts >= '2024-01-01' GROUP BY id ORDER BY n "
      "DESC;\n",
  });
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer.encode(text);
    tokens = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void decode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.encode(text);
  for (auto _ : state) {
    const std::string result = strata::text::decode(tokenizer, ids);
    benchmark::DoNotOptimize(result.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}

void load(benchmark::State& state, const strata::gguf::File& file) {
  for (auto _ : state) {
    const Tokenizer tokenizer = Tokenizer::from_gguf(file);
    benchmark::DoNotOptimize(tokenizer.vocab_size());
  }
}

struct Text {
  std::string name, bytes;
};

struct Model {
  explicit Model(const std::string& path)
      : name(std::filesystem::path(path).stem()),
        file(strata::gguf::File::open(path)),
        tokenizer(Tokenizer::from_gguf(file)) {}
  std::string name;
  strata::gguf::File file;
  Tokenizer tokenizer;
};

void run(std::vector<std::string> paths) {
  if (paths.empty()) {
    paths = {STRATA_SOURCE_DIR "/data/strata-demo.gguf",
             STRATA_SOURCE_DIR "/tests/data/tokenizer/gpt-2.vocab.gguf"};
  }
  const std::vector<Text> texts = {
      {"english", english()}, {"chinese", chinese()}, {"code", code()}};
  std::vector<std::unique_ptr<Model>> models;
  for (const std::string& path : paths) {
    models.push_back(std::make_unique<Model>(path));
    const Model& model = *models.back();
    for (const Text& text : texts) {
      benchmark::RegisterBenchmark(
          ("encode/" + model.name + "/" + text.name).c_str(),
          [&](benchmark::State& state) { encode(state, model.tokenizer, text.bytes); });
    }
    benchmark::RegisterBenchmark(
        ("decode/" + model.name + "/english").c_str(),
        [&](benchmark::State& state) { decode(state, model.tokenizer, texts[0].bytes); });
    benchmark::RegisterBenchmark(("load/" + model.name).c_str(), [&](benchmark::State& state) {
      load(state, model.file);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::RunSpecifiedBenchmarks();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
