// Which processors this process may use, and which of them deserve a worker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

struct CpuCore {
  int os_index;   // the processor to pin a worker to (first hardware thread of the core)
  int numa_node;  // 0 on a machine without NUMA
  bool efficient; // an E-core of a hybrid processor
};

struct CpuTopology {
  std::string model_name;       // "AMD EPYC 9554 64-Core Processor"
  std::vector<CpuCore> cores;   // one entry a physical core this process may run on, fast cores first
  int hardware_threads;         // processors in our affinity mask
  int numa_nodes;
  std::uint64_t memory_bytes;   // of the machine, or the cgroup's limit where that is lower
  // Physical fast cores: what `--threads 0` uses.
  [[nodiscard]] int default_threads() const noexcept;
};

// Through hwloc; respects the affinity mask and cgroup. Error(kInternal) only when hwloc itself cannot start.
[[nodiscard]] CpuTopology detect_topology();

}  // namespace strata
