// Expectations about strata::Error: its kind and what its text names.
#pragma once

#include "strata/base/error.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace strata::testing {

// Runs `action`, which must throw Error(kind) with a text that holds every one of `parts`.
template <class Action>
::testing::AssertionResult fails_with(ErrorKind kind, std::initializer_list<std::string_view> parts,
                                      const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (error.kind() != kind) {
      return ::testing::AssertionFailure()
             << "kind " << static_cast<int>(error.kind()) << ", text: " << text;
    }
    for (const std::string_view part : parts) {
      if (text.find(part) == std::string_view::npos) {
        return ::testing::AssertionFailure() << "'" << part << "' is not named by: " << text;
      }
    }
    return ::testing::AssertionSuccess() << text;
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace strata::testing
