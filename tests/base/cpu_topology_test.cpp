#include "strata/base/cpu_topology.hpp"

#include "src/base/hwloc_topology.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace strata {
namespace {

// A machine by hwloc's description of it (hwloc documentation, "Synthetic topologies").
class Machine {
 public:
  explicit Machine(const char* description) {
    ::hwloc_topology_init(&topology_);
    EXPECT_EQ(::hwloc_topology_set_synthetic(topology_, description), 0) << description;
    EXPECT_EQ(::hwloc_topology_load(topology_), 0);
  }
  ~Machine() { ::hwloc_topology_destroy(topology_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Processors first..last are of a kind of their own, ranked by hwloc and with this CoreType.
  Machine& kind(int first, int last, int efficiency, const char* core_type = nullptr) {
    std::string name = "CoreType";
    std::string value = core_type == nullptr ? "" : core_type;
    hwloc_info_s info = {name.data(), value.data()};
    hwloc_bitmap_t set = ::hwloc_bitmap_alloc();
    ::hwloc_bitmap_set_range(set, static_cast<unsigned>(first), last);
    EXPECT_EQ(::hwloc_cpukinds_register(topology_, set, efficiency, core_type != nullptr ? 1 : 0,
                                        &info, 0),
              0);
    ::hwloc_bitmap_free(set);
    return *this;
  }

  // As seen by a process bound to the listed processors ("0-3,8").
  [[nodiscard]] CpuTopology read(const char* allowed = "0-4095") const {
    hwloc_bitmap_t set = ::hwloc_bitmap_alloc();
    ::hwloc_bitmap_list_sscanf(set, allowed);
    CpuTopology result = read_hwloc_topology(topology_, set);
    ::hwloc_bitmap_free(set);
    return result;
  }

 private:
  hwloc_topology_t topology_ = nullptr;
};

std::vector<int> processors(const CpuTopology& topology) {
  std::vector<int> list;
  for (const CpuCore& core : topology.cores) list.push_back(core.os_index);
  return list;
}

TEST(CpuTopology, OneEntryACoreWhereCoresHaveTwoThreads) {
  const CpuTopology topology = Machine("package:1 core:4 pu:2").read();
  EXPECT_EQ(processors(topology), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(topology.hardware_threads, 8);
  EXPECT_EQ(topology.numa_nodes, 1);
  EXPECT_EQ(topology.default_threads(), 4);
  EXPECT_EQ(topology.model_name, "unknown processor");
}

TEST(CpuTopology, AMaskLeavesOutCoresAndThreads) {
  const Machine machine("package:1 core:4 pu:2");
  const CpuTopology part = machine.read("1,4-5");
  EXPECT_EQ(processors(part), (std::vector<int>{1, 4}));  // the second thread where only it is ours
  EXPECT_EQ(part.hardware_threads, 3);
  EXPECT_EQ(part.default_threads(), 2);
  const CpuTopology none = machine.read("100");
  EXPECT_TRUE(none.cores.empty());
  EXPECT_EQ(none.default_threads(), 1);
}

TEST(CpuTopology, NumaNodesOfTheCoresWeMayUse) {
  const Machine machine("package:2 [numa] core:3 pu:1");
  const CpuTopology both = machine.read();
  EXPECT_EQ(both.numa_nodes, 2);
  ASSERT_EQ(both.cores.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(both.cores[i].numa_node, i < 3 ? 0 : 1);
  const CpuTopology second = machine.read("4-5");
  EXPECT_EQ(second.numa_nodes, 1);
  EXPECT_EQ(second.cores.front().numa_node, 1);
}

TEST(CpuTopology, HybridFastCoresComeFirstAndOnlyTheyCount) {
  Machine machine("package:1 core:16 pu:1");
  // Here the E-cores have the lower numbers.
  machine.kind(0, 7, 0, "IntelAtom").kind(8, 15, 1, "IntelCore");
  const CpuTopology topology = machine.read();
  EXPECT_EQ(processors(topology),
            (std::vector<int>{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(topology.cores[i].efficient, i >= 8);
  EXPECT_EQ(topology.default_threads(), 8);
}

// As Meteor Lake: 2 P-cores, 4 E-cores, 2 low-power E-cores.
TEST(CpuTopology, HybridWithThreeKindsHasOneFastKind) {
  Machine machine("package:1 core:8 pu:1");
  machine.kind(0, 1, 2, "IntelCore").kind(2, 5, 1, "IntelAtom").kind(6, 7, 0, "IntelAtom");
  EXPECT_EQ(machine.read().default_threads(), 2);
  // A process bound to slow cores uses them all.
  const CpuTopology slow = machine.read("3-7");
  EXPECT_TRUE(slow.cores.front().efficient);
  EXPECT_EQ(slow.default_threads(), 5);
}

TEST(CpuTopology, KindsThatDifferInFrequencyOnlyAreAllFast) {
  Machine favoured("package:1 core:8 pu:1");
  favoured.kind(0, 1, 1).kind(2, 7, 0);
  EXPECT_EQ(favoured.read().default_threads(), 8);
  Machine unranked("package:1 core:4 pu:1");
  unranked.kind(0, 1, -1).kind(2, 3, -1);
  EXPECT_EQ(unranked.read().default_threads(), 4);
  Machine only_small("package:1 core:4 pu:1");
  only_small.kind(0, 3, 0, "IntelAtom");
  EXPECT_EQ(only_small.read().default_threads(), 4);
}

TEST(CpuTopology, ProcessorsWithoutCoresAroundThemCountAsCores) {
  const CpuTopology topology = Machine("package:2 pu:3").read();
  EXPECT_EQ(topology.cores.size(), 6U);
  EXPECT_EQ(topology.default_threads(), 6);
}

TEST(CpuTopology, TheQuotaBoundsTheThreads) {
  CpuTopology topology = Machine("package:1 core:8 pu:2").read();
  const auto with_quota = [&topology](double quota) {
    topology.cpu_quota = quota;
    return topology.default_threads();
  };
  EXPECT_EQ(with_quota(16), 8);
  EXPECT_EQ(with_quota(8), 8);
  EXPECT_EQ(with_quota(3.9), 3);
  EXPECT_EQ(with_quota(0.25), 1);
}

TEST(CpuTopology, PinListIsOneProcessorAThreadOrNone) {
  const CpuTopology topology = Machine("package:1 core:3 pu:2").read();
  EXPECT_EQ(topology.pin_list(2), (std::vector<int>{0, 2}));
  EXPECT_EQ(topology.pin_list(3), (std::vector<int>{0, 2, 4}));
  EXPECT_TRUE(topology.pin_list(4).empty());
  EXPECT_TRUE(topology.pin_list(0).empty());
  EXPECT_TRUE(topology.pin_list(-1).empty());
}

TEST(CpuTopology, OfThisMachine) {
  const CpuTopology topology = detect_topology();
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(topology.hardware_threads, CPU_COUNT(&mask));
  ASSERT_FALSE(topology.cores.empty());
  std::set<int> distinct;
  for (const CpuCore& core : topology.cores) {
    EXPECT_TRUE(CPU_ISSET(core.os_index, &mask)) << core.os_index;
    distinct.insert(core.os_index);
  }
  EXPECT_EQ(distinct.size(), topology.cores.size());
  EXPECT_GE(topology.numa_nodes, 1);
  EXPECT_GE(topology.default_threads(), 1);
  EXPECT_LE(topology.default_threads(), static_cast<int>(topology.cores.size()));
  EXPECT_FALSE(topology.model_name.empty());
  EXPECT_GT(topology.memory_bytes, 0U);
  EXPECT_GT(topology.cpu_quota, 0.0);
}

TEST(CpuTopology, RespectsTheMaskOfTheThread) {
  std::thread bound([] {
    cpu_set_t mask;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mask, &mask), 0);
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(last, &mask)) --last;
    CPU_ZERO(&mask);
    CPU_SET(last, &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
    const CpuTopology topology = detect_topology();
    EXPECT_EQ(processors(topology), std::vector<int>{last});
    EXPECT_EQ(topology.hardware_threads, 1);
    EXPECT_EQ(topology.default_threads(), 1);
  });
  bound.join();
}

}  // namespace
}  // namespace strata
