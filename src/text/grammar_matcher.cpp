#include "strata/text/grammar_matcher.hpp"

#include "src/text/grammar_mask.hpp"
#include "src/text/grammar_parser.hpp"
#include "src/text/grammar_vocab.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <utility>

namespace strata::text {
namespace {

std::unique_ptr<const grammar::VocabIndex> index_of(const Tokenizer& tokenizer) {
  std::vector<std::string> pieces(static_cast<std::size_t>(tokenizer.vocab_size()));
  std::vector<std::int32_t> ends;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (tokenizer.is_end(id)) {
      ends.push_back(id);
    } else if (!tokenizer.is_control(id)) {
      pieces[i] = tokenizer.piece(id);
    }
  }
  return std::make_unique<const grammar::VocabIndex>(std::move(pieces), std::move(ends));
}

}  // namespace

GrammarVocab::GrammarVocab(const Tokenizer& tokenizer) : index_(index_of(tokenizer)) {}

GrammarVocab::GrammarVocab(std::span<const std::string> pieces,
                           std::span<const std::int32_t> end_tokens) {
  for (const std::int32_t id : end_tokens) {
    if (id < 0 || static_cast<std::size_t>(id) >= pieces.size()) {
      fail(ErrorKind::kUsage, "end token {} of a vocabulary of {}", id, pieces.size());
    }
  }
  index_ = std::make_unique<const grammar::VocabIndex>(
      std::vector<std::string>(pieces.begin(), pieces.end()),
      std::vector<std::int32_t>(end_tokens.begin(), end_tokens.end()));
}

GrammarVocab::~GrammarVocab() = default;

std::size_t GrammarVocab::size() const noexcept { return index_->pieces.size(); }

GrammarMatcher::GrammarMatcher(std::shared_ptr<const Grammar> grammar,
                               std::shared_ptr<const GrammarVocab> vocab)
    : vocab_(std::move(vocab)),
      cache_(std::make_shared<grammar::MaskCache>(vocab_->index().longest)),
      parser_(std::make_unique<grammar::Parser>(std::move(grammar))) {}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : vocab_(other.vocab_),
      cache_(other.cache_),
      parser_(std::make_unique<grammar::Parser>(*other.parser_)),
      finished_(other.finished_) {}

GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;

GrammarMatcher& GrammarMatcher::operator=(const GrammarMatcher& other) {
  return *this = GrammarMatcher(other);
}

GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;

GrammarMatcher::~GrammarMatcher() = default;

bool GrammarMatcher::allowed(std::span<std::uint64_t> mask) {
  if (mask.size() < vocab_->mask_words()) {
    fail(ErrorKind::kInternal, "a mask of {} words for a vocabulary of {}", mask.size(),
         vocab_->size());
  }
  std::fill(mask.begin(), mask.end(), 0);
  if (finished_) return false;
  bool any = false;
  for (const grammar::Place& place : parser_->places()) {
    const auto tokens = grammar::allowed_at(*parser_, place, vocab_->index(), *cache_);
    tokens->add_to(mask);
    any = any || !tokens->empty();
  }
  if (!is_complete()) return any;
  for (const std::int32_t token : vocab_->index().end_tokens) {
    const auto id = static_cast<std::size_t>(token);
    mask[id / 64] |= std::uint64_t{1} << id % 64;
    any = true;
  }
  return any;
}

bool GrammarMatcher::accept(std::int32_t token) {
  const grammar::VocabIndex& vocab = vocab_->index();
  if (finished_ || token < 0 || static_cast<std::size_t>(token) >= vocab.pieces.size()) {
    return false;
  }
  if (std::find(vocab.end_tokens.begin(), vocab.end_tokens.end(), token) !=
      vocab.end_tokens.end()) {
    return finished_ = is_complete();
  }
  const std::string& piece = vocab.pieces[static_cast<std::size_t>(token)];
  return !piece.empty() && parser_->read(piece);
}

bool GrammarMatcher::accept_text(std::string_view bytes) {
  return !finished_ && parser_->read(bytes);
}

bool GrammarMatcher::is_complete() const { return parser_->is_complete(); }

}  // namespace strata::text
