// Requests and replies as the routes see them, whatever library moves the bytes.
#pragma once

#include "src/serve/hangup_watch.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::serve {

struct HttpRequest {
  std::string method;
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> query;    // the first of each name
  std::map<std::string, std::string> headers;  // names in lower case, the first of each name
  std::string body;
  std::string client;  // the peer's address

  [[nodiscard]] std::string_view header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : std::string_view(found->second);
  }
  // Calls `gone` when the client hangs up, while the guard lives.
  std::function<HangupWatch::Guard(std::function<void()> gone)> watch;
};

// Where a streamed reply goes.
class Sink {
 public:
  virtual ~Sink() = default;
  // False: the client has gone; nothing more need be written.
  [[nodiscard]] virtual bool write(std::string_view bytes) = 0;

 protected:
  Sink() = default;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::function<void(Sink& sink)> stream;  // writes the body piece by piece instead
};

// `head_only`: before the body was read, to say whether it is worth reading.
using HttpHandler = std::function<HttpReply(const HttpRequest&)>;

}  // namespace strata::serve
