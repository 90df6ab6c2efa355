// A connection as httplib reads and writes it, with every wait bounded.
#pragma once

#include "src/serve/http_head.hpp"
#include "strata/serve/answer.hpp"

#include <httplib.h>

#include <cstddef>
#include <string>
#include <variant>

namespace strata::serve {

// Owns the socket. One thread.
class GuardedStream final : public httplib::Stream {
 public:
  // `wake`: a file descriptor that becomes readable when the server stops.
  GuardedStream(int socket, int wake);
  ~GuardedStream();  // NOLINT(modernize-use-override): see below
  GuardedStream(const GuardedStream&) = delete;
  GuardedStream& operator=(const GuardedStream&) = delete;

  // Waits for the next request's first byte. False: the peer has closed, nothing came in time, or
  // the server stops.
  [[nodiscard]] bool wait_for_request(int seconds);

  struct Closed {};
  // Reads a head to its end and checks it; what it holds is read again by httplib.
  [[nodiscard]] std::variant<HeadFacts, HeadProblem, Closed> receive_head(int seconds);
  // For the body that follows: at most so many bytes in so many seconds. After it, is_drained()
  // tells whether all of a body of this length was read.
  void expect_body(std::size_t bytes, int seconds, int write_seconds) noexcept;
  [[nodiscard]] bool has_read(std::uint64_t content_length) const noexcept {
    return body_read_ == content_length;
  }

  // Nothing more is written; lets the peer read it. Closing while the peer still sends would take
  // the reply away from it.
  void linger();

  // httplib's interface. No `override`: which of these exist differs from version to version.
  // NOLINTBEGIN(modernize-use-override)
  bool is_readable() const;
  bool is_writable() const;
  bool is_peer_alive() const { return is_writable(); }
  bool wait_readable() const { return is_readable(); }
  bool wait_writable() const { return is_writable(); }
  ssize_t read(char* bytes, std::size_t count);
  ssize_t write(const char* bytes, std::size_t count);
  void get_remote_ip_and_port(std::string& ip, int& port) const;
  void get_local_ip_and_port(std::string& ip, int& port) const;
  socket_t socket() const { return socket_; }
  time_t duration() const { return 0; }
  // NOLINTEND(modernize-use-override)
  using httplib::Stream::write;

 private:
  enum class Wait { kReady, kTimeout, kStopped };
  Wait wait_for(short events, Clock::time_point deadline, bool stoppable) const;
  [[nodiscard]] bool receive_more();
  [[nodiscard]] std::string_view unread() const noexcept {
    return std::string_view(received_).substr(read_);
  }

  int socket_, wake_;
  std::string received_;
  std::size_t read_ = 0;       // of what was received
  std::size_t head_left_ = 0;  // bytes of the head that come next
  std::uint64_t body_read_ = 0;
  std::uint64_t body_limit_ = 0;
  Clock::time_point read_deadline_;
  int write_seconds_ = 10;
};

}  // namespace strata::serve
