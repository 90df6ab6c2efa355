// Tells at once when a client closes its connection, while its answer is being computed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

namespace strata::serve {

// One thread sleeps on all connections that are watched. Thread-safe.
class HangupWatch {
 public:
  HangupWatch();  // Error(kResource) when the system refuses
  ~HangupWatch();
  HangupWatch(const HangupWatch&) = delete;
  HangupWatch& operator=(const HangupWatch&) = delete;

  // While it lives, its connection is watched.
  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept;
    Guard& operator=(Guard&& other) noexcept;
    ~Guard() { release(); }
    void release() noexcept;

   private:
    friend class HangupWatch;
    Guard(HangupWatch* watch, std::uint64_t id) : watch_(watch), id_(id) {}
    HangupWatch* watch_ = nullptr;
    std::uint64_t id_ = 0;
  };
  // Calls `gone` once, from the watch's thread, when the peer closes the socket or its own half of
  // it. It must be quick, and is not called any more once the guard is gone.
  [[nodiscard]] Guard watch(int socket, std::function<void()> gone);

 private:
  struct Entry {
    int socket;
    std::function<void()> gone;
  };
  void run();
  void forget(std::uint64_t id) noexcept;

  int epoll_ = -1;
  int stop_ = -1;  // an eventfd
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t last_id_ = 0;
  std::thread thread_;
};

}  // namespace strata::serve
