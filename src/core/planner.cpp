#include "strata/core/planner.hpp"

#include "strata/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>

namespace strata::core {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr Unit kUnits[] = {{"KiB", 1ull << 10}, {"MiB", 1ull << 20},   {"GiB", 1ull << 30},
                           {"TiB", 1ull << 40}, {"KB", 1000},          {"MB", 1000000},
                           {"GB", 1000000000},  {"TB", 1000000000000}, {"B", 1}};

// A number and the unit behind it; nullopt when the text is anything else.
struct Quantity {
  double number;
  std::string_view unit;
};
std::optional<Quantity> read_quantity(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0) || number > 1e18) return std::nullopt;
  return Quantity{number, text.substr(static_cast<std::size_t>(end - text.data()))};
}

std::optional<std::uint64_t> to_bytes(const Quantity& q) {
  for (const Unit& unit : kUnits) {
    if (q.unit == unit.name)
      return static_cast<std::uint64_t>(q.number * static_cast<double>(unit.bytes));
  }
  return std::nullopt;
}

std::uint64_t all_expert_bytes(const PlanInput& in) {
  const std::uint64_t one_each =
      std::accumulate(in.slot_bytes.begin(), in.slot_bytes.end(), std::uint64_t{0});
  return one_each * static_cast<std::uint64_t>(in.experts);
}

std::uint64_t requested_cache_bytes(const PlanInput& in, std::uint64_t left) {
  const std::uint64_t all = all_expert_bytes(in);
  const auto layers = static_cast<std::uint64_t>(std::max<std::size_t>(1, in.slot_bytes.size()));
  switch (in.cache.kind) {
    case CacheRequest::Kind::kDefault:
    case CacheRequest::Kind::kNone:
      return 0;
    case CacheRequest::Kind::kAuto:
      return std::min(left, all);
    case CacheRequest::Kind::kBytes:
      return std::min(in.cache.amount, all);
    case CacheRequest::Kind::kSlots: {
      // Slots are shared evenly: a layer's average size stands for all.
      const double average = static_cast<double>(all) /
                             static_cast<double>(layers * static_cast<std::uint64_t>(in.experts));
      return std::min(
          static_cast<std::uint64_t>(std::llround(static_cast<double>(in.cache.amount) * average)),
          all);
    }
  }
  return 0;
}

std::uint64_t sum(const std::vector<PlanLine>& lines) {
  std::uint64_t bytes = 0;
  for (const PlanLine& line : lines) bytes += line.bytes;
  return bytes;
}

// The cache takes its place beside the `fixed` bytes of the accelerator; a stand-in's is RAM too.
void place_cache(const PlanInput& in, std::uint64_t fixed, Plan& plan) {
  if (in.accelerator == AcceleratorKind::kNone) return;
  const bool stand_in = in.accelerator == AcceleratorKind::kStandIn;
  plan.accelerator_bytes = in.accelerator_bytes;
  if (stand_in && in.accelerator_bytes == 0) {
    plan.accelerator_bytes = in.ram_bytes > plan.ram_needed ? in.ram_bytes - plan.ram_needed : 0;
  }
  const std::uint64_t left = plan.accelerator_bytes > fixed ? plan.accelerator_bytes - fixed : 0;
  plan.cache_bytes = requested_cache_bytes(in, left);
  plan.accelerator.push_back({"expert cache", plan.cache_bytes});
  plan.accelerator_needed = fixed + plan.cache_bytes;
  if (stand_in) {
    plan.ram.push_back({"expert cache of the stand-in", plan.cache_bytes});
    plan.ram_needed += plan.cache_bytes;
  }
  const std::uint64_t experts = all_expert_bytes(in);
  if (experts > 0)
    plan.resident_share = static_cast<double>(plan.cache_bytes) / static_cast<double>(experts);
  const double all_slots = static_cast<double>(in.slot_bytes.size()) * in.experts;
  plan.cache_slots = static_cast<std::uint64_t>(plan.resident_share * all_slots + 1e-6);
}

