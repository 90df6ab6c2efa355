// The HTTP server: cpp-httplib behind a guard that bounds heads, bodies, times and connections.
#pragma once

#include "src/serve/http.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace strata::serve {

struct HttpOptions {
  std::string host;
  int port = 0;  // 0: any that is free
  std::size_t max_body = std::size_t{16} << 20;
  std::size_t max_connections = 256;  // each has a thread while it is open
  int head_seconds = 10;              // from the first byte of a head to its end
  int body_seconds = 60;              // for the whole body
  int idle_seconds = 60;              // between two requests of a connection
  int write_seconds = 30;             // until a client takes what was written
};

class HttpServer {
 public:
  struct Handlers {
    // Before the body is read: a reply refuses the request.
    std::function<std::optional<HttpReply>(const HttpRequest&)> admit;
    HttpHandler handle;
    // The reply to what is no request: a status and what is wrong with it.
    std::function<HttpReply(const HttpRequest&, int status, std::string_view text)> complain;
    // After each reply: the request, the status, the time it took.
    std::function<void(const HttpRequest&, int status, double seconds)> log;
  };

  // Listens at once and answers on threads of its own. Error(kIo) when the address cannot be had.
  HttpServer(const HttpOptions& options, Handlers handlers);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Closes the listener, ends idle connections, and waits for those that are answered.
  void stop();
  [[nodiscard]] int port() const noexcept;
  [[nodiscard]] std::size_t connections() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::serve
