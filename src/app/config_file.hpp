// Options from a file.
#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>

namespace strata::app {

// Gives options of `app` that are not on the command line the values a TOML file has for them. Its
// keys are the options' long names without the dashes: `port = 8080`. Error(kUsage) for a key that
// is no option and for a value it does not take; Error as read_text_file.
void read_config(CLI::App& app, const std::filesystem::path& path);

}  // namespace strata::app