double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / kGiB; }

std::string size_text(std::uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const auto size = static_cast<double>(bytes);
  return size < kGiB ? fmt::format("{:.1f} MiB", size / kMiB)
                     : fmt::format("{:.2f} GiB", size / kGiB);
}

void advise_accelerator(const PlanInput& in, std::uint64_t fixed, Plan& plan) {
  const std::uint64_t there = plan.accelerator_bytes;
  const bool gpu = in.accelerator == AcceleratorKind::kGpu;
  const std::uint64_t kv =
      gpu ? in.kv_bytes_per_position * static_cast<std::uint64_t>(in.context) : 0;
  const std::uint64_t without_kv = fixed - kv;
  if (in.cache.kind != CacheRequest::Kind::kAuto && plan.cache_bytes > 0 && fixed <= there) {
    plan.advice.push_back(fmt::format("--expert-cache auto   takes the {:.2f} GiB that are left",
                                      gib(there - fixed)));
    return;
  }
  if (without_kv < there && kv > 0) {
    const std::uint64_t positions = (there - without_kv) / in.kv_bytes_per_position / 16 * 16;
    if (positions > 0) plan.advice.push_back(fmt::format("-c {}   a context that fits", positions));
  }
  if (fixed - in.reserve_bytes <= there && in.reserve_bytes > 0) {
    plan.advice.push_back(fmt::format("--vram-reserve-mib {}   leaves less memory to others",
                                      (there - (fixed - in.reserve_bytes)) >> 20));
  }
  if (plan.advice.empty())
    plan.advice.emplace_back("a file with fewer bits a weight, or an accelerator with more memory");
}

}  // namespace

std::uint64_t parse_size(const std::string& text) {
  const std::optional<Quantity> q = read_quantity(text);
  if (q && q->unit.empty()) return static_cast<std::uint64_t>(q->number);
  const std::optional<std::uint64_t> bytes = q ? to_bytes(*q) : std::nullopt;
  if (!bytes)
    fail(ErrorKind::kUsage, "'{}' is not a size; write 8GiB, 700MiB or a number of bytes", text);
  return *bytes;
}

CacheRequest parse_cache_request(const std::string& text) {
  if (text == "auto") return {CacheRequest::Kind::kAuto, 0};
  const std::optional<Quantity> q = read_quantity(text);
  if (q && q->unit.empty() &&
      q->number == static_cast<double>(static_cast<std::uint64_t>(q->number))) {
    const auto slots = static_cast<std::uint64_t>(q->number);
    return {slots == 0 ? CacheRequest::Kind::kNone : CacheRequest::Kind::kSlots, slots};
  }
  const std::optional<std::uint64_t> bytes = q ? to_bytes(*q) : std::nullopt;
  if (!bytes) {
    fail(ErrorKind::kUsage,
         "--expert-cache '{}': write auto, a number of slots, or a size such as 4GiB; 0 turns it "
         "off",
         text);
  }
  return {CacheRequest::Kind::kBytes, *bytes};
}

