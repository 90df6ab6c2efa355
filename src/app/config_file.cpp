#include "src/app/config_file.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"

#include <sstream>
#include <string>

namespace strata::app {
namespace {

constexpr std::size_t kLargestConfig = 1 << 20;

void apply(CLI::App& app, const CLI::ConfigItem& item, const std::string& file) {
  if (item.name == "++" || item.name == "--") return;  // CLI11's marks around sections
  CLI::Option* option = app.get_option_no_throw("--" + item.name);
  if (option == nullptr || !item.parents.empty() || item.name == "config" || item.name == "help") {
    fail(ErrorKind::kUsage, "{}: '{}' is no option of strata {}", file, item.fullname(),
         app.get_name());
  }
  if (option->count() > 0) return;  // the command line has the last word
  try {
    if (option->get_type_size() == 0) {
      const std::string value = item.inputs.empty() ? "true" : item.inputs.front();
      if (value == "false") return;
      option->add_result(option->get_flag_value("--" + item.name, value));
    } else {
      for (const std::string& input : item.inputs) option->add_result(input);
    }
    option->run_callback();
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::kUsage, "{}: {}", file, error.what());
  }
}

}  // namespace

void read_config(CLI::App& app, const std::filesystem::path& path) {
  std::istringstream text(read_text_file(path, kLargestConfig));
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
    apply(app, item, path.string());
  }
}

}  // namespace strata::app
