// Vocabularies for the tokenizer's tests: Hugging Face tokenizer.json files of
// tests/data/tokenizer, and tiny ones written in the test.
#pragma once

#include "strata/text/vocab.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

inline std::string data_path(std::string_view name) {
  return STRATA_SOURCE_DIR "/tests/data/tokenizer/" + std::string(name);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Through Python's lzma, which every machine that runs setup.py has.
inline std::string read_xz(const std::string& path) {
  const std::string command =
      "python3 -c \"import lzma,sys; sys.stdout.buffer.write(lzma.open(sys.argv[1]).read())\" '" +
      path + "'";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run python3");
  std::string text;
  std::array<char, 65536> buffer;
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) != 0;)
    text.append(buffer.data(), n);
  if (::pclose(pipe) != 0) throw std::runtime_error("cannot decompress " + path);
  return text;
}

inline std::vector<nlohmann::json> read_json_lines(std::string_view name) {
  std::ifstream file(data_path(name));
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  if (lines.empty()) throw std::runtime_error("cannot read " + std::string(name));
  return lines;
}

// What a converter to GGUF makes of a tokenizer.json of byte-level BPE, or of a converted
// SentencePiece model.
inline Vocab vocab_from_hf(const nlohmann::json& tokenizer, std::string_view pre) {
  const auto& model = tokenizer.at("model");
  Vocab vocab;
  vocab.pre = pre;
  const auto set = [&](std::size_t id, const std::string& text, TokenType type) {
    if (id >= vocab.tokens.size()) {
      vocab.tokens.resize(id + 1);
      vocab.types.resize(id + 1, TokenType::kUnused);
    }
    vocab.tokens[id] = text;
    vocab.types[id] = type;
  };
  for (const auto& [text, id] : model.at("vocab").items()) set(id, text, TokenType::kNormal);
  for (const auto& token : tokenizer.at("added_tokens")) {
    set(token.at("id"), token.at("content"),
        token.at("special") ? TokenType::kControl : TokenType::kUserDefined);
  }
  for (const auto& merge : model.at("merges")) {
    vocab.merges.push_back(merge.is_string()
                               ? merge.get<std::string>()
                               : merge[0].get<std::string>() + ' ' + merge[1].get<std::string>());
  }
  if (!model.at("byte_fallback")) return vocab;
  vocab.model = VocabModel::kSpm;
  std::map<std::string, float, std::less<>> scores;
  for (const auto& merge : model.at("merges")) {
    scores.try_emplace(merge[0].get<std::string>() + merge[1].get<std::string>(),
                       -static_cast<float>(scores.size()));
  }
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const std::string& text = vocab.tokens[id];
    if (text.size() == 6 && text.starts_with("<0x")) vocab.types[id] = TokenType::kByte;
    const auto score = scores.find(text);
    vocab.scores.push_back(score != scores.end() ? score->second : -1e6F);
  }
  vocab.unknown =
      model.at("vocab").at(model.at("unk_token").get<std::string>()).get<std::int32_t>();
  vocab.types[static_cast<std::size_t>(*vocab.unknown)] = TokenType::kUnknown;
  vocab.add_bos = false;
  return vocab;
}

// GPT-2's alphabet has 256 characters for the bytes; these are the printable ASCII ones, which are
// themselves, and the space ("Ġ"), so that ids are easy to name in a test: the byte tokens come
// first, '!' is 0.
struct TinyVocab {
  Vocab vocab;

  TinyVocab() {
    vocab.pre = "qwen2";
    for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
    add("\u0120");
  }
  std::int32_t add(const std::string& text, TokenType type = TokenType::kNormal) {
    vocab.tokens.push_back(text);
    vocab.types.push_back(type);
    return static_cast<std::int32_t>(vocab.tokens.size()) - 1;
  }
  std::int32_t merge(const std::string& left, const std::string& right) {
    vocab.merges.push_back(left + ' ' + right);
    return add(left + right);
  }
  static std::int32_t byte(char c) { return c == ' ' ? '~' - '!' + 1 : c - '!'; }
  static std::vector<std::int32_t> bytes(std::string_view text) {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(byte(c));
    return ids;
  }
};

}  // namespace strata::text
