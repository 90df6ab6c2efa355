#include "strata/base/cpu_topology.hpp"

#include "src/base/cgroup.hpp"
#include "src/base/hwloc_topology.hpp"
#include "strata/base/error.hpp"
#include "strata/base/memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string_view>

namespace strata {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { ::hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

struct FreeTopology {
  void operator()(hwloc_topology_t topology) const { ::hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;

Bitmap make_bitmap() {
  Bitmap bitmap(::hwloc_bitmap_alloc());
  if (bitmap == nullptr) throw std::bad_alloc();
  return bitmap;
}

std::string model_name(hwloc_topology_t topology) {
  const char* name = nullptr;
  if (const hwloc_obj_t package = ::hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0)) {
    name = ::hwloc_obj_get_info_by_name(package, "CPUModel");
  }
  if (name == nullptr) {
    name = ::hwloc_obj_get_info_by_name(::hwloc_get_root_obj(topology), "CPUModel");
  }
  std::string text = name == nullptr ? "unknown processor" : name;
  text.erase(text.find_last_not_of(' ') + 1);  // some processors pad their name
  return text;
}

// The "CoreType" of a kind of processor, which hwloc takes from CPUID and the kernel's list of
// hybrid cores: "IntelCore", "IntelAtom", or "" when the machine is not hybrid. hwloc also tells
// kinds apart by frequency alone, but those differ too little in what they do for us: favoured
// cores that boost higher, or AMD's dense cores.
std::string_view core_type(hwloc_topology_t topology, int kind) {
  unsigned count = 0;
  hwloc_info_s* infos = nullptr;
  if (kind < 0 || ::hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), nullptr, nullptr,
                                            &count, &infos, 0) != 0) {
    return "";
  }
  for (unsigned i = 0; i < count; ++i) {
    if (std::string_view(infos[i].name) == "CoreType") return infos[i].value;
  }
  return "";
}

bool has_core_type(hwloc_topology_t topology, std::string_view type) {
  const int kinds = ::hwloc_cpukinds_get_nr(topology, 0);
  for (int kind = 0; kind < kinds; ++kind) {
    if (core_type(topology, kind) == type) return true;
  }
  return false;
}

// The first node next to the processors: where several are, as with on-package memory, hwloc
// puts ordinary memory first.
int numa_node_of(hwloc_topology_t topology, hwloc_const_bitmap_t cpuset) {
  hwloc_obj_t node = nullptr;
  while ((node = ::hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    if (::hwloc_bitmap_intersects(node->cpuset, cpuset) != 0) {
      return static_cast<int>(node->os_index);
    }
  }
  return 0;
}

}  // namespace

CpuTopology read_hwloc_topology(hwloc_topology_t topology, hwloc_const_bitmap_t allowed) {
  CpuTopology result;
  result.model_name = model_name(topology);
  const bool hybrid = has_core_type(topology, "IntelCore");
  // Some virtual machines show processors without cores around them.
  const bool has_cores = ::hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  const Bitmap usable = make_bitmap();
  std::set<int> nodes;
  hwloc_obj_t core = nullptr;
  while ((core = ::hwloc_get_next_obj_by_type(topology, type, core)) != nullptr) {
    ::hwloc_bitmap_and(usable.get(), core->cpuset, allowed);
    if (::hwloc_bitmap_iszero(usable.get()) != 0) continue;
    const int kind = ::hwloc_cpukinds_get_by_cpuset(topology, core->cpuset, 0);
    const bool efficient = hybrid && core_type(topology, kind) == "IntelAtom";
    const int node = numa_node_of(topology, core->cpuset);
    result.cores.push_back({::hwloc_bitmap_first(usable.get()), node, efficient});
    result.hardware_threads += ::hwloc_bitmap_weight(usable.get());
    nodes.insert(node);
  }
  result.numa_nodes = static_cast<int>(nodes.size());
  std::stable_partition(result.cores.begin(), result.cores.end(),
                        [](const CpuCore& entry) { return !entry.efficient; });
  return result;
}

int CpuTopology::default_threads() const noexcept {
  auto threads = std::count_if(cores.begin(), cores.end(),
                               [](const CpuCore& core) { return !core.efficient; });
  if (threads == 0) threads = static_cast<std::ptrdiff_t>(cores.size());
  const double fed = std::min(static_cast<double>(threads), cpu_quota);
  return std::max(static_cast<int>(fed), 1);
}

std::vector<int> CpuTopology::pin_list(int threads) const {
  std::vector<int> cpus;
  if (threads < 1 || static_cast<std::size_t>(threads) > cores.size()) return cpus;
  for (int i = 0; i < threads; ++i) cpus.push_back(cores[static_cast<std::size_t>(i)].os_index);
  return cpus;
}

CpuTopology detect_topology() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) {
    fail(ErrorKind::kInternal, "hwloc cannot start: {}", std::strerror(errno));
  }
  const Topology topology(raw);
  if (::hwloc_topology_load(topology.get()) != 0) {
    fail(ErrorKind::kInternal, "hwloc cannot read this machine: {}", std::strerror(errno));
  }
  const Bitmap allowed = make_bitmap();
  if (::hwloc_get_cpubind(topology.get(), allowed.get(), HWLOC_CPUBIND_THREAD) != 0) {
    ::hwloc_bitmap_copy(allowed.get(), ::hwloc_topology_get_allowed_cpuset(topology.get()));
  }
  CpuTopology result = read_hwloc_topology(topology.get(), allowed.get());
  result.memory_bytes = memory_limit_bytes();
  result.cpu_quota = read_cgroup_limits().cpus;
  return result;
}

}  // namespace strata
