// Token ids back to text, id by id, without ever handing out half a character.
#pragma once

#include "strata/text/tokenizer.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace strata::text {

struct DetokenizerOptions {
  bool show_control = false;  // render the texts of control tokens too
  // The ids start a text rather than continue one: where the tokenizer adds a space in front of
  // texts, it is taken off again.
  bool at_text_start = true;
};

// A stream of ids. What feed() and flush() return, put together, is well-formed UTF-8: bytes are
// held back until their character is complete, and bytes that cannot become one turn into U+FFFD,
// one for each maximal ill-formed sequence (as Python's and Rust's lossy decoders do). Not
// thread-safe; one a stream.
class Detokenizer {
 public:
  // `tokenizer` must outlive the stream.
  explicit Detokenizer(const Tokenizer& tokenizer, const DetokenizerOptions& options = {});

  // The text that `id` completes, often empty. Error(kUsage) for an id outside the vocabulary.
  [[nodiscard]] std::string feed(std::int32_t id);
  // The end of the stream: what is still held back becomes U+FFFD. The stream starts anew, as
  // constructed.
  [[nodiscard]] std::string flush();

 private:
  const Tokenizer* tokenizer_;
  DetokenizerOptions options_;
  bool strip_space_;     // the next visible byte may be the added space
  std::string pending_;  // at most 3 bytes between calls
};

// All ids at once.
[[nodiscard]] std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                 const DetokenizerOptions& options = {});

}  // namespace strata::text
