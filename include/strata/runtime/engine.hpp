// The engine as a library: load a model, open sessions, feed tokens, read logits, sample. Every
// command of `strata` and the server are built on this header; docs/api.md walks through it.
//
// Thread-safety: an Engine and its Sessions are used by one thread at a time; tokenizer() by any
// number.
#pragma once

#include "strata/base/cpu_topology.hpp"
#include "strata/base/isa.hpp"
#include "strata/base/thread_pool.hpp"
#include "strata/core/expert_store.hpp"
#include "strata/core/window_routing.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/runtime/audit.hpp"
#include "strata/runtime/cache_options.hpp"
#include "strata/runtime/forward.hpp"
#include "strata/runtime/sampler.hpp"
#include "strata/runtime/stats.hpp"
#include "strata/text/tokenizer.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace strata {

using runtime::Stats;

enum class DeviceChoice {
  kAuto,  // a GPU that can be used, else the CPU
  kCpu,
  kCuda,  // Error(kUnsupported), with the reason, when there is none
};

// What a GPU lacks is brought to it once a window: there they are larger.
[[nodiscard]] constexpr int window_of(int asked, bool gpu) noexcept {
  return asked != 0 ? asked : gpu ? 2048 : 512;
}

struct EngineOptions {
  std::filesystem::path model;  // a GGUF file, or the first shard of a split one
  int threads = 0;              // 0: one for each fast physical core this process may use
  std::optional<Isa> isa;       // unset: the fastest that runs here; one that does not is an error
  int context = 0;  // positions a session can hold; 0: the model's own, at most kDefaultContext
  // Most tokens computed at once: prompts are fed in windows of this size. 0: window_of().
  int window = 0;
  device::Activations activations = device::Activations::kInt8;
  std::optional<device::KvType> kv;  // unset: f16, or f32 beside f32 activations
  bool pin_threads = true;
  DeviceChoice device = DeviceChoice::kAuto;
  int gpu = 0;                          // which of several
  std::filesystem::path expert_folder;  // experts in a file there, not in RAM
  CacheOptions cache;                   // experts on an accelerator; off unless a size is asked for
  std::filesystem::path dump_routing;   // a trace of every token's routing goes there
  std::filesystem::path replay_routing;  // a trace that chooses the experts in the router's place
  std::filesystem::path audit;           // JSON lines are appended there
  std::string build;                     // what the audit log calls this program's version
  core::Progress progress;               // called while loading, from the loading thread
};
inline constexpr int kDefaultContext = 4096;

// What was loaded and what was chosen: printed once by every command.
struct LoadReport {
  std::string device;
  std::string no_gpu;  // why none is used, where one was looked for
  device::Activations activations = device::Activations::kInt8;
  Isa isa = Isa::kGeneric;
  std::vector<IsaSupport> isas;  // with the reasons of those that do not run here
  int threads = 0;
  int physical_cores = 0;  // fast ones that this process may use
  int context = 0;
  std::size_t dense_bytes = 0;
  std::size_t expert_bytes = 0;
  std::filesystem::path expert_folder;  // of the file they lie in; empty: they are in RAM
  std::string not_pinned;  // why copies of experts to the GPU are slower than they could be
  std::size_t kv_bytes_per_position = 0;
  std::filesystem::path replay;    // the trace that chooses the experts; empty: the router
  std::int64_t replay_tokens = 0;  // after so many it begins anew
  double seconds = 0;
};

class Session;

namespace core {
class RoutingReplay;
class TraceWriter;
}  // namespace core
namespace runtime {
class ExpertCaching;
}

class Engine {
 public:
  // Error(kInput) for a file we cannot run, Error(kUsage) for an option that cannot be obeyed,
  // Error(kResource) when memory is short.
  [[nodiscard]] static std::unique_ptr<Engine> load(const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] const LoadReport& report() const noexcept { return report_; }
  [[nodiscard]] const model::HParams& hparams() const noexcept { return model_->h; }
  [[nodiscard]] const text::Tokenizer& tokenizer() const noexcept { return *tokenizer_; }
  // tokenizer.chat_template of the file; empty when it has none.
  [[nodiscard]] const std::string& chat_template_source() const noexcept { return chat_template_; }
  [[nodiscard]] int context() const noexcept { return report_.context; }
  [[nodiscard]] int max_window() const noexcept { return forward_->max_window(); }
  [[nodiscard]] const Stats& stats() const noexcept { return forward_->stats(); }

