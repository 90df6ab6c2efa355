#include "src/app/help.hpp"

#include "src/app/command.hpp"
#include "src/app/version.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace strata::app {
namespace {

// Two columns: an option with its value, and what it does with its default.
class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kColumn); }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return make_description(app) + make_usage(app, std::move(name)) + make_positionals(app) +
           make_subcommands(app, mode) + make_groups(app) + make_footer(app);
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string usage = fmt::format("\nUsage: {}", name);
    for (const CLI::Option* option : app->get_options()) {
      if (!option->get_positional()) continue;
      usage += option->get_required() ? fmt::format(" {}", option->get_name(true))
                                      : fmt::format(" [{}]", option->get_name(true));
    }
    // Below the program itself a subcommand is one more way to use a command.
    usage += app->get_parent() == nullptr ? " COMMAND [OPTIONS]\n" : " [OPTIONS]\n";
    return usage;
  }

  std::string make_positionals(const CLI::App* app) const override {
    std::string text;
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_positional()) text += make_option(option, true);
    }
    return text.empty() ? text : "\n" + text;
  }

  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    std::string text = fmt::format("\n{}:\n", group);
    for (const CLI::Option* option : options) text += make_option(option, is_positional);
    return text;
  }
  std::string make_groups(const CLI::App* app) const {
    std::string text;
    // "Options", CLI11's name for those without a group, holds only --help here: it goes last.
    for (const bool others : {false, true}) {
      for (const std::string& group : app->get_groups()) {
        if (group.empty() || (group == "Options") != others) continue;
        const auto options = app->get_options([&](const CLI::Option* option) {
          return option->get_group() == group && option->nonpositional();
        });
        if (!options.empty()) text += make_group(others ? "Other" : group, false, options);
      }
    }
    return text;
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = "  " + (is_positional ? option->get_name(true) : names_of(*option));
    if (!is_positional && option->get_type_size() != 0) left += " " + option->get_type_name();
    std::string right = option->get_description();
    if (!option->get_default_str().empty()) {
      right += fmt::format(" ({})", option->get_default_str());
    }
    if (left.size() + 2 > kColumn) {
      return fmt::format("{}\n{:{}}{}\n", left, "", kColumn, right);
    }
    return fmt::format("{:<{}}{}\n", left, kColumn, right);
  }

 private:
  static constexpr std::size_t kColumn = 30;

  static std::string names_of(const CLI::Option& option) {
    std::string names;
    for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
    for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
    names.resize(names.size() - 2);
    return names;
  }
};

std::string markdown(const CLI::App& program) {
  std::string text = fmt::format(
      "# Commands\n\nWritten by `strata help-markdown`: what `--help` prints. Exit codes and "
      "conventions stand below.\n\n"
      "```\n{}```\n",
      program.help());
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_group().empty()) continue;  // hidden
    text +=
        fmt::format("\n## strata {}\n\n```\n{}```\n", command->get_name(), command->help("strata"));
    for (const CLI::App* sub : command->get_subcommands({})) {
      const std::string name = fmt::format("strata {}", command->get_name());
      text += fmt::format("\n## {} {}\n\n```\n{}```\n", name, sub->get_name(), sub->help(name));
    }
  }
  text +=
      "\n## Exit codes\n\n"
      "| code | meaning |\n|---|---|\n"
      "| 0 | done; also when the reader of the output went away |\n"
      "| 2 | a flag, an argument or a prompt that cannot be obeyed |\n"
      "| 3 | a file with wrong content: a broken GGUF, a model that is not supported |\n"
      "| 4 | the system refused to open, read or write |\n"
      "| 5 | too little memory or disk |\n"
      "| 6 | this machine or build lacks what was asked for |\n"
      "| 70 | a mistake of ours: please report it |\n"
      "| 130 | ended by Ctrl-C |\n\n"
      "Results go to standard output, everything else to standard error. An error is one line "
      "that begins with `strata: error:`.\n";
  return text;
}

}  // namespace

void set_up_help(CLI::App& program) {
  program.description("Runs mixture-of-experts language models from GGUF files.");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "print this help");
  program.set_version_flag("--version", fmt::format("strata {} ({})", version(), commit()),
                           "print the version and the commit it was built from");
  program.require_subcommand(0, 1);
  program.footer("\nstrata COMMAND --help tells more about a command.");
}

std::string help_of(const CLI::App& program) { return program.help(); }

Command add_help_markdown(CLI::App& program) {
  CLI::App* app = program.add_subcommand("help-markdown", "Prints docs/cli.md.");
  app->group("");
  return {app, [&program](Console& console) {
            // A parsed command would be the one that help() is about.
            program.clear();
            console.out.write(markdown(program));
            return 0;
          }};
}

}  // namespace strata::app
