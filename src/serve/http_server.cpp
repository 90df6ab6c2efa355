#include "src/serve/http_server.hpp"

#include "src/serve/ascii.hpp"
#include "src/serve/guarded_stream.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace strata::serve {
namespace {

constexpr int kBacklog = 512;
constexpr std::size_t kChunkedOverhead = 64 << 10;

// A thread for each connection that is open, kept for the next one.
class ConnectionThreads final : public httplib::TaskQueue {
 public:
  explicit ConnectionThreads(std::size_t most) : most_(most) {}

  // void in some versions of httplib, bool in others.
  using Enqueued = decltype(std::declval<httplib::TaskQueue&>().enqueue({}));
  Enqueued enqueue(std::function<void()> task) override {
    {
      std::unique_lock lock(mutex_);
      if (idle_ > tasks_.size() || threads_.size() < most_) {
        tasks_.push_back(std::move(task));
        if (idle_ < tasks_.size()) threads_.emplace_back([this] { run(); });
        lock.unlock();
        changed_.notify_one();
        return static_cast<Enqueued>(true);
      }
    }
    task();  // finds that there are too many connections, says so, and is done
    return static_cast<Enqueued>(true);
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

class DataSink final : public Sink {
 public:
  explicit DataSink(httplib::DataSink& sink) : sink_(sink) {}
  bool write(std::string_view bytes) override {
    // An empty chunk would end the body.
    return bytes.empty() || sink_.write(bytes.data(), bytes.size());
  }

 private:
  httplib::DataSink& sink_;
};

}  // namespace

class HttpServer::Impl final : public httplib::Server {
 public:
  Impl(const HttpOptions& options, HttpServer::Handlers handlers)
      : options_(options), handlers_(std::move(handlers)), wake_(::eventfd(0, EFD_CLOEXEC)) {
    if (wake_ < 0) fail(ErrorKind::kResource, "eventfd: {}", std::strerror(errno));
    new_task_queue = [this] { return new ConnectionThreads(options_.max_connections + 1); };
    set_tcp_nodelay(true);
    // Not httplib's own, with which two servers share a port.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    set_payload_max_length(options_.max_body);
    set_keep_alive_max_count(1'000'000);
    set_keep_alive_timeout(options_.idle_seconds);
    set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return admit(request, response);
    });
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      handle(request, response);
    };
    Get("/.*", answer);
    Post("/.*", answer);
    Put("/.*", answer);
    Patch("/.*", answer);
    Delete("/.*", answer);
    Options("/.*", answer);
    set_error_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;  // ours
      const int status = response.status;
      reply(handlers_.complain(convert(request), status,
                               status == 413
                                   ? fmt::format("a body may have {} bytes", options_.max_body)
                                   : "the request could not be read"),
            response);
    });
    set_logger([this](const httplib::Request& request, const httplib::Response& response) {
      const Connection* connection = find(request);
      if (!handlers_.log) return;
      handlers_.log(convert(request), response.status,
                    connection == nullptr ? 0 : connection->since_head.seconds());
    });
    listen_here();
  }

  ~Impl() override {
    end();
    ::close(wake_);
  }

  void end() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
    stop();
    if (listener_.joinable()) listener_.join();
  }

  [[nodiscard]] int port() const noexcept { return port_; }
  [[nodiscard]] std::size_t connections() const noexcept { return open_; }

 private:
  struct Connection {
    GuardedStream stream;
    HeadFacts facts;
    Stopwatch since_head;
  };

  void listen_here() {
    port_ = options_.port == 0                           ? bind_to_any_port(options_.host)
            : bind_to_port(options_.host, options_.port) ? options_.port
                                                         : -1;
    if (port_ < 0) {
      ::close(wake_);
      fail(ErrorKind::kIo, "cannot listen on {} port {}: {}", options_.host, options_.port,
           std::strerror(errno));
    }
    ::listen(svr_sock_, kBacklog);  // httplib asks for 5
    listener_ = std::thread([this] { listen_after_bind(); });
    while (!is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  bool process_and_close_socket(socket_t socket) override {
    Connection connection{GuardedStream(socket, wake_), {}, {}};
    if (open_.fetch_add(1) >= options_.max_connections) {
      complain(connection.stream, 503, "too many connections");
    } else {
      serve(connection);
    }
    --open_;
    return true;
  }

  void serve(Connection& connection) {
    GuardedStream& stream = connection.stream;
    std::pair<std::string, int> peer;
    stream.get_remote_ip_and_port(peer.first, peer.second);
    {
      const std::lock_guard lock(mutex_);
      by_peer_[peer] = &connection;
    }
    while (svr_sock_ != INVALID_SOCKET && stream.wait_for_request(options_.idle_seconds)) {
      if (!serve_one(connection)) break;
    }
    const std::lock_guard lock(mutex_);
    by_peer_.erase(peer);
  }

  // False: the connection is to be closed.
  bool serve_one(Connection& connection) {
    GuardedStream& stream = connection.stream;
    const auto head = stream.receive_head(options_.head_seconds);
    if (std::holds_alternative<GuardedStream::Closed>(head)) return false;
    if (const auto* problem = std::get_if<HeadProblem>(&head)) {
      complain(stream, problem->status, problem->text);
      return false;
    }
    connection.facts = std::get<HeadFacts>(head);
    connection.since_head.restart();
    if (connection.facts.content_length > options_.max_body) {
      complain(stream, 413, fmt::format("a body may have {} bytes", options_.max_body));
      return false;
    }
    const bool chunked = connection.facts.chunked;
    stream.expect_body(chunked ? 2 * options_.max_body + kChunkedOverhead
                               : static_cast<std::size_t>(connection.facts.content_length),
                       options_.body_seconds, options_.write_seconds);
    bool closed = false;
    if (!process(*this, stream, chunked, closed) || closed || chunked) return false;
    // What a refused request left unread must not be taken for the next one.
    return stream.has_read(connection.facts.content_length);
  }

  // The signature changed in httplib 0.19.
  template <class Self>
  static bool process(Self& self, GuardedStream& stream, bool close, bool& closed) {
    // Compressing a token at a time is worth nothing.
    const auto plain = [](httplib::Request& request) { request.headers.erase("Accept-Encoding"); };
    if constexpr (requires { self.process_request(stream, close, closed, plain); }) {
      return self.process_request(stream, close, closed, plain);
    } else {
      std::string remote, local;
      int remote_port = 0, local_port = 0;
      stream.get_remote_ip_and_port(remote, remote_port);
      stream.get_local_ip_and_port(local, local_port);
      return self.process_request(stream, remote, remote_port, local, local_port, close, closed,
                                  plain);
    }
  }

  void complain(GuardedStream& stream, int status, const std::string& text) {
    const HttpReply reply = handlers_.complain({}, status, text);
    std::string bytes = fmt::format(
        "HTTP/1.1 {} Error\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
        status, reply.content_type, reply.body.size());
    for (const auto& [name, value] : reply.headers) bytes += fmt::format("{}: {}\r\n", name, value);
    bytes += "\r\n" + reply.body;
    if (stream.write(bytes.data(), bytes.size()) > 0) stream.linger();
    if (handlers_.log) handlers_.log({}, status, 0);
  }

  HandlerResponse admit(const httplib::Request& request, httplib::Response& response) {
    std::optional<HttpReply> refusal = handlers_.admit(convert(request));
    if (!refusal) return HandlerResponse::Unhandled;
    reply(std::move(*refusal), response);
    return HandlerResponse::Handled;
  }

  void handle(const httplib::Request& request, httplib::Response& response) {
    HttpRequest own = convert(request);
    own.body = request.body;
    try {
      reply(handlers_.handle(own), response);
    } catch (const std::exception& error) {
      reply(handlers_.complain(own, 500, error.what()), response);
    }
  }

  [[nodiscard]] Connection* find(const httplib::Request& request) {
    const std::lock_guard lock(mutex_);
    const auto found = by_peer_.find({request.remote_addr, request.remote_port});
    return found == by_peer_.end() ? nullptr : found->second;
  }

  // Without the body.
  HttpRequest convert(const httplib::Request& request) {
    HttpRequest own;
    own.method = request.method;
    own.path = request.path;
    for (const auto& [name, value] : request.params) own.query.emplace(name, value);
    for (const auto& [name, value] : request.headers) own.headers.emplace(lower(name), value);
    own.client = request.remote_addr;
    own.watch = [this, connection = find(request)](std::function<void()> gone) {
      if (connection == nullptr) return HangupWatch::Guard();
      return hangups_.watch(connection->stream.socket(), std::move(gone));
    };
    return own;
  }

  static void reply(HttpReply&& reply, httplib::Response& response) {
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    if (!reply.stream) {
      response.set_content(reply.body, reply.content_type);
      return;
    }
    response.set_chunked_content_provider(
        reply.content_type,
        [stream = std::move(reply.stream)](std::size_t, httplib::DataSink& out) {
          DataSink sink(out);
          try {
            stream(sink);
          } catch (const std::exception&) {
            return false;  // the status has been sent: all that is left is to end the connection
          }
          out.done();
          return true;
        });
  }

  HttpOptions options_;
  HttpServer::Handlers handlers_;
  int wake_;
  int port_ = -1;
  std::atomic<std::size_t> open_{0};
  HangupWatch hangups_;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, Connection*> by_peer_;
  std::thread listener_;
};

HttpServer::HttpServer(const HttpOptions& options, Handlers handlers)
    : impl_(std::make_unique<Impl>(options, std::move(handlers))) {}

HttpServer::~HttpServer() = default;

void HttpServer::stop() { impl_->end(); }

int HttpServer::port() const noexcept { return impl_->port(); }

std::size_t HttpServer::connections() const noexcept { return impl_->connections(); }

}  // namespace strata::serve
