// What is at which path. docs/server.md lists it.
#pragma once

#include "src/serve/access.hpp"
#include "src/serve/chat_model.hpp"
#include "src/serve/http.hpp"
#include "src/serve/monitor.hpp"
#include "strata/serve/scheduler.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace strata::serve {

// Everything there is once the model is loaded. Thread-safe.
struct Ready {
  Engine& engine;
  ChatModel model;
  Scheduler scheduler;
  std::uint64_t fingerprint = 0;  // of the model, for saved slots
};

// Thread-safe.
class Routes {
 public:
  struct Context {
    AccessRules access;
    std::string version;
    runtime::SamplingParams sampling;
    std::filesystem::path slots_folder;
    std::function<std::shared_ptr<Ready>()> ready;  // null while the model is loading
    std::function<bool()> draining;
    std::function<std::size_t()> connections;
  };
  explicit Routes(Context context);

  // Before a body is read.
  [[nodiscard]] std::optional<HttpReply> admit(const HttpRequest& request) const;
  [[nodiscard]] HttpReply handle(const HttpRequest& request) const;
  // An error in the form of the API that the path belongs to.
  [[nodiscard]] HttpReply complain(const HttpRequest& request, const ApiError& error) const;

 private:
  using Member = HttpReply (Routes::*)(const HttpRequest&) const;
  struct Route {
    std::string_view method;
    std::string_view path;  // without /v1; one that ends in '/' has a name behind it
    Member handler;
  };
  [[nodiscard]] const Route* find(const HttpRequest& request, std::string& allowed) const;
  [[nodiscard]] std::shared_ptr<Ready> need_ready() const;
  [[nodiscard]] MonitorView view(Ready& ready) const;
  void add_cors(const HttpRequest& request, HttpReply& reply) const;

  [[nodiscard]] HttpReply chat(const HttpRequest& request) const;
  [[nodiscard]] HttpReply completion(const HttpRequest& request) const;
  [[nodiscard]] HttpReply messages(const HttpRequest& request) const;
  [[nodiscard]] HttpReply count_tokens(const HttpRequest& request) const;
  [[nodiscard]] HttpReply responses(const HttpRequest& request) const;
  [[nodiscard]] HttpReply models(const HttpRequest& request) const;
  [[nodiscard]] HttpReply model(const HttpRequest& request) const;
  [[nodiscard]] HttpReply health(const HttpRequest& request) const;
  [[nodiscard]] HttpReply metrics(const HttpRequest& request) const;
  [[nodiscard]] HttpReply status(const HttpRequest& request) const;
  [[nodiscard]] HttpReply slots(const HttpRequest& request) const;
  [[nodiscard]] HttpReply slot_action(const HttpRequest& request) const;
  [[nodiscard]] std::optional<HttpReply> page(const HttpRequest& request) const;

  Context context_;
  Clock::time_point started_ = Clock::now();
};

}  // namespace strata::serve
