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

Answer::Read Answer::read(Piece& piece, Clock::time_point deadline) {
  piece.text.clear();
  piece.tokens.clear();
  std::unique_lock lock(signal_->mutex);
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
  {
    const std::lock_guard lock(signal_->mutex);
    unread_.text += text;
    unread_.tokens.push_back(std::move(token));
  }
  signal_->changed.notify_one();
}

void Answer::push(std::string_view text) {
  {
    const std::lock_guard lock(signal_->mutex);
    unread_.text += text;
  }
  signal_->changed.notify_one();
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
  return signal.changed.wait_until(lock, deadline, [&] {
    for (const std::shared_ptr<Answer>& answer : answers) {
      if (answer->has_news() && !answer->told_end_) return true;
    }
    return false;
  });
}

}  // namespace strata::serve
