#include "strata/serve/answer.hpp"

#include <utility>

namespace strata::serve {

std::string_view finish_name(Finish finish) noexcept {
  switch (finish) {
    case Finish::kEnd:
      return "end";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "context";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kShutdown:
      return "shutdown";
    case Finish::kError:
      return "error";
  }
  return "";
}

namespace {

// While it lives, every token wakes the reader. Under the signal's mutex.
class AwaitingNews {
 public:
  explicit AwaitingNews(Signal& signal) : signal_(signal) { signal_.awaits_news = true; }
  AwaitingNews(const AwaitingNews&) = delete;
  AwaitingNews& operator=(const AwaitingNews&) = delete;
  ~AwaitingNews() { signal_.awaits_news = false; }

 private:
  Signal& signal_;
};

// Without the lock, which the reader would have to wait for.
void wake_for_news(Signal& signal, std::unique_lock<std::mutex> lock) {
  const bool awaited = signal.awaits_news;
  lock.unlock();
  if (awaited) signal.changed.notify_one();
}

}  // namespace

Answer::Read Answer::read(Piece& piece, Clock::time_point deadline) {
  piece.text.clear();
  piece.tokens.clear();
  std::unique_lock lock(signal_->mutex);
  const AwaitingNews awaiting(*signal_);
  if (!signal_->changed.wait_until(lock, deadline, [&] { return has_news(); })) {
    return Read::kNothing;
  }
  if (unread_.text.empty() && unread_.tokens.empty()) {
    told_end_ = true;
    return Read::kEnded;
  }
  std::swap(piece, unread_);
  return Read::kNews;
}

bool Answer::wait(Clock::time_point deadline) {
  std::unique_lock lock(signal_->mutex);
  return signal_->changed.wait_until(lock, deadline, [&] { return ended_; });
}

void Answer::push(std::string_view text, TokenInfo&& token) {
  std::unique_lock lock(signal_->mutex);
  unread_.text += text;
  unread_.tokens.push_back(std::move(token));
  wake_for_news(*signal_, std::move(lock));
}

void Answer::push(std::string_view text) {
  std::unique_lock lock(signal_->mutex);
  unread_.text += text;
  wake_for_news(*signal_, std::move(lock));
}

void Answer::finish(Outcome&& outcome) {
  {
    const std::lock_guard lock(signal_->mutex);
    outcome_ = std::move(outcome);
    ended_ = true;
  }
  signal_->changed.notify_one();
}

bool wait_for_any(std::span<const std::shared_ptr<Answer>> answers, Clock::time_point deadline) {
  if (answers.empty()) return false;
  Signal& signal = *answers.front()->signal_;
  std::unique_lock lock(signal.mutex);
  const AwaitingNews awaiting(signal);
  return signal.changed.wait_until(lock, deadline, [&] {
    for (const std::shared_ptr<Answer>& answer : answers) {
      if (answer->has_news() && !answer->told_end_) return true;
    }
    return false;
  });
}

}  // namespace strata::serve
