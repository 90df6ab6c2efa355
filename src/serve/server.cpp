#include "strata/serve/server.hpp"

#include "src/serve/http_server.hpp"
#include "src/serve/routes.hpp"
#include "src/serve/slot_file.hpp"
#include "strata/base/error.hpp"

#include <atomic>
#include <cmath>
#include <mutex>
#include <utility>

namespace strata::serve {
namespace {

ServerOptions checked(ServerOptions options) {
  if (!is_loopback(options.host) && options.api_key.empty() && !options.allow_open) {
    fail(ErrorKind::kUsage,
         "--host {} lets others use this server: set --api-key-file, or insist with --open",
         options.host);
  }
  options.sampling.validate();
  return options;
}

std::string name_of(const ServerOptions& options, const Engine& engine) {
  if (!options.model_name.empty()) return options.model_name;
  return engine.hparams().name.empty() ? "strata" : engine.hparams().name;
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions given) : options(checked(std::move(given))) {
    Routes::Context context;
    context.access = {options.api_key, options.allowed_hosts, options.cors_origins};
    context.version = options.version;
    context.sampling = options.sampling;
    context.slots_folder = options.slots_folder;
    context.ready = [this] {
      const std::lock_guard lock(mutex);
      return ready;
    };
    context.draining = [this] { return draining.load(); };
    context.connections = [this] {
      const HttpServer* server = listening.load();
      return server == nullptr ? 0 : server->connections();
    };
    if (!options.slots_folder.empty()) {
      std::error_code error;
      if (!std::filesystem::is_directory(options.slots_folder, error)) {
        fail(ErrorKind::kIo, "{}: not a folder", options.slots_folder.string());
      }
    }
    routes = std::make_unique<Routes>(std::move(context));
    listen();
  }

  void listen() {
    HttpOptions http_options;
    http_options.host = options.host;
    http_options.port = options.port;
    http_options.max_body = options.max_body;
    http_options.max_connections = options.max_connections;
    HttpServer::Handlers handlers;
    handlers.admit = [this](const HttpRequest& request) { return routes->admit(request); };
    handlers.handle = [this](const HttpRequest& request) { return routes->handle(request); };
    handlers.complain = [this](const HttpRequest& request, int status, std::string_view text) {
      return routes->complain(request, ApiError(status, std::string(text)));
    };
    handlers.log = [this](const HttpRequest& request, int status, double seconds) {
      log(request.path == "/health" || request.path == "/metrics" ? spdlog::level::debug
                                                                  : spdlog::level::info,
          "request",
          {{"method", request.method},
           {"path", request.path},
           {"status", status},
           {"ms", std::round(seconds * 1e4) / 10},
           {"client", request.client}});
    };
    http = std::make_unique<HttpServer>(http_options, std::move(handlers));
    listening = http.get();
  }

  void log(spdlog::level::level_enum level, std::string_view event,
           const nlohmann::ordered_json& fields = nlohmann::ordered_json::object()) const {
    if (options.log) options.log->write(level, event, fields);
  }

  ServerOptions options;
  std::unique_ptr<Routes> routes;
  std::mutex mutex;
  std::shared_ptr<Ready> ready;  // guarded by `mutex`
  bool stop_at_once = false;     // guarded by `mutex`: told to go down before it was ready
  std::atomic<bool> draining{false};
  std::mutex closing;  // held by shut_down() while it uses what run() made
  std::atomic<const HttpServer*> listening{nullptr};
  std::unique_ptr<HttpServer> http;
};

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Server::~Server() = default;

int Server::port() const noexcept { return impl_->http->port(); }

void Server::run(Engine& engine) {
  SchedulerOptions scheduler = impl_->options.scheduler;
  scheduler.complain = [this](const std::string& text) {
    impl_->log(spdlog::level::err, "engine", {{"error", text}});
  };
  // No brace elision: the members are neither copied nor moved.
  const std::shared_ptr<Ready> ready(new Ready{
      engine, ChatModel(engine, name_of(impl_->options, engine)), Scheduler(engine, scheduler),
      impl_->options.slots_folder.empty() ? 0
                                          : model_fingerprint(impl_->options.model_file, engine)});
  bool serve = true;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ready = ready;
    serve = !impl_->stop_at_once;
  }
  if (serve) {
    impl_->log(spdlog::level::info, "ready", {{"model", ready->model.name()}, {"port", port()}});
    ready->scheduler.run();
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ready = nullptr;
  }
  impl_->http->stop();
  const std::lock_guard lock(impl_->closing);  // now no thread but this one knows the engine
  impl_->log(spdlog::level::info, "stopped");
}

void Server::shut_down() {
  const std::lock_guard closing(impl_->closing);
  impl_->draining = true;
  std::shared_ptr<Ready> ready;
  {
    const std::lock_guard lock(impl_->mutex);
    ready = impl_->ready;
    impl_->stop_at_once = ready == nullptr;
  }
  if (!ready) return;
  impl_->log(spdlog::level::info, "draining");
  ready->scheduler.drain();
  if (!ready->scheduler.wait_until_idle(Clock::now() + impl_->options.grace)) {
    impl_->log(spdlog::level::warn, "grace_over");
  }
  ready->scheduler.stop();
}

}  // namespace strata::serve
