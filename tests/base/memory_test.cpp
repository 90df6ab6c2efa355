#include "strata/base/memory.hpp"

#include "strata/base/error.hpp"
#include "strata/base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t address_of(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

// Pages of this process in memory (field 2 of statm) or mapped (field 1).
std::size_t process_pages(int field) {
  std::ifstream file("/proc/self/statm");
  std::size_t pages = 0;
  for (int i = 0; i < field; ++i) file >> pages;
  return pages;
}

TEST(Buffer, IsZeroedAndWritableToItsLastByte) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, 2 * kMiB - 1,
                                 2 * kMiB, 5 * kMiB + 12345}) {
    Buffer buffer(size);
    ASSERT_EQ(buffer.size(), size);
    ASSERT_EQ(buffer.bytes().size(), size);
    EXPECT_EQ(address_of(buffer) % (size >= 2 * kMiB ? 2 * kMiB : 4096), 0U) << size;
    EXPECT_TRUE(std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                            [](std::byte value) { return value == std::byte{0}; }));
    std::fill(buffer.bytes().begin(), buffer.bytes().end(), std::byte{0x5A});
    EXPECT_EQ(buffer.as<std::uint8_t>()[size - 1], 0x5A);
  }
}

TEST(Buffer, OfNoBytesIsEmpty) {
  const Buffer none(0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(none.size(), 0U);
  EXPECT_TRUE(Buffer().bytes().empty());
}

TEST(Buffer, MovesItsMemory) {
  Buffer a(3 * kMiB);
  a.as<int>()[0] = 7;
  const std::byte* const data = a.data();
  Buffer b(std::move(a));
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(a.size(), 0U);
  Buffer c(100);
  c = std::move(b);
  EXPECT_EQ(c.as<int>()[0], 7);
  EXPECT_EQ(c.size(), 3 * kMiB);
  Buffer& same = c;
  c = std::move(same);
  EXPECT_EQ(c.as<int>()[0], 7);
}

TEST(Buffer, GivesBackEveryPageItMapped) {
  for (int i = 0; i < 10; ++i) Buffer warm_up(3 * kMiB);
  const std::size_t before = process_pages(1);
  for (int i = 0; i < 500; ++i) Buffer buffer(3 * kMiB + 1);
  EXPECT_LT(process_pages(1), before + 512);  // one buffer's worth: the allocator's own
}

TEST(Buffer, UntouchedPagesCostNothing) {
  const std::size_t before = process_pages(2);
  const Buffer buffer(memory_limit_bytes() / 2);
  EXPECT_LT(process_pages(2), before + 2048);
}

TEST(Buffer, InAFileIsMemoryToo) {
  const std::filesystem::path folder = testing::TempDir();
  Buffer buffer = Buffer::in_file(folder, 3 * kMiB + 5);
  ASSERT_EQ(buffer.size(), 3 * kMiB + 5);
  for (const std::byte b : buffer.bytes()) ASSERT_EQ(b, std::byte{0});
  std::ranges::fill(buffer.bytes(), std::byte{7});
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.data()[moved.size() - 1], std::byte{7});
  EXPECT_EQ(Buffer::in_file(folder, 0).size(), 0U);
}

TEST(Buffer, InAFileIsRefusedWithoutAFolderOrRoom) {
  const auto refused = [](const std::filesystem::path& folder, std::size_t size, ErrorKind kind) {
    try {
      (void)Buffer::in_file(folder, size);
      ADD_FAILURE() << "granted " << size << " in " << folder;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder.string()), std::string::npos);
    }
  };
  refused("/no/such/folder", 100, ErrorKind::kIo);
  refused(testing::TempDir(), std::size_t{1} << 60, ErrorKind::kResource);
}

void expect_refused(std::size_t size, const std::string& part) {
  try {
    const Buffer buffer(size);
    FAIL() << "granted " << size;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResource);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Buffer, RefusesMoreThanTheMachineHas) {
  expect_refused(memory_limit_bytes() + 1, "this machine or control group has");
  expect_refused(std::size_t{1} << 50, "cannot allocate 1073741824.0 MiB");
  expect_refused(std::numeric_limits<std::size_t>::max(), "cannot allocate");
  expect_refused(std::numeric_limits<std::size_t>::max() / 2 + 1, "cannot allocate");
}

TEST(MemoryLimit, IsAtMostTheMachines) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::size_t kib = 0;
  file >> name >> kib;
  ASSERT_EQ(name, "MemTotal:");
  EXPECT_LE(memory_limit_bytes(), kib * 1024);
  EXPECT_GE(memory_limit_bytes(), 64 * kMiB);
}

// No bound from above or below can be known here, but a rate above 10 TB/s is a read that the
// compiler removed, and one below 100 MB/s a clock or a size that is wrong.
TEST(ReadBandwidth, IsOfTheMachinesOrder) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool({.threads = threads, .cpus = {}});
    for (const std::size_t bytes : {std::size_t{1}, 40 * kMiB}) {
      const double rate = measure_read_bandwidth(pool, bytes);
      EXPECT_GT(rate, 1e8);
      EXPECT_LT(rate, 1e13);
    }
  }
  ThreadPool pool({.threads = 2, .cpus = {}});
  const double rate = measure_read_bandwidth(pool);
  EXPECT_GT(rate, 1e8);
  EXPECT_LT(rate, 1e13);
}

}  // namespace
}  // namespace strata
