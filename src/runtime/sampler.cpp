#include "strata/runtime/sampler.hpp"

#include "strata/base/error.hpp"
#include "strata/runtime/sampler_math.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace strata::runtime {
namespace {

constexpr int kWeightBits = 40;
constexpr std::uint64_t kFullWeight = std::uint64_t{1} << kWeightBits;
constexpr std::uint64_t kIdMask = kMaxSampledVocab - 1;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

void require_range(const char* field, double value, double low, double high) {
  if (!(value >= low && value <= high)) {  // NaN too
    fail(ErrorKind::kUsage, "{} is {}; it must be from {} to {}", field, value, low, high);
  }
}

struct Best {
  float score;      // the largest
  bool all_finite;  // whether every score is a finite number
};

// Sixteen independent lanes: a single running maximum would wait for itself and leave the vector
// units idle.
Best best_of(std::span<const float> scores) {
  constexpr std::size_t kLanes = 16;
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::array<float, kLanes> best{};
  std::array<std::uint32_t, kLanes> broken{};
  best.fill(kBanned);
  const auto take = [&](std::size_t lane, float score) {
    best[lane] = score > best[lane] ? score : best[lane];
    broken[lane] |= (std::bit_cast<std::uint32_t>(score) & kExponent) == kExponent ? 1U : 0U;
  };
  std::size_t i = 0;
  for (; i + kLanes <= scores.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, scores[i + lane]);
  }
  for (; i < scores.size(); ++i) take(i % kLanes, scores[i]);
  return {*std::max_element(best.begin(), best.end()),
          std::count(broken.begin(), broken.end(), 1U) == 0};
}

// The best of logits that must all be finite.
float best_logit(std::span<const float> logits) {
  if (logits.empty()) fail(ErrorKind::kInternal, "no logits to sample from");
  const Best best = best_of(logits);
  if (!best.all_finite) {
    const auto broken =
        std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
    fail(ErrorKind::kInternal,
         "the logit of token {} is {}: the model's output is broken, so no token was chosen",
         broken - logits.begin(), *broken);
  }
  return best.score;
}

// The best of scores that are finite or banned.
float best_unless_all_banned(std::span<const float> scores) {
  const float best = best_of(scores).score;
  if (best == kBanned) {
    fail(ErrorKind::kUsage, "no token is left: logit_bias bans every one that may come next");
  }
  return best;
}

// Bans the tokens whose bits are not set.
void ban_others(std::span<float> scores, std::span<const std::uint64_t> allowed) {
  constexpr std::size_t kBits = 64;
  if (allowed.size() * kBits < scores.size()) {
    fail(ErrorKind::kInternal, "a mask of {} tokens for a vocabulary of {}", allowed.size() * kBits,
         scores.size());
  }
  for (std::size_t begin = 0; begin < scores.size(); begin += kBits) {
    const std::uint64_t word = allowed[begin / kBits];
    if (word == ~std::uint64_t{0}) continue;
    const auto some = scores.subspan(begin, std::min(kBits, scores.size() - begin));
    for (std::size_t bit = 0; bit < some.size(); ++bit) {
      if ((word >> bit & 1) == 0) some[bit] = kBanned;
    }
  }
}

std::int32_t first_equal(std::span<const float> scores, float value) {
  return static_cast<std::int32_t>(std::find(scores.begin(), scores.end(), value) - scores.begin());
}

// A number that sorts like (score, then lower id first). Scores are not NaN.
std::uint64_t score_key(float score, std::size_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(score == 0.0F ? 0.0F : score);  // -0 equals 0
  const std::uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(ordered) << 32 | ~static_cast<std::uint32_t>(id);
}

std::int32_t score_key_id(std::uint64_t key) {
  return static_cast<std::int32_t>(~static_cast<std::uint32_t>(key));
}

