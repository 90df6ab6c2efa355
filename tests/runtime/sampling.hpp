// What tests of the sampler share.
#pragma once

#include "strata/base/error.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace strata::runtime {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline std::vector<float> random_logits(std::size_t size, std::mt19937& random,
                                        float spread = 3.0F) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

inline ErrorKind error_of(const std::function<void()>& action, std::string* text = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (text != nullptr) *text = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

}  // namespace strata::runtime
