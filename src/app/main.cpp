// The program `strata`: parses the command line, runs one command, turns errors into exit codes.
#include "src/app/command.hpp"
#include "src/app/console.hpp"
#include "src/app/help.hpp"
#include "src/app/version.hpp"
#include "strata/base/error.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <exception>
#include <new>
#include <vector>

namespace strata::app {
namespace {

constexpr int kExitUsage = static_cast<int>(ErrorKind::kUsage);

int run_command(const std::vector<Command>& commands, Console& console) {
  for (const Command& command : commands) {
    if (!command.options->parsed()) continue;
    const int code = command.run(console);
    console.out.flush();
    return code;
  }
  console.log.error("no command given; strata --help lists them");
  return kExitUsage;
}

// --help and --version end here as well: CLI11 reports them as exceptions.
int parsing_ended(const CLI::App& program, const CLI::ParseError& end, Console& console) {
  if (end.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    console.out.write(end.get_name() == "CallForHelp" ? help_of(program) : end.what());
    console.out.write(end.get_name() == "CallForHelp" ? "" : "\n");
    console.out.flush();
    return 0;
  }
  const CLI::App* chosen = &program;
  for (const CLI::App* sub : program.get_subcommands()) chosen = sub;
  console.log.error("{}\nstrata {}{}--help lists what is possible", end.what(),
                    chosen == &program ? "" : chosen->get_name(), chosen == &program ? "" : " ");
  return kExitUsage;
}

int run_program(int argc, char** argv, Console& console) {
  CLI::App program("", "strata");
  set_up_help(program);
  const std::vector<Command> commands = {
      add_run(program),      add_serve(program),        add_inspect(program),
      add_tokenize(program), add_perplexity(program),   add_bench(program),
      add_plan(program),     add_profile(program),      add_trace(program),
      add_simulate(program), add_help_markdown(program)};
  for (const Command& command : commands) {
    if (!command.options->get_group().empty()) command.options->group("Commands");
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return parsing_ended(program, end, console);
  }
  return run_command(commands, console);
}

}  // namespace
}  // namespace strata::app

int main(int argc, char** argv) {
  using strata::ErrorKind;
  ::signal(SIGPIPE, SIG_IGN);  // a closed output is an error of write(), handled below
  strata::app::Console console;
  try {
    return strata::app::run_program(argc, argv, console);
  } catch (const strata::app::OutputClosed&) {
    return 0;
  } catch (const strata::Error& error) {
    console.log.error("{}", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    console.log.error("out of memory");
    return static_cast<int>(ErrorKind::kResource);
  } catch (const std::exception& error) {
    console.log.error("{} (this is a mistake of ours: please report it)", error.what());
    return static_cast<int>(ErrorKind::kInternal);
  }
}
