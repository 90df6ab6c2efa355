#include "strata/runtime/audit.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "strata/runtime/forward.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>

namespace strata::runtime {
namespace {

using nlohmann::ordered_json;

// The file's size, or an error in its place: the log must not stop for that.
ordered_json file_json(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  ordered_json json = {{"path", path.string()}};
  if (error) {
    json["error"] = error.message();
  } else {
    json["bytes"] = bytes;
  }
  return json;
}

[[noreturn]] void fail_write(const std::filesystem::path& path, int error) {
  fail(error == ENOSPC ? ErrorKind::kResource : ErrorKind::kIo,
       "audit log {}: cannot write: {}; free some space or name another file with --audit",
       path.string(), std::strerror(error));
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) fail_write(path, errno);
  // One write, so that lines of several processes never mix.
  const ssize_t written = line.empty() ? 0 : ::write(fd, line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;
  ::close(fd);
  if (written != static_cast<ssize_t>(line.size())) fail_write(path, error);
}

}  // namespace

ExpertCounts ExpertCounts::operator-(const ExpertCounts& earlier) const noexcept {
  return {hits - earlier.hits,           hits_profile - earlier.hits_profile,
          misses - earlier.misses,       bytes_upload - earlier.bytes_upload,
          bytes_cpu - earlier.bytes_cpu, swaps - earlier.swaps};
}

ExpertCounts count_experts(const core::ExpertTiers& tiers, const ExpertCaching* caching) {
  const core::TierCounts total = tiers.total();
  ExpertCounts counts{total.hit_experts, 0, total.miss_experts + total.fetch_experts, 0,
                      total.miss_bytes,  0};
  if (caching == nullptr) return counts;
  for (int layer = 0; layer < tiers.layers(); ++layer)
    counts.hits_profile += caching->control().hits_profile(layer);
  counts.bytes_upload = caching->control().swaps().bytes_copied + total.fetch_bytes;
  counts.swaps = caching->control().swaps().copies;
  return counts;
}

AuditLog::AuditLog(std::filesystem::path path, std::string build, Forward& forward,
                   const ExpertCaching* caching)
    : path_(std::move(path)), build_(std::move(build)), forward_(forward), caching_(caching) {}

void AuditLog::check(const std::filesystem::path& path) { append_line(path, ""); }

ExpertCounts AuditLog::counts() const { return count_experts(forward_.tiers(), caching_); }

ordered_json AuditLog::header(const char* event, const ExpertCounts& counts) const {
  return {{"event", event},
          {"time", utc_now()},
          {"pid", ::getpid()},
          {"hybrid", caching_ != nullptr},
          {"hits", counts.hits},
          {"hits_profile", counts.hits_profile},
          {"misses", counts.misses},
          {"bytes_upload", counts.bytes_upload},
          {"bytes_cpu", counts.bytes_cpu},
          {"swaps", counts.swaps}};
}

void AuditLog::append(const ordered_json& record) const {
  append_line(path_, record.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

ordered_json AuditLog::layers() const {
  ordered_json all = ordered_json::array();
  for (int layer = 0; layer < forward_.tiers().layers(); ++layer) {
    const core::TierCounts& counts = forward_.tiers().counts(layer);
    ordered_json json = {
        {"il", layer},
        {"slots", caching_ == nullptr ? 0 : caching_->cache().quota(layer)},
        {"hits", counts.hit_experts},
        {"hits_profile", caching_ == nullptr ? 0 : caching_->control().hits_profile(layer)},
        {"misses", counts.miss_experts + counts.fetch_experts},
        {"resident", ordered_json::array()}};
    if (caching_ != nullptr) {
      const auto table = caching_->cache().table(layer);
      for (std::size_t expert = 0; expert < table.size(); ++expert) {
        if (table[expert] != core::kNotResident) json["resident"].push_back(expert);
      }
    }
    all.push_back(std::move(json));
  }
  return all;
}

void AuditLog::load(const std::filesystem::path& model_file, const model::HParams& h,
                    const LoadReport& report) {
  before_ = counts();
  ordered_json record = header("load", before_);
  record["model"] = file_json(model_file);
  record["model"]["name"] = h.name;
  record["model"]["n_layer"] = h.layers;
  record["params"] = {{"build", build_},
                      {"n_threads", report.threads},
                      {"n_ctx", report.context},
                      {"isa", isa_name(report.isa)}};
  record["devices"] = ordered_json::array({{{"name", report.device}}});
  record["load_ms"] = report.seconds * 1e3;
  record["profile"] = nullptr;
  if (caching_ != nullptr) {
    const CacheOptions& options = caching_->options();
    record["params"]["cache_policy"] = core::policy_name(options.policy.kind);
    record["params"]["adapt_every"] = options.adapt_every;
    record["params"]["adapt_swaps"] = options.adapt_swaps;
    record["devices"].push_back({{"name", caching_->accelerator()}});
    record["cache"] = {{"slots", caching_->cache().slots()},
                       {"prefilled", caching_->control().swaps().prefilled},
                       {"bytes", caching_->cache().bytes()}};
    if (const std::optional<core::Profile>& profile = caching_->profile()) {
      record["profile"] = file_json(options.profile);
      record["profile"]["sha256"] = profile->sha256;  // of what was read, whatever is there now
    }
  }
  record["layers"] = layers();
  append(record);
}

void AuditLog::ready() {
  before_ = counts();
  append(header("ready", before_));
}

void AuditLog::request(const RequestRecord& request) {
  const ExpertCounts now = counts();
  const ExpertCounts own = now - before_;
  before_ = now;
  ordered_json record = header("request", now);
  record["slot"] = request.slot;
  record["task"] = request.task;
  record["n_prompt"] = request.prompt_tokens;
  record["n_gen"] = request.generated_tokens;
  record["t_prompt_ms"] = request.prompt_seconds * 1e3;
  record["t_gen_ms"] = request.generation_seconds * 1e3;
  record["req_hits"] = own.hits;
  record["req_hits_profile"] = own.hits_profile;
  record["req_misses"] = own.misses;
  record["req_bytes_upload"] = own.bytes_upload;
  record["req_bytes_cpu"] = own.bytes_cpu;
  record["req_swaps"] = own.swaps;
  append(record);
  sum_.prompt_tokens += request.prompt_tokens;
  sum_.generated_tokens += request.generated_tokens;
  sum_.prompt_seconds += request.prompt_seconds;
  sum_.generation_seconds += request.generation_seconds;
}

void AuditLog::exit() {
  ordered_json record = header("exit", counts());
  const auto speed = [](std::size_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  record["perf"] = {{"n_prompt", sum_.prompt_tokens},
                    {"n_gen", sum_.generated_tokens},
                    {"t_prompt_ms", sum_.prompt_seconds * 1e3},
                    {"t_gen_ms", sum_.generation_seconds * 1e3},
                    {"prompt_tps", speed(sum_.prompt_tokens, sum_.prompt_seconds)},
                    {"gen_tps", speed(sum_.generated_tokens, sum_.generation_seconds)}};
  record["layers"] = layers();
  append(record);
}

}  // namespace strata::runtime
