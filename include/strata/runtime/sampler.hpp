// From the logits of one position to the next token. docs/sampling.md gives the reasons and
// compares other engines.
//
// The order, as in Hugging Face transformers and vLLM (whose results model cards quote):
//   allowed tokens -> logit bias -> repetition penalty -> frequency and presence penalties ->
//   temperature -> top-k -> top-p -> min-p -> draw.
// Probabilities are integers: weight = round(2^40 * exp((logit - best) / temperature)). Their sums
// are exact in any order, so what is kept and what is drawn is defined without rounding. A token
// below 2^-41 of the best has weight 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace strata::runtime {

struct SamplingParams {
  // [0, 100]. 0 takes the best token, of equals the one with the lowest id.
  float temperature = 1.0F;
  // >= 0. The k best logits stay, of equals the lowest ids. 0: all.
  std::int32_t top_k = 0;
  // [0, 1]. The likeliest tokens that together reach this share stay, at least one. 1: all.
  float top_p = 1.0F;
  // [0, 1]. Tokens of at least this share of the best one's probability stay. 0: all.
  float min_p = 0.0F;
  // Above 0, to 100. A seen token's logit is divided by it if positive, else multiplied. 1: off.
  float repetition_penalty = 1.0F;
  // [-100, 100]. Subtracted from a seen token's logit.
  float presence_penalty = 0.0F;
  // [-100, 100]. Subtracted once for each time a token was seen.
  float frequency_penalty = 0.0F;
  // >= -1. How many of the last accepted tokens count as seen. -1: all. 0: none.
  std::int32_t penalty_last_n = 64;
  // Token id -> what is added to its logit: finite, or -infinity to ban the token.
  std::map<std::int32_t, float> logit_bias;
  std::uint64_t seed = 0;

  // Error(kUsage) naming the field, its value and its range.
  void validate() const;
};

// The largest vocabulary a Sampler takes: ids share a 64-bit word with their weights.
inline constexpr std::size_t kMaxSampledVocab = std::size_t{1} << 22;

struct TokenProbability {
  std::int32_t id;
  double probability;
};

struct TokenLogprob {
  std::int32_t id;
  double logprob;  // natural logarithm
};

// One sequence's sampler. Not thread-safe: it owns scratch memory of the size of the vocabulary.
// sample and probabilities give Error(kInternal) when logits are not vocab_size finite numbers, and
// Error(kUsage) when the bias and `allowed` leave no token.
//
// `allowed`, where it is not empty, has a bit a token: token t may be chosen when bit t % 64 of
// word t / 64 is set (text::GrammarMatcher::allowed fills one). Error(kInternal) when it is too
// short.
class Sampler {
 public:
  // Error(kUsage) for parameters out of range or a bias for an id that is not in [0, vocab_size).
  Sampler(SamplingParams params, std::size_t vocab_size);

  // The token for `position` (its index in the sequence). The draw is a function of the seed and
  // the position: calling in another order, twice, or in another process gives the same tokens for
  // the same logits and history.
  [[nodiscard]] std::int32_t sample(std::span<const float> logits, std::uint64_t position,
                                    std::span<const std::uint64_t> allowed = {});

  // What sample draws from, in order of id: tokens that are left after all filters and have a
  // probability above 0. They sum to 1. At temperature 0 it is one token.
  [[nodiscard]] std::vector<TokenProbability> probabilities(
      std::span<const float> logits, std::span<const std::uint64_t> allowed = {});

  // Adds a token to the history that the penalties count. Feed prompt tokens too if they are to be
  // penalised.
  void accept(std::int32_t token);
  void clear_history() noexcept;

  [[nodiscard]] const SamplingParams& params() const noexcept { return params_; }

 private:
  [[nodiscard]] std::span<const float> checked_scores(std::span<const float> logits,
                                                      std::span<const std::uint64_t> allowed);
  [[nodiscard]] std::span<const float> adjusted(std::span<const float> logits,
                                                std::span<const std::uint64_t> allowed);
  void weigh(std::span<const float> scores);
  [[nodiscard]] std::uint64_t key(std::size_t candidate) const noexcept;
  [[nodiscard]] std::uint64_t lowest_kept_key();
  [[nodiscard]] std::uint64_t top_p_key(std::uint64_t total);
  [[nodiscard]] std::uint64_t kept_total(std::uint64_t lowest) const noexcept;
  [[nodiscard]] std::int32_t id_of(std::size_t candidate) const noexcept;

  SamplingParams params_;
  std::size_t vocab_size_;
  std::deque<std::int32_t> history_;  // the last penalty_last_n tokens, oldest first
  std::unordered_map<std::int32_t, std::int32_t> counts_;  // how often each stands in history_
  std::vector<float> scores_;                              // logits after bans, bias and penalties
  std::vector<std::int32_t> ids_;       // candidates left by top-k, in order of id; empty: every id
  std::vector<std::uint64_t> weights_;  // of the candidates
  std::vector<std::uint64_t> scratch_;
};

// The best token, of equals the one with the lowest id. Error(kInternal) when logits are empty or
// not finite.
[[nodiscard]] std::int32_t greedy_token(std::span<const float> logits);

// The n likeliest tokens (fewer if the vocabulary is smaller) by the model's own distribution,
// before any bias, penalty or temperature, likeliest first. Error(kInternal) as above.
[[nodiscard]] std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n);

// The same distribution's logarithm for one token.
[[nodiscard]] double token_logprob(std::span<const float> logits, std::int32_t token);

}  // namespace strata::runtime