// Leaves the keys of the k best scores in `keys`, in no order. One pass that collects what beats
// the worst of the best k so far and thins the collection whenever it is full: few tokens get past
// the first comparison.
void top_k_keys(std::span<const float> scores, std::size_t k, std::vector<std::uint64_t>& keys) {
  keys.clear();
  if (k == 0) return;
  const std::size_t capacity = std::max<std::size_t>(2 * k, 512);
  const auto thin = [&] {
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(k - 1), keys.end(),
                     std::greater<>());
    keys.resize(k);
  };
  float worst = kBanned;
  bool full =
      false;  // k tokens are collected: a later one must beat `worst`, since equals go to lower ids
  for (std::size_t id = 0; id < scores.size(); ++id) {
    if (full && !(scores[id] > worst)) continue;
    keys.push_back(score_key(scores[id], id));
    if (keys.size() == capacity) {
      thin();
      worst = scores[static_cast<std::size_t>(score_key_id(keys[k - 1]))];
      full = true;
    }
  }
  if (keys.size() > k) thin();
}

std::uint64_t weight_of(double distance) {
  // Adding 2^52 rounds to an integer, half to even, that then stands in the low bits.
  constexpr double kRound = 0x1p52;
  return std::bit_cast<std::uint64_t>(exp_scaled<kWeightBits>(distance) + kRound) &
         0x000FFFFFFFFFFFFF;
}

// ln of the sum of exp(logit - best). Token i is added to lane i % 8 and the lanes are added in
// order: always the same rounding, in a loop that vectorises.
double log_sum(std::span<const float> logits, float best) {
  std::array<double, 8> lanes{};
  std::size_t i = 0;
  for (; i + lanes.size() <= logits.size(); i += lanes.size()) {
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      lanes[lane] += exp_scaled<0>(static_cast<double>(logits[i + lane]) - best);
    }
  }
  for (std::size_t lane = 0; i + lane < logits.size(); ++lane) {
    lanes[lane] += exp_scaled<0>(static_cast<double>(logits[i + lane]) - best);
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  return log_exact(sum);
}

}  // namespace

void SamplingParams::validate() const {
  constexpr double kMaxInt = std::numeric_limits<std::int32_t>::max();
  require_range("temperature", temperature, 0, 100);
  require_range("top_k", top_k, 0, kMaxInt);
  require_range("top_p", top_p, 0, 1);
  require_range("min_p", min_p, 0, 1);
  if (!(repetition_penalty > 0 && repetition_penalty <= 100)) {
    fail(ErrorKind::kUsage, "repetition_penalty is {}; it must be above 0 and at most 100",
         repetition_penalty);
  }
  require_range("presence_penalty", presence_penalty, -100, 100);
  require_range("frequency_penalty", frequency_penalty, -100, 100);
  require_range("penalty_last_n", penalty_last_n, -1, kMaxInt);
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0) fail(ErrorKind::kUsage, "logit_bias names token {}; ids start at 0", id);
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
      fail(ErrorKind::kUsage, "logit_bias of token {} is {}; it must be finite, or -inf to ban it",
           id, bias);
    }
  }
}

Sampler::Sampler(SamplingParams params, std::size_t vocab_size)
    : params_(std::move(params)), vocab_size_(vocab_size) {
  params_.validate();
  if (vocab_size == 0 || vocab_size > kMaxSampledVocab) {
    fail(ErrorKind::kUnsupported, "a vocabulary of {} tokens; 1 to {} can be sampled", vocab_size,
         kMaxSampledVocab);
  }
  for (const auto& [id, bias] : params_.logit_bias) {
    if (static_cast<std::size_t>(id) >= vocab_size) {
      fail(ErrorKind::kUsage, "logit_bias names token {}; the vocabulary has ids 0 to {}", id,
           vocab_size - 1);
    }
  }
}

void Sampler::accept(std::int32_t token) {
  if (token < 0 || static_cast<std::size_t>(token) >= vocab_size_) {
    fail(ErrorKind::kInternal, "token {} accepted; the vocabulary has ids 0 to {}", token,
         vocab_size_ - 1);
  }
  if (params_.penalty_last_n == 0) return;
  ++counts_[token];
  if (params_.penalty_last_n < 0) return;  // nothing leaves the window: the counts are enough
  history_.push_back(token);
  if (history_.size() > static_cast<std::size_t>(params_.penalty_last_n)) {
    const auto oldest = counts_.find(history_.front());
    if (--oldest->second == 0) counts_.erase(oldest);
    history_.pop_front();
  }
}

