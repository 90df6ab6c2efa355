#include "strata/core/trace.hpp"

#include "strata/base/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace strata::core {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is the memory's layout");

constexpr std::size_t kBuffer = std::size_t{1} << 18;

}  // namespace

TraceReader::TraceReader(const std::filesystem::path& path)
    : path_(path), file_(std::fopen(path.c_str(), "rbe")) {
  if (!file_) fail(ErrorKind::kIo, "{}: cannot open: {}", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(::fileno(file_.get()), &info) == 0 && S_ISDIR(info.st_mode)) {
    fail(ErrorKind::kInput, "{}: is a directory; give the path of a routing trace", path.string());
  }
  std::setvbuf(file_.get(), nullptr, _IOFBF, kBuffer);
}

bool TraceReader::read(void* to, std::size_t bytes, bool may_end) {
  const std::size_t got = std::fread(to, 1, bytes, file_.get());
  within_ += got;
  if (got == bytes) return true;
  if (std::ferror(file_.get()) != 0) {
    fail(ErrorKind::kIo, "{}: cannot read at byte {}: {}", path_.string(), offset_ + within_,
         std::strerror(errno));
  }
  if (may_end && got == 0) return false;
  fail(ErrorKind::kInput,
       "{}: the record at byte {} is cut off after {} bytes; was the trace copied whole?",
       path_.string(), offset_, within_);
}

bool TraceReader::next(RoutingEvent& event) {
  within_ = 0;
  std::int32_t head[2];
  if (!read(head, sizeof head, true)) return false;
  const auto [layer, k] = std::pair(head[0], head[1]);
  if (layer < 0 || layer >= kMaxTraceLayers || k < 1 || k > kMaxTraceUsed) {
    fail(ErrorKind::kInput,
         "{}: the record at byte {} has layer {} and {} experts, not 0..{} and 1..{}; is it a "
         "routing trace?",
         path_.string(), offset_, layer, k, kMaxTraceLayers - 1, kMaxTraceUsed);
  }
  const auto count = static_cast<std::size_t>(k);
  experts_.resize(count);
  weights_.resize(count);
  (void)read(experts_.data(), count * sizeof(std::int32_t), false);
  (void)read(weights_.data(), count * sizeof(float), false);
  if (layer <= previous_layer_) ++token_;
  event = {token_, layer, experts_, weights_};
  check(event);
  previous_layer_ = layer;
  offset_ += within_;
  return true;
}

void TraceReader::check(const RoutingEvent& event) {
  ++record_;
  for (const std::int32_t expert : event.experts) {
    if (expert < 0 || expert >= kMaxTraceExperts) {
      fail(ErrorKind::kInput, "{}: the record at byte {} (layer {}) has expert {}, not 0..{}",
           path_.string(), offset_, event.layer, expert, kMaxTraceExperts - 1);
    }
    const auto e = static_cast<std::size_t>(expert);
    if (e >= seen_.size()) seen_.resize(e + 1, 0);
    if (std::exchange(seen_[e], record_) == record_) {
      fail(ErrorKind::kInput, "{}: the record at byte {} (layer {}) has expert {} twice",
           path_.string(), offset_, event.layer, expert);
    }
  }
  for (const float weight : event.weights) {
    if (!std::isfinite(weight)) {
      fail(ErrorKind::kInput, "{}: the record at byte {} (layer {}) has the weight {}",
           path_.string(), offset_, event.layer, weight);
    }
  }
}

TraceWriter::TraceWriter(std::filesystem::path path) : path_(std::move(path)) {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts && fd_ < 0; ++attempt) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST && errno != EINTR) break;
  }
  if (fd_ < 0) {
    fail(ErrorKind::kIo, "{}: cannot create a file beside it: {}", path_.string(),
         std::strerror(errno));
  }
  buffer_.reserve(kBuffer);
}

TraceWriter::~TraceWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void TraceWriter::flush() {
  std::span<const std::byte> rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const bool full = errno == ENOSPC || errno == EDQUOT;
      fail(full ? ErrorKind::kResource : ErrorKind::kIo, "{}: cannot write: {}", path_.string(),
           std::strerror(errno));
    }
  }
  buffer_.clear();
}

