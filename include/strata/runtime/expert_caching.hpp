// The expert cache of an engine: the accelerator, the arena in its memory, and what runs both.
//
// Not thread-safe: the engine's thread calls it, between windows.
#pragma once

#include "strata/base/isa.hpp"
#include "strata/base/thread_pool.hpp"
#include "strata/core/cache_control.hpp"
#include "strata/core/copy_engine.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/core/optimum_record.hpp"
#include "strata/core/planner.hpp"
#include "strata/device/cpu_device.hpp"
#include "strata/runtime/cache_options.hpp"
#include "strata/runtime/forward.hpp"

#include <future>
#include <memory>
#include <optional>

namespace strata::runtime {

class ExpertCaching {
 public:
  // Reads the profile, so that a wrong one is refused before minutes of loading, and starts its
  // threads: before the engine pins its own, whose pins these would inherit. `gpu`: the
  // accelerator, which must outlive this; null for a stand-in that computes as `stand_in` says.
  ExpertCaching(const CacheOptions& options, const model::HParams& h, device::Device* gpu,
                const device::CpuDeviceOptions& stand_in);
  // Finishes a save that is under way; does not begin one.
  ~ExpertCaching();

  // Makes the arena as `plan` says, or as large as the accelerator has memory left for; fills it
  // from the profile, and has `forward` use it. Error as core::refit_cache and Device::allocate.
  void attach(const Model& model, Forward& forward, const core::Plan& plan,
              const core::Progress& progress);
  // After each window of `forward`.
  void after_window(const core::WindowRouting& routing);
  // Saves what was learned, where the options name a file. Error as write_profile.
  void save();

  [[nodiscard]] const core::ExpertCache& cache() const noexcept { return *cache_; }
  [[nodiscard]] const core::CacheControl& control() const noexcept { return *control_; }
  [[nodiscard]] const core::Plan& plan() const noexcept { return plan_; }
  // What the arena was to have before the model was loaded; plan() has what it got.
  [[nodiscard]] std::uint64_t planned_bytes() const noexcept { return planned_bytes_; }
  [[nodiscard]] const CacheOptions& options() const noexcept { return options_; }
  [[nodiscard]] const std::optional<core::Profile>& profile() const noexcept { return profile_; }
  [[nodiscard]] std::string accelerator() const;
  // Against the offline optimum, over the first kRecordedTokens tokens.
  [[nodiscard]] core::OptimumRecord::Result compare_with_optimum() const {
    return record_.compare(*cache_);
  }
  // Waits for all copies under way: for tests and reports.
  void drain() { control_->drain(); }

  static constexpr std::int64_t kRecordedTokens = 4096;

 private:
  [[nodiscard]] std::vector<int> choose_quotas(const core::ExpertStore& store) const;
  void save_when_due();
  void make_cache(const core::ExpertStore& store);

  CacheOptions options_;
  core::ExpertGeometry geometry_;
  std::optional<core::Profile> profile_;
  struct StandIn {
    StandIn(int count, const device::CpuDeviceOptions& options)
        : threads({.threads = count, .cpus = {}}), device(threads, options) {}
    ThreadPool threads;
    device::CpuDevice device;
  };
  std::unique_ptr<StandIn> stand_in_;  // where no GPU is the accelerator
  device::Device& accelerator_;
  core::CopyEngine copies_;
  core::OptimumRecord record_;
  core::Plan plan_;
  std::uint64_t planned_bytes_ = 0;
  Forward* forward_ = nullptr;
  std::unique_ptr<core::ExpertCache> cache_;
  std::unique_ptr<core::CacheControl> control_;
  Stopwatch since_save_;
  std::future<void> saving_;
};

}  // namespace strata::runtime
