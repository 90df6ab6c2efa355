// The commands of the program, one file each.
#pragma once

#include "src/app/console.hpp"

#include <CLI/CLI.hpp>

#include <functional>

namespace strata::app {

struct Command {
  CLI::App* options;                 // once parsed: was it this one?
  std::function<int(Console&)> run;  // returns the exit code; throws Error and OutputClosed
};

// Each adds its subcommand with options, help and examples to the program.
[[nodiscard]] Command add_run(CLI::App& program);
[[nodiscard]] Command add_serve(CLI::App& program);
[[nodiscard]] Command add_inspect(CLI::App& program);
[[nodiscard]] Command add_tokenize(CLI::App& program);
[[nodiscard]] Command add_perplexity(CLI::App& program);
[[nodiscard]] Command add_bench(CLI::App& program);
[[nodiscard]] Command add_plan(CLI::App& program);
[[nodiscard]] Command add_profile(CLI::App& program);
[[nodiscard]] Command add_trace(CLI::App& program);
[[nodiscard]] Command add_simulate(CLI::App& program);
// Hidden: docs/cli.md is its output.
[[nodiscard]] Command add_help_markdown(CLI::App& program);

}  // namespace strata::app
