// strata bench parity: the same text with the expert cache off and on, logits compared bit by bit.
#pragma once

#include "src/app/console.hpp"

#include <CLI/CLI.hpp>

#include <functional>

namespace strata::app {

struct Subcommand {
  CLI::App* options;
  std::function<int(Console&)> run;
};
[[nodiscard]] Subcommand add_bench_parity(CLI::App& bench);

}  // namespace strata::app
