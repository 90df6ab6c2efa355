#include "src/base/cgroup.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace strata {
namespace {

namespace fs = std::filesystem;

// One line of /proc/self/cgroup, "4:memory:/path" or "0::/path" for version 2.
struct Membership {
  std::string controllers;
  std::string path;
};

// One line of /proc/self/mountinfo: the part `root` of a hierarchy is visible at `point`.
struct Mount {
  std::string root;
  std::string point;
  std::string type;
  std::string options;  // of the file system: for version 1 they name its controllers
};

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool lists(std::string_view comma_separated, std::string_view name) {
  const std::vector<std::string> names = split(comma_separated, ',');
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<Membership> read_memberships(const fs::path& root) {
  std::vector<Membership> memberships;
  for (const std::string& line : read_lines(root / "proc/self/cgroup")) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    memberships.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return memberships;
}

std::vector<Mount> read_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : read_lines(root / "proc/self/mountinfo")) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> left = split(std::string_view(line).substr(0, dash), ' ');
    const std::vector<std::string> right = split(std::string_view(line).substr(dash + 3), ' ');
    if (left.size() < 5 || right.size() < 3) continue;
    mounts.push_back({left[3], left[4], right[0], right[2]});
  }
  return mounts;
}

// The folders of the group at `path` and of those above it. Inside a container the path may be the
// host's, of which only the part below the mount's own root is visible.
std::vector<fs::path> group_folders(const fs::path& root, const Mount& mount,
                                    const std::string& path) {
  const fs::path top = root / fs::path(mount.point).relative_path();
  fs::path below = fs::path(path).lexically_relative(mount.root);
  if (below.empty() || *below.begin() == "..") below = ".";
  std::vector<fs::path> folders{top};
  for (const fs::path& name : below) {
    if (name != ".") folders.push_back(folders.back() / name);
  }
  return folders;
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The words of the first line of a file; none when there is no such file.
std::vector<std::string> first_line(const fs::path& path) {
  const std::vector<std::string> lines = read_lines(path);
  return lines.empty() ? std::vector<std::string>{} : split(lines.front(), ' ');
}

std::optional<std::int64_t> number_in(const fs::path& path) {
  const std::vector<std::string> words = first_line(path);
  return words.size() == 1 ? parse_number(words.front()) : std::nullopt;
}

void lower_memory(CgroupLimits& limits, std::optional<std::int64_t> bytes) {
  if (!bytes || *bytes < 0) return;  // "max", -1
  limits.memory_bytes = std::min(limits.memory_bytes, static_cast<std::uint64_t>(*bytes));
}

void lower_cpus(CgroupLimits& limits, std::optional<std::int64_t> quota,
                std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;  // "max", -1
  const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
  limits.cpus = std::min(limits.cpus, cpus);
}

void apply_v2(CgroupLimits& limits, const fs::path& folder) {
  lower_memory(limits, number_in(folder / "memory.max"));
  const std::vector<std::string> cpu = first_line(folder / "cpu.max");  // "200000 100000"
  if (cpu.size() == 2) lower_cpus(limits, parse_number(cpu[0]), parse_number(cpu[1]));
}

void apply_v1(CgroupLimits& limits, const fs::path& folder) {
  lower_memory(limits, number_in(folder / "memory.limit_in_bytes"));
  lower_cpus(limits, number_in(folder / "cpu.cfs_quota_us"),
             number_in(folder / "cpu.cfs_period_us"));
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const std::vector<Mount> mounts = read_mounts(root);
  for (const Membership& group : read_memberships(root)) {
    for (const Mount& mount : mounts) {
      if (group.controllers.empty() && mount.type == "cgroup2") {
        for (const fs::path& folder : group_folders(root, mount, group.path)) {
          apply_v2(limits, folder);
        }
      }
      for (const char* const controller : {"memory", "cpu"}) {
        if (mount.type == "cgroup" && lists(group.controllers, controller) &&
            lists(mount.options, controller)) {
          for (const fs::path& folder : group_folders(root, mount, group.path)) {
            apply_v1(limits, folder);
          }
        }
      }
    }
  }
  return limits;
}

}  // namespace strata