void TraceWriter::append(std::int32_t layer, std::span<const std::int32_t> experts,
                         std::span<const float> weights) {
  assert(fd_ >= 0 && !experts.empty() && experts.size() == weights.size() &&
         experts.size() <= static_cast<std::size_t>(kMaxTraceUsed));
  const std::int32_t head[2] = {layer, static_cast<std::int32_t>(experts.size())};
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(head)),
                                              std::as_bytes(experts), std::as_bytes(weights)};
  if (buffer_.size() + sizeof head + 2 * parts[1].size() > kBuffer) flush();
  for (const auto part : parts) buffer_.insert(buffer_.end(), part.begin(), part.end());
}

void TraceWriter::add_layer(std::int32_t layer, std::int32_t used,
                            std::span<const std::int32_t> experts, std::span<const float> weights) {
  assert(used > 0 && experts.size() == weights.size() && experts.size() % used == 0);
  const std::size_t tokens = experts.size() / static_cast<std::size_t>(used);
  assert(window_.empty() || tokens == window_tokens_);
  window_tokens_ = tokens;
  window_.push_back({layer, used, window_experts_.size()});
  window_experts_.insert(window_experts_.end(), experts.begin(), experts.end());
  window_weights_.insert(window_weights_.end(), weights.begin(), weights.end());
}

void TraceWriter::end_window() {
  const std::span<const std::int32_t> experts = window_experts_;
  const std::span<const float> weights = window_weights_;
  for (std::size_t token = 0; token < window_tokens_ && !window_.empty(); ++token) {
    for (const WindowLayer& w : window_) {
      const auto used = static_cast<std::size_t>(w.used);
      const std::size_t at = w.begin + token * used;
      append(w.layer, experts.subspan(at, used), weights.subspan(at, used));
    }
  }
  window_.clear();
  window_experts_.clear();
  window_weights_.clear();
}

void TraceWriter::close() {
  if (fd_ < 0) return;
  flush();
  const bool flushed = ::fsync(fd_) == 0 || errno == EINVAL;  // EINVAL: nothing to flush there
  if (!flushed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(ErrorKind::kIo, "{}: cannot put the trace in place: {}", path_.string(),
         std::strerror(errno));
  }
  ::close(std::exchange(fd_, -1));
}

Trace Trace::load(const std::filesystem::path& path) {
  TraceReader reader(path);
  Trace trace;
  for (RoutingEvent event; reader.next(event);) trace.add(event);
  if (trace.size() == 0) fail(ErrorKind::kInput, "{}: the trace is empty", path.string());
  return trace;
}

void Trace::add(const RoutingEvent& event) {
  assert(token_.empty() || event.token >= token_.back());
  layer_.push_back(event.layer);
  token_.push_back(event.token);
  begin_.push_back(ids_.size());
  ids_.insert(ids_.end(), event.experts.begin(), event.experts.end());
  weights_.insert(weights_.end(), event.weights.begin(), event.weights.end());
  tokens_ = event.token + 1;
  layers_ = std::max(layers_, event.layer + 1);
  for (const std::int32_t expert : event.experts) experts_ = std::max(experts_, expert + 1);
}

RoutingEvent Trace::operator[](std::size_t i) const noexcept {
  const std::size_t begin = begin_[i];
  const std::size_t count = (i + 1 < begin_.size() ? begin_[i + 1] : ids_.size()) - begin;
  return {token_[i], layer_[i], std::span(ids_).subspan(begin, count),
          std::span(weights_).subspan(begin, count)};
}

Trace Trace::slice(std::int64_t first, std::int64_t last, const std::vector<bool>& layers) const {
  Trace part;
  for (std::size_t i = 0; i < size(); ++i) {
    RoutingEvent event = (*this)[i];
    const auto layer = static_cast<std::size_t>(event.layer);
    const bool wanted = layers.empty() || (layer < layers.size() && layers[layer]);
    if (event.token < first || event.token >= last || !wanted) continue;
    event.token -= first;
    part.add(event);
  }
  return part;
}

std::vector<double> Trace::counts(std::int32_t experts) const {
  assert(experts >= experts_);
  const auto stride = static_cast<std::size_t>(experts);
  std::vector<double> counts(static_cast<std::size_t>(layers_) * stride);
  for (std::size_t i = 0; i < size(); ++i) {
    const RoutingEvent event = (*this)[i];
    for (const std::int32_t expert : event.experts) {
      ++counts[static_cast<std::size_t>(event.layer) * stride + static_cast<std::size_t>(expert)];
    }
  }
  return counts;
}

}  // namespace strata::core
