// strata serve: the model behind HTTP.
#include "src/app/command.hpp"
#include "src/app/config_file.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/report.hpp"
#include "src/app/sampling_options.hpp"
#include "src/app/shutdown_signal.hpp"
#include "src/app/version.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/serve/server.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <string>

namespace strata::app {
namespace {

constexpr const char* kExamples = R"(
Examples:
  strata serve model.gguf                            http://127.0.0.1:8080 has a page to chat
  strata serve model.gguf --port 9000 --slots 16
  strata serve model.gguf --host 0.0.0.0 --api-key-file key.txt
  strata serve model.gguf --config serve.toml        options from a file: port = 9000
  curl http://127.0.0.1:8080/v1/completions -d '{"prompt": "Once upon a time", "max_tokens": 50}'

Clients of OpenAI's and Anthropic's APIs work with it: the base URL is http://127.0.0.1:8080/v1 or
http://127.0.0.1:8080. docs/server.md describes what it understands. The first Ctrl-C or SIGTERM
lets running answers finish, the second ends the program. The sampling options are for requests that
say nothing themselves.)";

constexpr std::size_t kLargestKey = 4096;

struct ServeOptions {
  EngineFlags engine;
  SamplingFlags sampling;
  serve::ServerOptions server;
  std::string config, key_file, slots_folder;
  std::string log = "text", log_level = "info";
  std::size_t max_body_mib = 16;
  std::int64_t grace = 30;
};

std::string read_key(const ServeOptions& options) {
  if (options.key_file.empty()) return options.server.api_key;
  std::string key = read_text_file(options.key_file, kLargestKey);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) fail(ErrorKind::kUsage, "--api-key-file {}: it is empty", options.key_file);
  return key;
}

std::shared_ptr<serve::EventLog> make_log(const ServeOptions& options) {
  return std::make_shared<serve::EventLog>(
      std::make_shared<spdlog::sinks::stderr_sink_mt>(),
      options.log == "json" ? serve::EventLog::Form::kJson : serve::EventLog::Form::kText,
      spdlog::level::from_str(options.log_level));
}

serve::ServerOptions server_options(const ServeOptions& options) {
  serve::ServerOptions server = options.server;
  server.api_key = read_key(options);
  server.max_body = options.max_body_mib << 20;
  server.version = fmt::format("{} ({})", version(), commit());
  server.sampling = options.sampling.params();
  server.slots_folder = options.slots_folder;
  server.grace = std::chrono::seconds(options.grace);
  server.log = make_log(options);
  return server;
}

int serve_model(ServeOptions& options, CLI::App& app, Console& console) {
  if (!options.config.empty()) read_config(app, options.config);
  const EngineOptions engine_options = options.engine.options();
  serve::ServerOptions server_opts = server_options(options);
  server_opts.model_file = engine_options.model;
  const bool json = options.log == "json";

  ShutdownSignal signal;
  serve::Server server(server_opts);
  const std::unique_ptr<Engine> engine = load_engine(console, engine_options, json);
  if (json) {
    server_opts.log->write(spdlog::level::info, "load", load_json(*engine));
  } else {
    console.note(start_report(*engine));
    console.note(fmt::format("slots    {}, a context each; {} more requests may wait",
                             server_opts.scheduler.slots, server_opts.scheduler.queue));
    console.note(
        fmt::format("sampling {} unless a request says otherwise", describe(server_opts.sampling)));
    console.note(fmt::format("serving  http://{}:{}\n", server_opts.host, server.port()));
  }
  signal.on_first([&server] { server.shut_down(); });
  server.run(*engine);
  engine->finish();
  return 0;
}

void add_server_options(CLI::App& app, ServeOptions& o) {
  const std::string group = "Server";
  const auto value = [&](const std::string& name, auto& target, const std::string& type,
                         const std::string& help) {
    return app.add_option(name, target, help)->type_name(type)->group(group);
  };
  const auto number = [&](const std::string& name, auto& target, std::int64_t low,
                          std::int64_t high, const std::string& help) {
    return value(name, target, "N", help)
        ->check(CLI::Range(low, high).description(""))
        ->capture_default_str();
  };
  value("--host", o.server.host, "ADDRESS", "where to listen; 0.0.0.0: everywhere")
      ->capture_default_str();
  number("--port", o.server.port, 0, 65535, "0: any that is free");
  CLI::Option* key = value("--api-key", o.server.api_key, "KEY", "clients must send this key");
  value("--api-key-file", o.key_file, "FILE", "the same from a file, which others cannot see")
      ->excludes(key);
  app.add_flag("--open", o.server.allow_open, "listen beyond this machine even without a key")
      ->group(group);
  value("--allowed-host", o.server.allowed_hosts, "NAME",
        "a name that clients may call this server by; may be repeated")
      ->allow_extra_args(false);
  value("--cors-origin", o.server.cors_origins, "URL",
        "a web page that may use this server; *: all; may be repeated")
      ->allow_extra_args(false);
  value("--name", o.server.model_name, "NAME", "the model's name; by default the file's");
  number("--slots", o.server.scheduler.slots, 1, 1024, "requests computed at once");
  number("--queue", o.server.scheduler.queue, 1, 1 << 20, "requests that may wait");
  number("--chunk", o.server.scheduler.chunk, 1, 16384,
         "most tokens of prompts between two tokens of an answer");
  value("--slots-folder", o.slots_folder, "DIR", "where clients may save slots");
  number("--max-body", o.max_body_mib, 1, 1024, "MiB that a request may have");
  number("--max-connections", o.server.max_connections, 1, 10000, "open at once");
  number("--grace", o.grace, 0, 86400, "seconds for running answers when the server goes down");
  add_choice(app, "--log", o.log, {"text", "json"}, "form of the log, on standard error")
      ->capture_default_str()
      ->group(group);
  add_choice(app, "--log-level", o.log_level, {"debug", "info", "warning", "error"},
             "least that is logged")
      ->capture_default_str()
      ->group(group);
  value("--config", o.config, "FILE", "TOML with options by their long names");
}

}  // namespace

Command add_serve(CLI::App& program) {
  CLI::App* app = program.add_subcommand("serve", "Serves a model over HTTP.");
  app->footer(kExamples);
  const auto o = std::make_shared<ServeOptions>();
  o->engine.add_model(*app);
  add_server_options(*app, *o);
  o->sampling.add(*app);
  // Requests bring seeds; one for all of them would make all answers alike.
  app->remove_option(app->get_option("--seed"));
  o->engine.add(*app, EngineFlags::Context::kOption);
  return {app, [o, app](Console& console) { return serve_model(*o, *app, console); }};
}

}  // namespace strata::app
