// The audit log: one JSON object a line, each written by an open, an append and a close of its own,
// so that the log survives a crash up to its last record and several processes can share a file.
// docs/cache.md has the fields.
//
// Not thread-safe: the engine's thread writes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace strata {

struct LoadReport;

namespace core {
class ExpertTiers;
}

namespace model {
struct HParams;
}

// A finished request, for its record.
struct RequestRecord {
  int slot = 0;
  std::int64_t task = 0;
  std::size_t prompt_tokens = 0;
  std::size_t generated_tokens = 0;
  double prompt_seconds = 0;
  double generation_seconds = 0;
};

namespace runtime {

class ExpertCaching;
class Forward;

// The engine's counters at one moment. A hit or a miss is one expert in one window, however many of
// the window's tokens chose it.
struct ExpertCounts {
  std::uint64_t hits = 0;
  std::uint64_t hits_profile = 0;  // of them, from a slot that the profile filled
  std::uint64_t misses = 0;
  std::uint64_t bytes_upload = 0;  // copied to the accelerator after the warm start
  std::uint64_t bytes_cpu = 0;     // of the experts that the pool computed
  std::uint64_t swaps = 0;         // experts copied in after the warm start

  [[nodiscard]] ExpertCounts operator-(const ExpertCounts& earlier) const noexcept;
};
// `caching` may be null.
[[nodiscard]] ExpertCounts count_experts(const core::ExpertTiers& tiers,
                                         const ExpertCaching* caching);

class AuditLog {
 public:
  // Error(kIo) when the file cannot be opened for appending.
  static void check(const std::filesystem::path& path);

  // `caching` may be null.
  AuditLog(std::filesystem::path path, std::string build, Forward& forward,
           const ExpertCaching* caching);

  // Each throws Error(kIo), or Error(kResource) when the disk is full.
  void load(const std::filesystem::path& model_file, const model::HParams& h,
            const LoadReport& report);
  void ready();
  // The counters of the request are what happened since the last record.
  void request(const RequestRecord& request);
  void exit();

 private:
  [[nodiscard]] ExpertCounts counts() const;
  void append(const nlohmann::ordered_json& record) const;
  [[nodiscard]] nlohmann::ordered_json header(const char* event, const ExpertCounts& counts) const;
  [[nodiscard]] nlohmann::ordered_json layers() const;

  std::filesystem::path path_;
  std::string build_;
  Forward& forward_;
  const ExpertCaching* caching_;
  ExpertCounts before_;  // at the last record
  RequestRecord sum_;    // of all requests
};

}  // namespace runtime
}  // namespace strata