void Sampler::clear_history() noexcept {
  history_.clear();
  counts_.clear();
}

// The logits after bans, bias and penalties; the logits themselves when there is nothing to change.
std::span<const float> Sampler::adjusted(std::span<const float> logits,
                                         std::span<const std::uint64_t> allowed) {
  const bool penalise =
      !counts_.empty() && (params_.repetition_penalty != 1.0F || params_.presence_penalty != 0.0F ||
                           params_.frequency_penalty != 0.0F);
  if (!penalise && params_.logit_bias.empty() && allowed.empty()) return logits;
  // Huge logits stay finite, so that only a ban is infinite.
  const auto clamped = [](double score) {
    constexpr double kMax = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(score, -kMax, kMax));
  };
  scores_.assign(logits.begin(), logits.end());
  if (!allowed.empty()) ban_others(scores_, allowed);
  for (const auto& [id, bias] : params_.logit_bias) {
    float& score = scores_[static_cast<std::size_t>(id)];
    if (score == kBanned) continue;
    score = bias == kBanned ? kBanned : clamped(static_cast<double>(score) + bias);
  }
  if (!penalise) return scores_;
  for (const auto& [id, count] : counts_) {
    float& score = scores_[static_cast<std::size_t>(id)];
    if (score == kBanned) continue;
    const double repetition = params_.repetition_penalty;
    const double repeated = score > 0 ? score / repetition : score * repetition;
    const double frequency = static_cast<double>(params_.frequency_penalty) * count;
    score = clamped(repeated - frequency - params_.presence_penalty);
  }
  return scores_;
}

// Fills ids_ (top-k) and weights_.
void Sampler::weigh(std::span<const float> scores) {
  const float best = best_unless_all_banned(scores);
  // At the smallest temperatures the reciprocal would overflow, and 0 * infinity is no number.
  const double inverse = std::min(1.0 / static_cast<double>(params_.temperature), 1e300);
  const auto weight = [&](float score) {
    return weight_of((static_cast<double>(score) - best) * inverse);
  };
  ids_.clear();
  const auto k = static_cast<std::size_t>(params_.top_k);
  if (k == 0 || k >= scores.size()) {
    weights_.resize(scores.size());
    std::transform(scores.begin(), scores.end(), weights_.begin(), weight);
    return;
  }
  top_k_keys(scores, k, scratch_);
  for (const std::uint64_t score_and_id : scratch_) ids_.push_back(score_key_id(score_and_id));
  std::sort(ids_.begin(), ids_.end());
  weights_.clear();
  for (const std::int32_t id : ids_) {
    weights_.push_back(weight(scores[static_cast<std::size_t>(id)]));
  }
}

std::int32_t Sampler::id_of(std::size_t candidate) const noexcept {
  return ids_.empty() ? static_cast<std::int32_t>(candidate) : ids_[candidate];
}

// Sorts candidates like (weight, then lower id first).
std::uint64_t Sampler::key(std::size_t candidate) const noexcept {
  const auto id = static_cast<std::uint64_t>(id_of(candidate));
  return weights_[candidate] * kMaxSampledVocab + (kIdMask - id);
}

// Top-p: the key of the last token of the shortest run of the likeliest tokens whose weights reach
// top_p of the total.
std::uint64_t Sampler::top_p_key(std::uint64_t total) {
  const double share = std::ceil(static_cast<double>(params_.top_p) * static_cast<double>(total));
  const std::uint64_t target =
      std::clamp<std::uint64_t>(static_cast<std::uint64_t>(share), 1, total);
  // Tokens this light weigh no more than total - target together, so the heavier ones reach the
  // target without them.
  const std::uint64_t light = (total - target) / weights_.size();
  scratch_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > light) scratch_.push_back(key(i));
  }
  // Quickselect by weight: [begin, end) always holds the token that reaches the target.
  auto begin = scratch_.begin();
  auto end = scratch_.end();
  std::uint64_t before = 0;  // weight of all that is ahead of begin
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, std::greater<>());
    std::uint64_t upper = before;
    for (auto it = begin; it != middle; ++it) upper += *it / kMaxSampledVocab;
    if (upper >= target) {
      end = middle;
    } else {
      before = upper;
      begin = middle;
    }
  }
  return *begin;
}

