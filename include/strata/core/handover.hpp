// The mailbox between an accelerator that runs the forward pass and the CPU pool that computes the
// experts it lacks.
//
// One request is under way at a time. Each carries a step number that only rises; the reply is that
// number. Neither side blocks in the kernel while the other is quick: both spin, then sleep.
// Whatever happens - shutdown, a failure on the CPU's side, a pool that hangs - the accelerator's
// wait() ends: with the reply, or with an Error that says why.
//
//   accelerator: step = post(request); ...compute the hits...; wait(step); combine
//   pool:        while (next(request, step)) { compute; stamp rows; reply(step); }
//
// Rows are stamped: the pool marks every parts row it wrote with the step, wait() checks that all
// the rows the request named carry it. A row left over from an earlier step is an error, not a
// wrong token.
#pragma once

#include "strata/device/device.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace strata::core {

struct HandoverRequest {
  int layer = 0;
  device::Rows x;                              // the window's activations
  std::span<const device::ExpertWork> misses;  // may be empty: the pool takes empty jobs
  device::Rows parts;                          // where the rows go
};

class Handover {
 public:
  // `rows`: parts rows of the largest window. `patience_s`: how long wait() believes in a silent
  // pool.
  explicit Handover(int rows, double patience_s = 20.0);

  // ---- the accelerator's side, one thread
  [[nodiscard]] std::uint64_t post(const HandoverRequest& request);
  // Error(kInternal): the pool failed, shut down, stayed silent too long, or left a row unwritten.
  void wait(std::uint64_t step);

  // ---- the pool's side, one thread
  // Blocks until a request or shutdown; false for shutdown.
  [[nodiscard]] bool next(HandoverRequest& request, std::uint64_t& step);
  // Marks a parts row of the current request as written.
  void stamp(std::int32_t row, std::uint64_t step) noexcept {
    stamps_[static_cast<std::size_t>(row)] = step;
  }
  void reply(std::uint64_t step);
  // Ends this and every later wait() with the reason.
  void fail_with(std::string reason);

  // ---- any thread
  // next() returns false from now on, wait() throws. Idempotent.
  void shutdown();

 private:
  enum class Closed : std::uint32_t { kOpen, kFailed, kShutDown };
  // Waits until `word` differs from `seen`: spins, then sleeps. False when `patience_s` has passed
  // (0: for ever).
  static bool wait_change(const std::atomic<std::uint64_t>& word, std::uint64_t seen,
                          double patience_s);
  void check_rows(std::uint64_t step) const;
  void close(Closed state);

  HandoverRequest request_;            // written before posted_ rises, read after it is seen
  std::vector<std::uint64_t> stamps_;  // by parts row; written by the pool before replied_ rises
  double patience_s_;
  std::string reason_;  // written before closed_ becomes kFailed
  // On lines of their own: each is written by one side and polled by the other.
  alignas(64) std::atomic<std::uint64_t> posted_{0};   // step << 1; low bit: closed
  alignas(64) std::atomic<std::uint64_t> replied_{0};  // step << 1; low bit: closed
  std::atomic<Closed> closed_{Closed::kOpen};
};

}  // namespace strata::core
