// Helpers of the grammars' tests: vocabularies, matching whole texts, random texts.
#pragma once

#include "src/text/grammar_vocab.hpp"
#include "strata/gguf/file.hpp"
#include "strata/text/grammar.hpp"
#include "strata/text/grammar_matcher.hpp"
#include "strata/text/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::test {

using GrammarPtr = std::shared_ptr<const Grammar>;
using VocabPtr = std::shared_ptr<const GrammarVocab>;

// A token for each byte, and 256 that ends the text.
inline VocabPtr byte_vocab() {
  static const VocabPtr vocab = [] {
    std::vector<std::string> pieces(257);
    for (std::size_t i = 0; i < 256; ++i) pieces[i] = std::string(1, static_cast<char>(i));
    return std::make_shared<const GrammarVocab>(pieces, std::vector<std::int32_t>{256});
  }();
  return vocab;
}

inline const Tokenizer& demo_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::from_gguf(
      gguf::File::open(std::string(STRATA_SOURCE_DIR) + "/data/strata-demo.gguf"));
  return tokenizer;
}

inline VocabPtr demo_vocab() {
  static const VocabPtr vocab = std::make_shared<const GrammarVocab>(demo_tokenizer());
  return vocab;
}

inline bool matches(const GrammarPtr& grammar, std::string_view text) {
  GrammarMatcher matcher(grammar, byte_vocab());
  return matcher.accept_text(text) && matcher.is_complete();
}

inline std::vector<std::int32_t> tokens_of(std::span<const std::uint64_t> mask) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < 64 * mask.size(); ++i) {
    if ((mask[i / 64] >> i % 64 & 1) != 0) tokens.push_back(static_cast<std::int32_t>(i));
  }
  return tokens;
}

inline bool ends_in_string(std::string_view json) {
  bool inside = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') inside = !inside;
    if (json[i] == '\\') ++i;
  }
  return inside;
}

// Those of the tokens that bring a text of JSON to its end, or at least open nothing, if there are
// any.
inline std::vector<std::int32_t> closing(std::string_view text,
                                         const std::vector<std::int32_t>& tokens,
                                         const std::vector<std::string>& pieces) {
  const std::string_view closing = ends_in_string(text) ? "\"" : "}]\"";
  std::vector<std::int32_t> best;
  std::size_t best_rank = 9;
  for (const std::int32_t token : tokens) {
    const std::string& piece = pieces[static_cast<std::size_t>(token)];
    const std::size_t special = closing.find(piece);
    std::size_t rank = 3;
    if (piece.size() != 1) {
      rank = 5;
    } else if (special != std::string_view::npos) {
      rank = special;
    } else if (std::string_view(" \n\t{[,\\").find(piece) != std::string_view::npos) {
      rank = 4;
    }
    if (rank > best_rank) continue;
    if (rank < best_rank) best.clear();
    best_rank = rank;
    best.push_back(token);
  }
  return best;
}

// A text of uniformly random allowed tokens: what a model at a very high temperature would write.
// After `steps` tokens it is brought to an end by tokens that close what is open. Throws where a
// text cannot go on, which no grammar made of a schema may let happen.
inline std::string random_text(GrammarMatcher matcher, const GrammarVocab& vocab,
                               std::mt19937& random, int steps) {
  const std::vector<std::string>& pieces = vocab.index().pieces;
  std::vector<std::uint64_t> mask(vocab.mask_words());
  std::string text;
  for (int step = 0; step < 100'000; ++step) {
    if (!matcher.allowed(mask)) throw std::runtime_error("dead end after: " + text);
    std::vector<std::int32_t> tokens = tokens_of(mask);
    if (step >= steps) {
      if (matcher.is_complete()) return text;
      tokens = closing(text, tokens, pieces);
    }
    const std::int32_t token = tokens[random() % tokens.size()];
    if (!matcher.accept(token)) throw std::runtime_error("refused after: " + text);
    if (matcher.is_finished()) return text;
    text += pieces[static_cast<std::size_t>(token)];
  }
  throw std::runtime_error("no end: " + text.substr(0, 1000));
}

}  // namespace strata::text::test