// Candidates with at least this key stay. Both filters keep a run of the likeliest, so the stricter
// one decides; the likeliest passes both.
std::uint64_t Sampler::lowest_kept_key() {
  std::uint64_t lowest = 0;
  if (params_.top_p < 1.0F) {
    std::uint64_t total = 0;
    for (const std::uint64_t weight : weights_) total += weight;
    lowest = top_p_key(total);
  }
  if (params_.min_p > 0.0F) {
    const double share = std::ceil(static_cast<double>(params_.min_p) * kFullWeight);
    lowest = std::max(lowest, static_cast<std::uint64_t>(share) * kMaxSampledVocab);
  }
  return lowest;
}

std::uint64_t Sampler::kept_total(std::uint64_t lowest) const noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (key(i) >= lowest) total += weights_[i];
  }
  return total;
}

std::span<const float> Sampler::checked_scores(std::span<const float> logits,
                                               std::span<const std::uint64_t> allowed) {
  if (logits.size() != vocab_size_) {
    fail(ErrorKind::kInternal, "{} logits for a vocabulary of {}", logits.size(), vocab_size_);
  }
  static_cast<void>(best_logit(logits));
  return adjusted(logits, allowed);
}

std::int32_t Sampler::sample(std::span<const float> logits, std::uint64_t position,
                             std::span<const std::uint64_t> allowed) {
  const std::span<const float> scores = checked_scores(logits, allowed);
  if (params_.temperature == 0.0F) return first_equal(scores, best_unless_all_banned(scores));
  weigh(scores);
  const std::uint64_t lowest = lowest_kept_key();
  // A uniform integer below the total, which is under 2^62: no token's chance is off by more than
  // 2^-64 of the total.
  const std::uint64_t total = kept_total(lowest);
  using Wide = unsigned __int128;
  const auto drawn =
      static_cast<std::uint64_t>(Wide{position_bits(params_.seed, position)} * total >> 64);
  std::uint64_t passed = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (key(i) >= lowest) passed += weights_[i];
    if (passed > drawn) return id_of(i);
  }
  fail(ErrorKind::kInternal, "no token drawn: {} of {}", drawn, total);
}

std::vector<TokenProbability> Sampler::probabilities(std::span<const float> logits,
                                                     std::span<const std::uint64_t> allowed) {
  const std::span<const float> scores = checked_scores(logits, allowed);
  if (params_.temperature == 0.0F) {
    return {{first_equal(scores, best_unless_all_banned(scores)), 1.0}};
  }
  weigh(scores);
  const std::uint64_t lowest = lowest_kept_key();
  const auto total = static_cast<double>(kept_total(lowest));
  std::vector<TokenProbability> kept;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0 && key(i) >= lowest) {
      kept.push_back({id_of(i), static_cast<double>(weights_[i]) / total});
    }
  }
  return kept;
}

std::int32_t greedy_token(std::span<const float> logits) {
  return first_equal(logits, best_logit(logits));
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, std::size_t n) {
  const float best = best_logit(logits);
  const double normaliser = best + log_sum(logits, best);
  std::vector<std::uint64_t> keys;
  top_k_keys(logits, std::min(n, logits.size()), keys);
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::vector<TokenLogprob> top;
  top.reserve(keys.size());
  for (const std::uint64_t key : keys) {
    const std::int32_t id = score_key_id(key);
    top.push_back({id, static_cast<double>(logits[static_cast<std::size_t>(id)]) - normaliser});
  }
  return top;
}

double token_logprob(std::span<const float> logits, std::int32_t token) {
  const float best = best_logit(logits);
  if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) {
    fail(ErrorKind::kInternal, "no token {} in a vocabulary of {}", token, logits.size());
  }
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) -
         (best + log_sum(logits, best));
}

}  // namespace strata::runtime
