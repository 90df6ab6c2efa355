// Which processors this process may use, and which of them deserve a worker.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace strata {

struct CpuCore {
  int os_index;  // the processor to pin a worker to: the core's first hardware thread allowed to us
  int numa_node;   // by the system's number; 0 on a machine without NUMA
  bool efficient;  // an E-core of a hybrid processor
};

struct CpuTopology {
  std::string model_name;  // "AMD EPYC 9554 64-Core Processor"
  // One entry a physical core this process may run on: fast cores first, neighbours side by side.
  std::vector<CpuCore> cores;
  int hardware_threads = 0;        // processors in our affinity mask
  int numa_nodes = 0;              // that our cores belong to
  std::uint64_t memory_bytes = 0;  // of the machine, or the control group's limit where lower
  // Processor seconds a second that the control group grants (`docker run --cpus`).
  double cpu_quota = std::numeric_limits<double>::infinity();

  // What `--threads 0` uses: one a fast core (any core where none is fast), no more than the quota
  // can feed, since a group that overdraws it is stopped as a whole. At least 1.
  [[nodiscard]] int default_threads() const noexcept;
  // The processors to pin `threads` workers to; empty when there are fewer cores than that, since
  // pinned threads that share a core wait for each other.
  [[nodiscard]] std::vector<int> pin_list(int threads) const;
};

// Through hwloc; respects the affinity mask of the calling thread and the control group, so call it
// before a ThreadPool pins that thread. Error(kInternal) only when hwloc itself cannot start.
[[nodiscard]] CpuTopology detect_topology();

}  // namespace strata
