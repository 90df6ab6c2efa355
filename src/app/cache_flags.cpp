#include "src/app/cache_flags.hpp"

#include "src/app/engine_options.hpp"
#include "strata/base/error.hpp"

#include <array>

namespace strata::app {
namespace {

constexpr const char* kGroup = "Expert cache";

// Those that have no meaning without --expert-cache.
constexpr std::array kNeedCache = {"--expert-cache-per-layer",
                                   "--expert-profile",
                                   "--expert-profile-save",
                                   "--expert-profile-minutes",
                                   "--cache-policy",
                                   "--adapt-every",
                                   "--adapt-swaps",
                                   "--adapt-decay",
                                   "--pcie-frac",
                                   "--vram-limit",
                                   "--vram-reserve-mib",
                                   "--link-speed",
                                   "--accelerator-threads"};

}  // namespace

CLI::Option* add_policy(CLI::App& app, std::string& policy) {
  return add_choice(app, "--cache-policy", policy,
                    {"default", "mixture", "pairs", "none", "fill", "static", "lru", "lfu", "lfru"},
                    "which experts stay; docs/cache-policies.md compares them")
      ->capture_default_str();
}

void CacheFlags::add(CLI::App& app) {
  app_ = &app;
  const auto option = [&](const char* name, auto& value, const char* type, const char* help) {
    return app.add_option(name, value, help)->type_name(type)->group(kGroup);
  };
  option("--expert-cache", size_, "N|SIZE|auto",
         "experts kept on the accelerator: how many, how many bytes, or all that fit; 0: none");
  app.add_flag("--expert-cache-per-layer", per_layer_,
               "the same number for every layer, whatever the profile says")
      ->group(kGroup);
  option("--expert-profile", profile_, "FILE", "start with the experts this profile ranks first");
  option("--expert-profile-save", save_, "FILE",
         "write what was learned as a profile, at the end and every few minutes");
  option("--expert-profile-minutes", save_minutes_, "M",
         "minutes between these; 0: at the end only")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->capture_default_str();
  add_policy(app, policy_)->group(kGroup);
  option("--adapt-every", adapt_every_, "N",
         "tokens between adaptive passes; 0: nothing is swapped")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->capture_default_str();
  option("--adapt-swaps", adapt_swaps_, "N", "most swaps in a pass")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->capture_default_str();
  option("--adapt-decay", adapt_decay_, "T",
         "half-life of an expert's heat in tokens; by default several together")
      ->check(CLI::Range(1.0F, 1e9F).description(""));
  option("--pcie-frac", fetch_, "auto|F",
         "share of the misses that is fetched over the link for the accelerator to compute; by "
         "default auto on a GPU, 0 on a stand-in");
  option("--vram-limit", limit_, "SIZE", "use no more of the accelerator's memory");
  option("--vram-reserve-mib", reserve_mib_, "N", "MiB of it that are left alone")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40).description(""))
      ->capture_default_str();
  option("--link-speed", link_, "SIZE",
         "bytes a second at which experts are copied to the stand-in; by default as RAM allows");
  option("--accelerator-threads", accelerator_threads_, "N", "threads that play the accelerator")
      ->check(CLI::Range(1, 1024).description(""))
      ->capture_default_str();
}

CacheOptions CacheFlags::options() const {
  CacheOptions options;
  if (!size_.empty()) options.size = core::parse_cache_request(size_);
  for (const char* name : kNeedCache) {
    if (options.needs_cache.empty() && app_->count(name) > 0) options.needs_cache = name;
  }
  options.equal_quotas = per_layer_;
  options.profile = profile_;
  options.save_profile = save_;
  options.save_every_minutes = save_minutes_;
  options.policy.kind = core::policy_of(policy_).value();
  options.adapt_every = adapt_every_;
  options.adapt_swaps = adapt_swaps_;
  if (adapt_decay_ > 0) {
    using enum core::PolicyKind;
    // One half-life instead of several is what lfu has.
    if (options.policy.kind == kDefault) options.policy.kind = kLfu;
    if (options.policy.kind != kLfu && options.policy.kind != kLfru) {
      fail(ErrorKind::kUsage,
           "--adapt-decay: --cache-policy {} has no single half-life; leave one of them out",
           policy_);
    }
    options.policy.half_life = adapt_decay_;
  }
  if (!fetch_.empty()) options.fetch = core::parse_fetch_request(fetch_);
  if (!limit_.empty()) options.accelerator_limit = core::parse_size(limit_);
  options.reserve_bytes = static_cast<std::uint64_t>(reserve_mib_) << 20;
  if (!link_.empty()) options.link_bytes_per_second = static_cast<double>(core::parse_size(link_));
  options.accelerator_threads = accelerator_threads_;
  return options;
}

}  // namespace strata::app
