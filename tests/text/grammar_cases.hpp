// Helpers of the grammars' tests: vocabularies, matching whole texts, random texts.
#pragma once

#include "src/text/grammar_parser.hpp"
#include "src/text/grammar_vocab.hpp"
#include "strata/gguf/file.hpp"
#include "strata/text/grammar.hpp"
#include "strata/text/grammar_matcher.hpp"
#include "strata/text/tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
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

// Knows how many bytes a text still needs, to bring random texts to an end.
class Distance {
 public:
  explicit Distance(const Grammar& grammar)
      : grammar_(grammar), to_end_(grammar.nodes.size() - 1, kFar) {
    for (bool changed = true; changed;) {
      changed = false;
      for (Grammar::Id node = 0; node < to_end_.size(); ++node) {
        std::uint64_t best = grammar.nodes[node].accepting ? 0 : kFar;
        for (const auto& edge : grammar.bytes_of(node)) best = std::min(best, 1 + to_end_[edge.to]);
        for (const auto& call : grammar.calls_of(node)) {
          best = std::min(best, whole(grammar.rules[call.rule]) + to_end_[call.to]);
        }
        changed = changed || best < to_end_[node];
        to_end_[node] = std::min(best, to_end_[node]);
      }
    }
  }

  // Of the shortest way on for any reading.
  [[nodiscard]] std::uint64_t of(grammar::Parser& parser) const {
    std::uint64_t best = kFar;
    for (grammar::Place place : parser.places()) {
      std::uint64_t sum = here(place);
      for (grammar::FrameId id = place.parent; id != grammar::kBottom; id = place.parent) {
        place = parser.frames().at(id);
        sum += here(place);
      }
      best = std::min(best, sum);
    }
    return best;
  }

 private:
  static constexpr std::uint64_t kFar = std::uint64_t{1} << 40;

  [[nodiscard]] std::uint64_t whole(const Grammar::Rule& rule) const {
    return std::min(kFar, rule.counted ? rule.min * to_end_[rule.start] : to_end_[rule.start]);
  }
  [[nodiscard]] std::uint64_t here(const grammar::Place& place) const {
    const Grammar::Rule& rule = grammar_.rule_of(place.node);
    if (!rule.counted) return to_end_[place.node];
    const bool between = place.node == rule.start;
    const std::uint32_t done = place.count + (between ? 0 : 1);
    return (between ? 0 : to_end_[place.node]) +
           (rule.min - std::min(rule.min, done)) * to_end_[rule.start];
  }

  const Grammar& grammar_;
  std::vector<std::uint64_t> to_end_;  // of its rule, or of a counted rule's body
};

// A text of uniformly random allowed tokens: what a model at a very high temperature would write.
// After `steps` tokens it goes the shortest way to its end. Throws where a text cannot go on, which
// no grammar made of a schema may let happen.
inline std::string random_text(const GrammarPtr& grammar, GrammarMatcher matcher,
                               const GrammarVocab& vocab, std::mt19937& random, int steps) {
  const std::vector<std::string>& pieces = vocab.index().pieces;
  const auto piece = [&](std::int32_t token) { return pieces[static_cast<std::size_t>(token)]; };
  const Distance distance(*grammar);
  grammar::Parser parser(grammar);
  std::vector<std::uint64_t> mask(vocab.mask_words());
  std::string text;
  for (int step = 0; step < 100'000; ++step) {
    if (!matcher.allowed(mask)) throw std::runtime_error("dead end after: " + text);
    std::vector<std::int32_t> tokens = tokens_of(mask);
    if (step >= steps) {
      if (matcher.is_complete()) return text;
      std::uint64_t best = ~std::uint64_t{0};
      for (const std::int32_t token : std::exchange(tokens, {})) {
        if (piece(token).size() > 1) continue;
        grammar::Parser next = parser;
        (void)next.read(piece(token));
        const std::uint64_t left = distance.of(next);
        if (left < best) tokens.clear();
        best = std::min(best, left);
        if (left == best) tokens.push_back(token);
      }
    }
    const std::int32_t token = tokens[random() % tokens.size()];
    if (!matcher.accept(token)) throw std::runtime_error("refused after: " + text);
    if (matcher.is_finished()) return text;
    text += piece(token);
    if (!parser.read(piece(token))) throw std::runtime_error("not read after: " + text);
  }
  throw std::runtime_error("no end: " + text.substr(0, 1000));
}

}  // namespace strata::text::test
