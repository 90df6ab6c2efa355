#include "strata/core/planner.hpp"

#include "strata/base/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
          static_cast<std::uint64_t>(static_cast<double>(in.cache.amount) * average + 0.5), all);
    }
  }
  return 0;
}

double gib(std::uint64_t bytes) { return static_cast<double>(bytes) / kGiB; }

void advise_accelerator(const PlanInput& in, std::uint64_t fixed, Plan& plan) {
  const std::uint64_t kv = in.kv_bytes_per_position * static_cast<std::uint64_t>(in.context);
  const std::uint64_t without_kv = fixed - kv;
  if (in.cache.kind != CacheRequest::Kind::kAuto && plan.cache_bytes > 0 &&
      fixed <= in.accelerator_bytes) {
    plan.advice.push_back(fmt::format("--expert-cache auto   takes the {:.2f} GiB that are left",
                                      gib(in.accelerator_bytes - fixed)));
    return;
  }
  if (without_kv < in.accelerator_bytes && in.kv_bytes_per_position > 0) {
    const std::uint64_t positions =
        (in.accelerator_bytes - without_kv) / in.kv_bytes_per_position / 16 * 16;
    if (positions > 0) plan.advice.push_back(fmt::format("-c {}   a context that fits", positions));
  }
  if (fixed - in.reserve_bytes <= in.accelerator_bytes && in.reserve_bytes > 0) {
    plan.advice.push_back(fmt::format("--vram-reserve-mib {}   leaves less memory to others",
                                      (in.accelerator_bytes - (fixed - in.reserve_bytes)) >> 20));
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
  const std::uint64_t kv = in.kv_bytes_per_position * static_cast<std::uint64_t>(in.context);
  const std::uint64_t experts = all_expert_bytes(in);
  plan.accelerator = {{"dense weights", in.dense_bytes},
                      {fmt::format("keys and values, {} positions", in.context), kv},
                      {"activations", in.activation_bytes},
                      {"staging", in.staging_bytes},
                      {"reserve", in.reserve_bytes}};
  std::uint64_t fixed = 0;
  for (const PlanLine& line : plan.accelerator) fixed += line.bytes;
  const std::uint64_t left = in.accelerator_bytes > fixed ? in.accelerator_bytes - fixed : 0;
  plan.cache_bytes = requested_cache_bytes(in, left);
  plan.accelerator.push_back({"expert cache", plan.cache_bytes});
  plan.accelerator_needed = fixed + plan.cache_bytes;
  plan.resident_share =
      experts > 0 ? static_cast<double>(plan.cache_bytes) / static_cast<double>(experts) : 0;
  const double all_slots = static_cast<double>(in.slot_bytes.size()) * in.experts;
  plan.cache_slots = static_cast<std::uint64_t>(plan.resident_share * all_slots + 1e-6);
  plan.ram = {{"experts", experts}, {"hand-over", in.staging_bytes}};
  plan.ram_needed = experts + in.staging_bytes;

  const bool accelerator_fits = plan.accelerator_needed <= in.accelerator_bytes;
  const bool ram_fits = plan.ram_needed <= in.ram_bytes;
  plan.fits = accelerator_fits && ram_fits;
  if (!accelerator_fits) advise_accelerator(in, fixed, plan);
  if (!ram_fits)
    plan.advice.emplace_back(
        "close other programs, or take a file with fewer bits a weight: experts live in RAM");
  return plan;
}

std::string format_plan(const PlanInput& in, const Plan& plan) {
  std::string text;
  const auto table = [&](std::string_view title, const std::vector<PlanLine>& lines,
                         std::uint64_t needed, std::uint64_t there) {
    text += fmt::format("{}\n", title);
    for (const PlanLine& line : lines)
      text += fmt::format("  {:<32}{:>10.3f} GiB\n", line.what, gib(line.bytes));
    text += fmt::format("  {:<32}{:>10.3f} GiB of {:.3f}\n", "together", gib(needed), gib(there));
  };
  table("accelerator", plan.accelerator, plan.accelerator_needed, in.accelerator_bytes);
  table("RAM", plan.ram, plan.ram_needed, in.ram_bytes);
  if (plan.cache_bytes > 0) {
    text += fmt::format("cache: {} slots, {:.1f} % of all expert bytes\n", plan.cache_slots,
                        100 * plan.resident_share);
  }
  if (plan.fits) return text + "FITS\n";
  text += "DOES NOT FIT:";
  if (plan.accelerator_needed > in.accelerator_bytes) {
    text += fmt::format(" the accelerator needs {:.3f} GiB and has {:.3f}",
                        gib(plan.accelerator_needed), gib(in.accelerator_bytes));
  }
  if (plan.ram_needed > in.ram_bytes) {
    text += fmt::format("{} RAM needs {:.3f} GiB and has {:.3f}",
                        plan.accelerator_needed > in.accelerator_bytes ? ";" : "",
                        gib(plan.ram_needed), gib(in.ram_bytes));
  }
  text += "\n";
  for (const std::string& a : plan.advice) text += fmt::format("  try {}\n", a);
  return text;
}

}  // namespace strata::core
