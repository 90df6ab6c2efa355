// How --help looks, and docs/cli.md, which is made of it.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace strata::app {

// Before subcommands are added: they take over the form.
void set_up_help(CLI::App& program);

// Of the program, or of the command that was parsed.
[[nodiscard]] std::string help_of(const CLI::App& program);

}  // namespace strata::app
