// Which tokens may come next so that the text obeys a grammar.
//
//   const auto vocab = std::make_shared<const GrammarVocab>(tokenizer);   // once a tokenizer
//   GrammarMatcher matcher(grammar, vocab);                               // once a text, or a copy
//   std::vector<std::uint64_t> mask(vocab->mask_words());
//   while (matcher.allowed(mask)) {
//     const std::int32_t token = sampler.sample(logits, position, mask);
//     if (tokenizer.is_end(token)) break;
//     matcher.accept(token);
//   }
//
// Matching is by bytes, so tokens may end inside a UTF-8 character: only the text as a whole is
// well-formed.
#pragma once

#include "strata/text/grammar.hpp"
#include "strata/text/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

namespace grammar {
struct VocabIndex;
class MaskCache;
class Parser;
}  // namespace grammar

// The bytes of a vocabulary's tokens, arranged so that tokens with equal beginnings are matched
// together. Immutable, safe to share between threads. Building takes about 0.1 s for 150,000
// tokens.
class GrammarVocab {
 public:
  // Control tokens are never allowed; end tokens when the text is complete.
  explicit GrammarVocab(const Tokenizer& tokenizer);
  // Token i has the bytes pieces[i]; an empty one is never allowed.
  GrammarVocab(std::span<const std::string> pieces, std::span<const std::int32_t> end_tokens);
  ~GrammarVocab();
  GrammarVocab(const GrammarVocab&) = delete;
  GrammarVocab& operator=(const GrammarVocab&) = delete;

  [[nodiscard]] std::size_t size() const noexcept;
  [[nodiscard]] std::size_t mask_words() const noexcept { return (size() + 63) / 64; }
  [[nodiscard]] const grammar::VocabIndex& index() const noexcept { return *index_; }

 private:
  std::unique_ptr<const grammar::VocabIndex> index_;
};

// The place a text has reached in a grammar. A copy is independent, but shares the masks found so
// far: a server keeps one matcher a grammar and copies it for each request. One matcher is used by
// one thread at a time; copies by any number of threads.
class GrammarMatcher {
 public:
  GrammarMatcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const GrammarVocab> vocab);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(const GrammarMatcher& other);
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  // Sets bit t % 64 of mask[t / 64] for each token t that may come next, and clears all others.
  // False: none may, because the text is finished or because no token of this vocabulary goes on.
  // End tokens may come exactly when the text is complete. `mask` has mask_words() words or more.
  // Error(kUsage): max_parses or max_mask_steps is crossed.
  [[nodiscard]] bool allowed(std::span<std::uint64_t> mask);

  // Appends a token. False, and nothing changes, when it is not allowed. After an end token the
  // text is finished. Error(kUsage): max_depth or max_parses is crossed; the matcher is as before.
  [[nodiscard]] bool accept(std::int32_t token);
  // The same with bytes.
  [[nodiscard]] bool accept_text(std::string_view bytes);

  // The text obeys the grammar as it stands. It may still go on.
  [[nodiscard]] bool is_complete() const;
  // An end token was accepted.
  [[nodiscard]] bool is_finished() const noexcept { return finished_; }

 private:
  std::shared_ptr<const GrammarVocab> vocab_;
  std::shared_ptr<grammar::MaskCache> cache_;
  std::unique_ptr<grammar::Parser> parser_;
  bool finished_ = false;
};

}  // namespace strata::text
