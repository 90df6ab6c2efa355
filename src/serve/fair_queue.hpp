// Requests that wait for a slot. Clients take turns: one that sends many requests at once delays
// its own, not another's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace strata::serve {

// Not thread-safe.
template <class T>
class FairQueue {
 public:
  // At most `limit` items, and at most half of them (but at least one) from one client.
  explicit FairQueue(std::size_t limit) : limit_(limit) {}

  [[nodiscard]] bool fits(const std::string& client, std::size_t count) const {
    const auto found = waiting_.find(client);
    const std::size_t own = found == waiting_.end() ? 0 : found->second.size();
    return size_ + count <= limit_ && own + count <= std::max<std::size_t>(1, limit_ / 2);
  }

  void push(const std::string& client, T item) {
    std::deque<T>& own = waiting_[client];
    if (own.empty()) turns_.push_back(client);
    own.push_back(std::move(item));
    ++size_;
  }

  // The oldest item of the client whose turn it is; nothing when none waits.
  [[nodiscard]] std::optional<T> pop() {
    if (turns_.empty()) return std::nullopt;
    const std::string client = std::move(turns_.front());
    turns_.pop_front();
    const auto own = waiting_.find(client);
    T item = std::move(own->second.front());
    own->second.pop_front();
    --size_;
    if (own->second.empty()) {
      waiting_.erase(own);
    } else {
      turns_.push_back(client);
    }
    return item;
  }

  // Calls `leave(item)` for every item, and drops those for which it is true.
  template <class Leave>
  void drop_if(const Leave& leave) {
    for (auto own = waiting_.begin(); own != waiting_.end();) {
      size_ -= std::erase_if(own->second, leave);
      if (own->second.empty()) {
        std::erase(turns_, own->first);
        own = waiting_.erase(own);
      } else {
        ++own;
      }
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  std::size_t limit_;
  std::size_t size_ = 0;
  std::map<std::string, std::deque<T>> waiting_;  // no empty ones
  std::deque<std::string> turns_;                 // the clients that have something waiting
};

}  // namespace strata::serve