Plan make_plan(const PlanInput& in) {
  Plan plan;
  const bool gpu = in.accelerator == AcceleratorKind::kGpu;
  const std::vector<PlanLine> compute = {
      {"dense weights", in.dense_bytes},
      {fmt::format("keys and values, {} positions", in.context),
       in.kv_bytes_per_position * static_cast<std::uint64_t>(in.context)},
      {"activations", in.activation_bytes}};
  if (!in.experts_on_disk) plan.ram.push_back({"experts", all_expert_bytes(in)});
  std::vector<PlanLine>& home = gpu ? plan.accelerator : plan.ram;
  home.insert(home.end(), compute.begin(), compute.end());
  if (in.accelerator != AcceleratorKind::kNone) {
    if (gpu) plan.accelerator.push_back({"staging", in.staging_bytes});
    plan.accelerator.push_back({"reserve", in.reserve_bytes});
    plan.ram.push_back({"hand-over", in.staging_bytes});
    if (in.policy_bytes > 0) plan.ram.push_back({"cache policy's tables", in.policy_bytes});
  }
  if (gpu) {
    plan.after_cache_bytes = compute[1].bytes + in.staging_bytes + in.reserve_bytes;
  }
  plan.ram_needed = sum(plan.ram);
  const std::uint64_t fixed = sum(plan.accelerator);
  place_cache(in, fixed, plan);

  const bool accelerator_fits =
      in.accelerator == AcceleratorKind::kNone || plan.accelerator_needed <= plan.accelerator_bytes;
  const bool ram_fits = plan.ram_needed <= in.ram_bytes;
  plan.fits = accelerator_fits && ram_fits;
  if (!accelerator_fits) advise_accelerator(in, fixed, plan);
  if (!ram_fits) {
    if (in.accelerator != AcceleratorKind::kNone && in.policy_bytes > 0 &&
        plan.ram_needed - in.policy_bytes <= in.ram_bytes) {
      plan.advice.emplace_back("--cache-policy default   keeps no tables of what follows what");
    }
    plan.advice.emplace_back(
        "a file with fewer bits a weight, or with other programs closed: experts live in RAM");
    if (!in.experts_on_disk) {
      plan.advice.emplace_back("--experts-on-disk DIR   keeps the experts in a file there, slower");
    }
  }
  return plan;
}

bool refit_cache(Plan& plan, const CacheRequest& request, std::uint64_t free) {
  const std::uint64_t left = free > plan.after_cache_bytes ? free - plan.after_cache_bytes : 0;
  if (plan.cache_bytes <= left) return false;
  if (request.kind != CacheRequest::Kind::kAuto) {
    fail(ErrorKind::kResource,
         "the expert cache of {:.2f} GiB no longer fits: loading the model left {:.2f} GiB of the "
         "accelerator's memory for it, less than was free before; close other programs, ask for "
         "less, or add --expert-cache auto",
         gib(plan.cache_bytes), gib(left));
  }
  const double share = static_cast<double>(left) / static_cast<double>(plan.cache_bytes);
  plan.resident_share *= share;
  plan.cache_slots = static_cast<std::uint64_t>(static_cast<double>(plan.cache_slots) * share);
  plan.accelerator_needed -= plan.cache_bytes - left;
  plan.cache_bytes = left;
  return true;
}

std::string format_plan(const PlanInput& in, const Plan& plan) {
  std::string text;
  const auto table = [&](std::string_view title, const std::vector<PlanLine>& lines,
                         std::uint64_t needed, std::uint64_t there) {
    text += fmt::format("{}\n", title);
    for (const PlanLine& line : lines)
      text += fmt::format("  {:<32}{:>12}\n", line.what, size_text(line.bytes));
    text += fmt::format("  {:<32}{:>12} of {}\n", "together", size_text(needed), size_text(there));
  };
  if (in.accelerator != AcceleratorKind::kNone)
    table("accelerator", plan.accelerator, plan.accelerator_needed, plan.accelerator_bytes);
  table("RAM", plan.ram, plan.ram_needed, in.ram_bytes);
  if (plan.cache_bytes > 0) {
    text += fmt::format("cache: {} slots, {:.1f} % of all expert bytes\n", plan.cache_slots,
                        100 * plan.resident_share);
  }
  if (plan.fits) return text + "FITS\n";
  text += "DOES NOT FIT:";
  if (plan.accelerator_needed > plan.accelerator_bytes) {
    text += fmt::format(" the accelerator needs {} and has {}", size_text(plan.accelerator_needed),
                        size_text(plan.accelerator_bytes));
  }
  if (plan.ram_needed > in.ram_bytes) {
    text += fmt::format("{} RAM needs {} and has {}",
                        plan.accelerator_needed > plan.accelerator_bytes ? ";" : "",
                        size_text(plan.ram_needed), size_text(in.ram_bytes));
  }
  text += "\n";
  for (const std::string& a : plan.advice) text += fmt::format("  try {}\n", a);
  return text;
}

}  // namespace strata::core