  // The engine must outlive its sessions.
  [[nodiscard]] std::unique_ptr<Session> new_session();

  // One window over any sessions' sequences: the interface below Session, for batching. See
  // runtime::Forward::run; rows of the result are vocab_size() floats at the given stride.
  [[nodiscard]] device::Rows run(std::span<const runtime::WindowToken> window);

  // The expert cache, or null without one.
  [[nodiscard]] const runtime::ExpertCaching* caching() const noexcept { return caching_.get(); }
  // Hits and misses by layer, with and without a cache.
  [[nodiscard]] const core::ExpertTiers& tiers() const noexcept { return forward_->tiers(); }
  // The record of a finished request, where EngineOptions::audit names a log.
  void audit(const RequestRecord& request);
  // Ends what was asked for: writes the learned profile and the trace to their files, and the last
  // record of the audit log. No window may follow. Without it nothing is written at the end. Throws
  // the first Error after all have been tried.
  void finish();
  // The device that sequences are on.
  [[nodiscard]] device::Device& main_device() noexcept { return gpu_ ? *gpu_ : *cpu_; }
  // Bytes a second the machine's memory gives to this engine's threads; takes about half a second.
  [[nodiscard]] double measure_read_bandwidth();

 private:
  friend class Session;
  Engine();
  void watch_routing();
  void pin_experts();

  LoadReport report_;
  device::KvType kv_ = device::KvType::kF16;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<device::Device> cpu_;  // computes experts from RAM, and without a GPU all else
  std::unique_ptr<device::Device> gpu_;  // null: there is none
  std::unique_ptr<runtime::Model> model_;
  std::vector<std::unique_ptr<device::Pinned>> pinned_;  // the experts' memory
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::string chat_template_;
  std::unique_ptr<runtime::ExpertCaching> caching_;  // forward_ uses its memory: destroyed after it
  std::unique_ptr<runtime::Forward> forward_;
  std::unique_ptr<core::WindowRouting> routing_;  // where somebody watches the router
  std::unique_ptr<core::TraceWriter> trace_;
  std::unique_ptr<const core::RoutingReplay> replay_;
  std::unique_ptr<runtime::AuditLog> audit_;
};

// One conversation: the tokens it holds and their keys and values.
class Session {
 public:
  // Appends tokens; afterwards logits() are those of the last. Error(kUsage): no token, an id
  // outside the vocabulary, or more than the context holds; the session is then as before. `stop`:
  // asked between windows; true abandons the rest. Returns how many tokens were taken.
  std::size_t feed(std::span<const std::int32_t> tokens,
                   const std::function<bool(std::size_t done)>& stop = nullptr);
  // Logits of every fed token, for scoring texts: calls row(i, logits) for i = 0 .. tokens.size()-1
  // in order.
  void score(std::span<const std::int32_t> tokens,
             const std::function<void(std::size_t index, std::span<const float> logits)>& row);
  // Of the last token fed; [vocab]. Empty before the first feed and after truncate.
  [[nodiscard]] std::span<const float> logits() const noexcept { return logits_; }
  // The next token from logits(); not fed yet.
  [[nodiscard]] std::int32_t sample(runtime::Sampler& sampler) const;
  // Forgets the tokens from `length` on. Exact: feeding them again gives the same bits.
  void truncate(std::size_t length);
  // With a replayed trace: which of its tokens stands for position 0. The session is empty.
  void set_replay_start(std::int64_t token) noexcept { state_.set_replay_start(token); }
  // How many tokens of `tokens` the session already holds as its beginning.
  [[nodiscard]] std::size_t common_prefix(std::span<const std::int32_t> tokens) const noexcept;

  [[nodiscard]] std::span<const std::int32_t> tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::size_t capacity() const noexcept {
    return static_cast<std::size_t>(state_.capacity());
  }
  [[nodiscard]] const runtime::SequenceState& state() const noexcept { return state_; }

 private:
  friend class Engine;
  explicit Session(Engine& engine);
  void check(std::span<const std::int32_t> tokens) const;

  Engine& engine_;
  runtime::SequenceState state_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logits_;
  std::vector<runtime::WindowToken> window_;
};

}  // namespace strata
