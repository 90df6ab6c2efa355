// A qwen3moe model of a few kilobytes as a GGUF file. Metadata and tensors lie open, so that a test
// can leave out, change or break any part before it is written.
#pragma once

#include "tests/gguf/raw_file.hpp"
#include "tests/support/random_weights.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata::testing {

struct TinyTensor {
  gguf::Type type;
  std::vector<std::int64_t> ne;
  std::vector<std::byte> data;
};

struct TinyShape {
  int layers = 2;
  int vocab = 277;  // no multiple of 16: rows of logits have padding
  int embd = 64;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int context = 100;
  int experts = 6;
  int used = 2;
  int hidden = 32;
  bool tied = true;
  bool fused = false;  // gate and up in one tensor
  bool tokenizer = true;
  unsigned seed = 1;
  // Type of matrix number `index` (counted in the order they are added); norms and router are F32.
  std::function<gguf::Type(int index)> type = [](int) { return gguf::Type::kQ8_0; };
};

class TinyModel {
 public:
  using Value = std::variant<bool, std::uint32_t, std::int32_t, std::uint64_t, float, double,
                             std::string, std::vector<std::string>>;

  explicit TinyModel(const TinyShape& shape) : seed_(shape.seed) {
    add_metadata(shape);
    if (shape.tokenizer) add_tokenizer();
    add_tensors(shape);
  }

  std::map<std::string, Value> metadata;
  std::map<std::string, TinyTensor> tensors;

  [[nodiscard]] std::vector<std::byte> bytes() const {
    gguf::test::RawFile raw;
    raw.begin(3, tensors.size(), metadata.size());
    for (const auto& entry : metadata)
      std::visit([&](const auto& v) { put(raw, entry.first, v); }, entry.second);
    std::uint64_t offset = 0;
    for (const auto& [name, t] : tensors) {
      raw.tensor(name, t.ne, static_cast<std::uint32_t>(t.type), offset);
      offset += (t.data.size() + 31) / 32 * 32;
    }
    for (const auto& [name, t] : tensors) {
      raw.pad(32).raw({reinterpret_cast<const char*>(t.data.data()), t.data.size()});
    }
    return raw.pad(32).bytes();
  }

