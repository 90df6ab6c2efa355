#include "src/base/cgroup.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoMemoryLimit = std::numeric_limits<std::uint64_t>::max();

// A file system of its own for each test: /proc/self and the control group mounts.
class Cgroup : public testing::Test {
 public:
  ~Cgroup() override { fs::remove_all(root_); }

 protected:
  Cgroup() {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    root_ = fs::path(testing::TempDir()) / ("strata_cgroup_" + test + std::to_string(::getpid()));
    fs::create_directories(root_);
  }

  void write(const fs::path& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  fs::path root_;
};

const char* const kV2Mount =
    "22 1 0:21 / /proc rw - proc proc rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_F(Cgroup, NothingThereIsNoLimit) {
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.memory_bytes, kNoMemoryLimit);
  EXPECT_TRUE(std::isinf(limits.cpus));
}

TEST_F(Cgroup, Version2TakesTheLowestOfTheGroupAndThoseAbove) {
  write("proc/self/mountinfo", kV2Mount);
  write("proc/self/cgroup", "0::/user.slice/app.service\n");
  write("sys/fs/cgroup/user.slice/app.service/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/app.service/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/user.slice/memory.max", "8589934592\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/memory.max", "9000000000\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.memory_bytes, 8589934592U);
  EXPECT_DOUBLE_EQ(limits.cpus, 2.5);
}

TEST_F(Cgroup, Version2WithoutALimitSaysMax) {
  write("proc/self/mountinfo", kV2Mount);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.memory_bytes, kNoMemoryLimit);
  EXPECT_TRUE(std::isinf(limits.cpus));
}

TEST_F(Cgroup, Version1ReadsEachControllersOwnHierarchy) {
  write("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/jobs/7\n1:cpu,cpuacct:/jobs\n0::/\n");
  write("sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "4294967296\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.memory_bytes, 4294967296U);
  EXPECT_DOUBLE_EQ(limits.cpus, 1.5);
}

// A container that shares the host's names but sees only its own part of the hierarchy.
TEST_F(Cgroup, AContainersMountShowsAPartOfTheHierarchy) {
  write("proc/self/mountinfo",
        "35 31 0:32 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/docker/ab12/inner\n");
  write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes, 1000000U);
  write("proc/self/cgroup", "4:memory:/elsewhere\n");
  EXPECT_EQ(read_cgroup_limits(root_).memory_bytes, 2000000U);
}

TEST_F(Cgroup, WhatItCannotUnderstandSetsNoLimit) {
  write("proc/self/mountinfo", std::string("nonsense\n\n - \n1 2 - x\n") + kV2Mount);
  write("proc/self/cgroup", "nonsense\n0:\n\n0::/\n");
  write("sys/fs/cgroup/memory.max", "12x\n");
  write("sys/fs/cgroup/cpu.max", "0 0\n");
  const CgroupLimits limits = read_cgroup_limits(root_);
  EXPECT_EQ(limits.memory_bytes, kNoMemoryLimit);
  EXPECT_TRUE(std::isinf(limits.cpus));
  write("sys/fs/cgroup/cpu.max", "\n");
  write("sys/fs/cgroup/memory.max", "");
  EXPECT_TRUE(std::isinf(read_cgroup_limits(root_).cpus));
}

}  // namespace
}  // namespace strata
