// The part of detect_topology that reads an hwloc topology, separate so that tests can describe any
// machine to it.
#pragma once

#include "strata/base/cpu_topology.hpp"

#include <hwloc.h>

namespace strata {

// Cores and nodes of a loaded topology as far as `allowed` reaches; leaves memory_bytes and
// cpu_quota as they are by default.
[[nodiscard]] CpuTopology read_hwloc_topology(hwloc_topology_t topology,
                                              hwloc_const_bitmap_t allowed);

}  // namespace strata
