// What goes where, before anything is loaded: bytes by purpose on the accelerator and in RAM, and
// whether they fit.
//
// Pure arithmetic over sizes: the same plan is printed by `strata plan`, obeyed by the engine and
// checked by tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::core {

// What the user asked of the cache. Exactly one of the requests is meant by `kind`.
struct CacheRequest {
  // kDefault: nothing was asked: kAuto with a GPU, kNone without.
  enum class Kind { kDefault, kNone, kAuto, kSlots, kBytes };
  Kind kind = Kind::kDefault;
  std::uint64_t amount = 0;  // slots over all layers, or bytes
};
// "auto", "0", a number of slots, or a size with a unit (512MiB, 8GiB, 4GB). Error(kUsage) says
// what is accepted.
[[nodiscard]] CacheRequest parse_cache_request(const std::string& text);
// "8GiB", "700MiB", "12GB", bare bytes. Error(kUsage) otherwise.
[[nodiscard]] std::uint64_t parse_size(const std::string& text);

enum class AcceleratorKind {
  kNone,     // everything is in RAM
  kStandIn,  // threads of the CPU with an arena in RAM: only the cache is theirs
  kGpu,      // dense weights, keys and values, activations and the cache are in its memory
};

struct PlanInput {
  AcceleratorKind accelerator = AcceleratorKind::kGpu;
  std::uint64_t accelerator_bytes = 0;  // free now, or the limit the user set; 0 with kStandIn:
                                        // what RAM has left
  std::uint64_t ram_bytes = 0;          // available now
  std::uint64_t reserve_bytes = 0;      // left alone on the accelerator
  std::uint64_t dense_bytes = 0;
  std::uint64_t kv_bytes_per_position = 0;
  int context = 0;
  std::uint64_t activation_bytes = 0;     // of one window
  std::uint64_t staging_bytes = 0;        // copies and the hand-over
  std::vector<std::uint64_t> slot_bytes;  // of one expert, by layer
  int experts = 0;                        // of a layer
  bool experts_on_disk = false;           // in a file that is paged, so that RAM need not hold them
  std::uint64_t policy_bytes = 0;         // the cache policy's tables, where they are large
  CacheRequest cache;
};

struct PlanLine {
  std::string what;
  std::uint64_t bytes;
};

struct Plan {
  bool fits = false;
  std::vector<PlanLine> accelerator;  // in the order they are taken
  std::vector<PlanLine> ram;
  std::uint64_t accelerator_bytes = 0;  // there are
  std::uint64_t accelerator_needed = 0;
  std::uint64_t ram_needed = 0;
  std::uint64_t cache_bytes = 0;  // the arena's budget
  // What comes after the cache, and the reserve: to be left on the accelerator when the arena is
  // allocated. Weights and activations are in place by then.
  std::uint64_t after_cache_bytes = 0;
  std::uint64_t cache_slots = 0;  // about: layers differ in size
  double resident_share = 0;      // cache bytes over all expert bytes
  std::vector<std::string>
      advice;  // when it does not fit: each one flag that would make it, or as far as it goes
};

[[nodiscard]] Plan make_plan(const PlanInput& input);
// Obeys what an accelerator has left when weights and activations are in place: `free` bytes. A
// cache that was sized by `auto` becomes smaller if it must; Error(kResource) for another that no
// longer fits. Whether it became smaller.
bool refit_cache(Plan& plan, const CacheRequest& request, std::uint64_t free);
// The plan as text for people: a table, then FITS, or DOES NOT FIT with what is needed, what there
// is, and the advice.
[[nodiscard]] std::string format_plan(const PlanInput& input, const Plan& plan);

}  // namespace strata::core
