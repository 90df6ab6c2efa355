// The forward pass over a window: tokens of one or several sequences, each at its own position.
#pragma once

#include "strata/core/expert_tiers.hpp"
#include "strata/core/routing_replay.hpp"
#include "strata/device/device.hpp"
#include "strata/runtime/model.hpp"
#include "strata/runtime/stats.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace strata::runtime {

// What a sequence keeps between windows: its keys and values at every layer.
class SequenceState {
 public:
  // Room for `capacity` positions. Untouched pages cost no memory.
  SequenceState(const Model& model, device::Device& device, int capacity, device::KvType type);

  [[nodiscard]] int capacity() const noexcept { return capacity_; }
  [[nodiscard]] device::KvCache cache() const noexcept;
  [[nodiscard]] std::size_t bytes_per_position() const noexcept {
    return position_bytes_;
  }  // all layers

  // With a replayed trace: which of its tokens stands for position 0.
  void set_replay_start(std::int64_t token) noexcept { replay_start_ = token; }
  [[nodiscard]] std::int64_t replay_start() const noexcept { return replay_start_; }

 private:
  std::unique_ptr<device::Memory> memory_;
  std::size_t layer_bytes_ = 0;  // of one layer's keys; its values take as many
  std::size_t position_bytes_ = 0;
  int capacity_ = 0;  // as asked
  int cells_ = 0;     // capacity_ rounded up to what a KvLayer may have
  device::KvType type_;
  std::int64_t replay_start_ = 0;
};

struct WindowToken {
  std::int32_t token;
  std::int32_t position;  // below the sequence's capacity; positions before it have been computed,
                          // or stand earlier in this window
  const SequenceState* sequence;
  bool wants_logits;
};

// Sees what the router chose: ids and weights are [tokens][used], in the window's order. Called
// once a layer, on the token path: it may neither block nor allocate.
using RoutingObserver = std::function<void(int layer, std::span<const std::int32_t> ids,
                                           std::span<const float> weights, int used)>;

// Owns the activations of one window. Not thread-safe.
class Forward {
 public:
  // `max_window`: the most tokens a window may have. `pool`: the CPU that computes experts from
  // RAM; the device itself where that is a CPU.
  Forward(const Model& model, device::Device& device, device::Device& pool, int max_window);
  Forward(const Model& model, device::Device& device, int max_window)
      : Forward(model, device, device, max_window) {}
  ~Forward();
  Forward(const Forward&) = delete;
  Forward& operator=(const Forward&) = delete;

  // Computes the window, appending to its sequences' caches. Tokens of one sequence stand together
  // in rising order. Returns the logits of the tokens that want them, in order: [n][vocab rounded
  // up to 16] in host memory; valid until the next call. A token's logits do not depend on the
  // other tokens of the window that it cannot see.
  [[nodiscard]] device::Rows run(std::span<const WindowToken> window);

  // What a window of `tokens` takes beside the weights and the logits.
  [[nodiscard]] static std::size_t activation_bytes(const model::HParams& h, int tokens) noexcept;

  // Where experts are computed: attach a cache here, between windows.
  [[nodiscard]] core::ExpertTiers& tiers() noexcept { return tiers_; }
  [[nodiscard]] const core::ExpertTiers& tiers() const noexcept { return tiers_; }
  // `every_row`: the last layer computes all rows, not only those whose logits are wanted, so that
  // their choices are seen too. The results are the same.
  void observe_routing(RoutingObserver observer, bool every_row = false) {
    observer_ = std::move(observer);
    every_row_ = every_row;
  }

  // From now on the trace chooses, not the router, which is computed all the same: the token at
  // position p of a sequence has the experts and weights of the trace's token replay_start() + p.
  // So a choice depends on neither the window nor the cache. `replay` must outlive this.
  void replay_routing(const core::RoutingReplay& replay);

  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }
  [[nodiscard]] int max_window() const noexcept { return max_window_; }

 private:
  device::Rows rows(const std::unique_ptr<device::Memory>& memory, int count,
                    std::int64_t width) const noexcept;
  void attention_block(int layer, std::span<const WindowToken> window, bool last);
  void keep_only_wanted(std::span<const WindowToken> window);
  void expert_block(int layer);
  void head(device::Rows logits);
  struct OnDevice {  // [rows][used] each
    const std::int32_t* ids;
    const float* weights;
  };
  OnDevice route(int layer);
  // The router's choice, in host memory until the next layer's.
  struct Choice {
    std::span<const std::int32_t> ids;
    std::span<const float> weights;
  };
  [[nodiscard]] Choice read_choice(std::size_t choices);
  [[nodiscard]] Choice replay_choice(int layer, std::size_t choices);
  void add_times();
  // Windows as programs: forward_program.cpp.
  struct Segment;
  struct Recorded;
  class PartTimer;
  [[nodiscard]] device::Rows run_program();
  [[nodiscard]] Recorded& program_of_window();
  [[nodiscard]] std::vector<Segment> record(bool timed);
  void record_layers(int first, int end);
  void run_segments(const std::vector<Segment>& segments);
  void make_program_memory();
  [[nodiscard]] device::Rows program_logits(int count) const noexcept;
  [[nodiscard]] OnDevice replayed(int layer);
  [[nodiscard]] std::ptrdiff_t choices_of_layer() const noexcept;
  void bring_replayed_choices();
  [[nodiscard]] device::Rows logits_on_host(device::Rows logits);
  [[nodiscard]] std::uint64_t cache_bytes_read() const noexcept;
  void count_bytes(Part part, std::span<const device::Linear* const> weights);

  const Model& model_;
  device::Device& device_;
  core::ExpertTiers tiers_;
  RoutingObserver observer_;
  const core::RoutingReplay* replay_ = nullptr;
  bool every_row_ = false;
  int max_window_;
  int count_ = 0;  // rows in flight
  std::unique_ptr<device::Memory> x_, norm_, q_, k_, v_, attn_, router_, parts_, logits_;
  std::unique_ptr<device::Memory> choice_;  // [count][used] ids, then as many weights
  int logits_rows_ = 0;
  std::vector<device::WindowRow> rows_;  // in flight
  std::vector<std::int32_t> kept_;
  std::vector<std::int64_t> replayed_;  // the trace's token of each row, with a trace
  struct Span {
    Part part;
    int from, to;  // the device's marks
  };
  std::vector<Span> spans_;  // of the window
  bool timed_ = true;        // whether the window's parts are
  // Where the device's memory is not the host's: what the host needs to see.
  std::unique_ptr<device::Memory> host_choice_, host_logits_;
  std::unique_ptr<device::Memory> replay_choice_;  // in the host's memory, on its way to choice_
  Stats stats_;
  std::vector<std::unique_ptr<Recorded>> programs_;
  std::unique_ptr<device::Memory> program_logits_, program_host_logits_;
  std::unique_ptr<device::Memory> program_choices_, program_host_choices_;  // with a trace
};

}  // namespace strata::runtime
