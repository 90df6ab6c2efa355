// What the control groups of this process let it use (cgroups(7): version 1, version 2, and both).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>

namespace strata {

struct CgroupLimits {
  std::uint64_t memory_bytes = std::numeric_limits<std::uint64_t>::max();
  double cpus = std::numeric_limits<double>::infinity();  // processor seconds a second
};

// The lowest limit among the process's group and the groups above it that are visible here. A file
// that is missing or cannot be understood sets no limit. `root` stands before /proc/self/cgroup,
// /proc/self/mountinfo and the mount points they name.
[[nodiscard]] CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace strata