  void write(const std::filesystem::path& path) const {
    const std::vector<std::byte> file = bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.data()),
               static_cast<std::streamsize>(file.size()));
  }

 private:
  using Raw = gguf::test::RawFile;
  static void put(Raw& raw, const std::string& key, bool v) {
    raw.key(key, 7).put(static_cast<std::uint8_t>(v));
  }
  static void put(Raw& raw, const std::string& key, std::uint32_t v) { raw.key(key, 4).put(v); }
  static void put(Raw& raw, const std::string& key, std::int32_t v) { raw.key(key, 5).put(v); }
  static void put(Raw& raw, const std::string& key, std::uint64_t v) { raw.key(key, 10).put(v); }
  static void put(Raw& raw, const std::string& key, float v) { raw.key(key, 6).put(v); }
  static void put(Raw& raw, const std::string& key, double v) { raw.key(key, 12).put(v); }
  static void put(Raw& raw, const std::string& key, const std::string& v) {
    raw.key(key, 8).text(v);
  }
  static void put(Raw& raw, const std::string& key, const std::vector<std::string>& v) {
    raw.key(key, 9).put(std::uint32_t{8}).put(std::uint64_t{v.size()});
    for (const std::string& text : v) raw.text(text);
  }

  void add_metadata(const TinyShape& s) {
    metadata["general.architecture"] = "qwen3moe";
    metadata["general.name"] = "tiny";
    const auto set = [this](const char* key, int value) {
      metadata[std::string("qwen3moe.") + key] = static_cast<std::uint32_t>(value);
    };
    set("block_count", s.layers);
    set("context_length", s.context);
    set("embedding_length", s.embd);
    set("expert_feed_forward_length", s.hidden);
    set("expert_count", s.experts);
    set("expert_used_count", s.used);
    set("attention.head_count", s.heads);
    set("attention.head_count_kv", s.kv_heads);
    set("attention.key_length", s.head_dim);
    set("attention.value_length", s.head_dim);
    metadata["qwen3moe.attention.layer_norm_rms_epsilon"] = 1e-6f;
    metadata["qwen3moe.rope.freq_base"] = 10000.0f;
  }

  // The 256 bytes in GPT-2's alphabet and no merges: enough for an engine to load.
  void add_tokenizer() {
    std::vector<std::string> tokens;
    int other = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 33 && b < 127) || (b >= 161 && b < 173) || b >= 174;
      const int c = printable ? b : other++;
      if (c < 128) {
        tokens.emplace_back(1, static_cast<char>(c));
      } else {
        tokens.push_back({static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))});
      }
    }
    metadata["tokenizer.ggml.model"] = "gpt2";
    metadata["tokenizer.ggml.pre"] = "qwen2";
    metadata["tokenizer.ggml.tokens"] = std::move(tokens);
    metadata["tokenizer.ggml.merges"] = std::vector<std::string>{};
  }

  void add_norm(const std::string& name, std::int64_t size) {
    std::vector<std::byte> data = random_rows(gguf::Type::kF32, 1, size, ++seed_, 0.2f);
    auto* values = reinterpret_cast<float*>(data.data());
    for (std::int64_t i = 0; i < size; ++i) values[i] += 1.0f;
    tensors[name] = {gguf::Type::kF32, {size}, std::move(data)};
  }

  void add_matrix(const std::string& name, gguf::Type type, std::vector<std::int64_t> ne,
                  double gain) {
    std::int64_t rows = 1;
    for (std::size_t i = 1; i < ne.size(); ++i) rows *= ne[i];
    const double rms = gain / std::sqrt(static_cast<double>(ne[0]));
    std::vector<std::byte> data = random_weights(type, rows, ne[0], ++seed_, rms);
    tensors[name] = {type, std::move(ne), std::move(data)};
  }

  void add_tensors(const TinyShape& s) {
    int index = 0;
    const auto matrix = [&](const std::string& name, std::vector<std::int64_t> ne) {
      add_matrix(name, s.type(index++), std::move(ne), 1.0);
    };
    const std::int64_t q = static_cast<std::int64_t>(s.heads) * s.head_dim;
    const std::int64_t kv = static_cast<std::int64_t>(s.kv_heads) * s.head_dim;
    matrix("token_embd.weight", {s.embd, s.vocab});
    if (!s.tied) matrix("output.weight", {s.embd, s.vocab});
    add_norm("output_norm.weight", s.embd);
    for (int layer = 0; layer < s.layers; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      add_norm(blk + "attn_norm.weight", s.embd);
      add_norm(blk + "ffn_norm.weight", s.embd);
      add_norm(blk + "attn_q_norm.weight", s.head_dim);
      add_norm(blk + "attn_k_norm.weight", s.head_dim);
      matrix(blk + "attn_q.weight", {s.embd, q});
      matrix(blk + "attn_k.weight", {s.embd, kv});
      matrix(blk + "attn_v.weight", {s.embd, kv});
      matrix(blk + "attn_output.weight", {q, s.embd});
      // Wide enough that no two experts are as good as equally probable.
      add_matrix(blk + "ffn_gate_inp.weight", gguf::Type::kF32, {s.embd, s.experts}, 2.0);
      if (s.fused) {
        matrix(blk + "ffn_gate_up_exps.weight", {s.embd, 2L * s.hidden, s.experts});
      } else {
        matrix(blk + "ffn_gate_exps.weight", {s.embd, s.hidden, s.experts});
        matrix(blk + "ffn_up_exps.weight", {s.embd, s.hidden, s.experts});
      }
      matrix(blk + "ffn_down_exps.weight", {s.hidden, s.embd, s.experts});
    }
  }

  unsigned seed_;
};

}  // namespace strata::testing
