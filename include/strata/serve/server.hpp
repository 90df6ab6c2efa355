// The server: an engine behind HTTP, with the APIs of OpenAI and Anthropic and a page to chat and
// watch. docs/server.md describes it from outside.
#pragma once

#include "strata/runtime/engine.hpp"
#include "strata/runtime/sampler.hpp"
#include "strata/serve/event_log.hpp"
#include "strata/serve/scheduler.hpp"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace strata::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                         // 0: any that is free
  std::string api_key;                     // empty: none is asked for
  bool allow_open = false;                 // listen beyond this machine without a key
  std::vector<std::string> allowed_hosts;  // names clients may call this server by
  std::vector<std::string> cors_origins;   // pages that may use it; "*": all
  std::size_t max_body = std::size_t{16} << 20;
  std::size_t max_connections = 256;
  std::string model_name;            // by which clients know the model; empty: the file's own
  std::string version;               // of this program
  runtime::SamplingParams sampling;  // of requests that say nothing
  SchedulerOptions scheduler;
  std::filesystem::path slots_folder;  // where slots are saved; empty: they cannot be
  std::filesystem::path model_file;    // that the engine was loaded from: saved slots tell it
  std::chrono::seconds grace{30};      // for running answers when the server goes down
  std::shared_ptr<EventLog> log;       // may be null
};

class Server {
 public:
  // Listens, and tells that the model is loading. Error(kUsage) for a host beyond this machine
  // without a key; Error(kIo) when the address cannot be had.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] int port() const noexcept;

  // Serves until shut_down(), on the thread that loaded the engine. Error as Scheduler's and
  // ChatModel's constructors. Once.
  void run(Engine& engine);
  // Takes no more requests, waits for those under way as long as options.grace says, and has run()
  // return. From any thread.
  void shut_down();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::serve
