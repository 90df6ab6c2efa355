// measure_read_bandwidth of memory.hpp.
#include "strata/base/error.hpp"
#include "strata/base/memory.hpp"
#include "strata/base/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBlock = 2 * kMiB;
constexpr std::size_t kLeast = 512 * kMiB;
constexpr int kFewestPasses = 5;
constexpr int kMostPasses = 15;
constexpr double kSeconds = 0.25;

// The exclusive or of a block's 64-bit words: loads and little else. A vector as wide as a cache
// line becomes 4, 2 or 1 loads, as the calling function's instruction set has it.
[[gnu::always_inline]] inline std::uint64_t fold_block(const std::byte* block) {
  using Line = std::uint64_t __attribute__((vector_size(64)));
  const auto* lines = reinterpret_cast<const Line*>(block);
  Line sums[4] = {};
  for (std::size_t i = 0; i < kBlock / sizeof(Line); i += 4) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] ^= lines[i + j];
  }
  const Line sum = (sums[0] ^ sums[1]) ^ (sums[2] ^ sums[3]);
  std::uint64_t words = 0;
  for (int i = 0; i < 8; ++i) words ^= sum[i];
  return words;
}

using Fold = std::uint64_t (*)(const std::byte* block);
std::uint64_t fold_baseline(const std::byte* block) { return fold_block(block); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] std::uint64_t fold_avx2(const std::byte* block) {
  return fold_block(block);
}
[[gnu::target("avx512f")]] std::uint64_t fold_avx512(const std::byte* block) {
  return fold_block(block);
}
#endif

Fold choose_fold() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return fold_avx512;
  if (__builtin_cpu_supports("avx2")) return fold_avx2;
#endif
  return fold_baseline;
}

// A buffer cut into one contiguous part a worker. A worker goes through its own part first, which
// on a NUMA machine is the memory it touched itself, then helps with the others.
class Parts {
 public:
  Parts(std::size_t bytes, int workers)
      : workers_(static_cast<std::size_t>(workers)),
        blocks_(std::max<std::size_t>(bytes / kBlock / workers_, 1)),
        buffer_(workers_ * blocks_ * kBlock),
        next_(std::make_unique<Next[]>(workers_)) {}

  [[nodiscard]] std::size_t bytes() const { return buffer_.size(); }

  template <class Visit>  // visit(std::byte* block)
  void visit_all(ThreadPool& pool, const Visit& visit) {
    for (std::size_t part = 0; part < workers_; ++part) next_[part].block = 0;
    pool.parallel_for(workers_, [&](std::size_t, int worker) {
      for (std::size_t i = 0; i < workers_; ++i) {
        const std::size_t part = (static_cast<std::size_t>(worker) + i) % workers_;
        std::byte* const begin = buffer_.data() + part * blocks_ * kBlock;
        for (;;) {
          const std::size_t block = next_[part].block.fetch_add(1, std::memory_order_relaxed);
          if (block >= blocks_) break;
          visit(begin + block * kBlock);
        }
      }
    });
  }

 private:
  struct alignas(64) Next {
    std::atomic<std::size_t> block{0};
  };
  std::size_t workers_;
  std::size_t blocks_;  // a part
  Buffer buffer_;
  std::unique_ptr<Next[]> next_;
};

// The size of a cache as sysfs prints it, "32768K"; 0 when there is none.
std::size_t read_cache_size(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string text;
  file >> text;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const std::string_view unit(end);
  return unit == "K" ? value << 10 : unit == "M" ? value << 20 : value;
}

// All last-level caches of the machine together.
std::size_t last_level_cache_bytes() {
  namespace fs = std::filesystem;
  std::size_t total = 0;
  for (int cpu = 0;; ++cpu) {
    const fs::path caches = fmt::format("/sys/devices/system/cpu/cpu{}/cache", cpu);
    std::error_code ignored;
    if (!fs::exists(caches, ignored)) return total;
    fs::path last;
    for (int index = 0; fs::exists(caches / fmt::format("index{}", index), ignored); ++index) {
      last = caches / fmt::format("index{}", index);
    }
    // Counted at the first processor that shares it: "0-7,64-71" or "0".
    int first = -1;
    std::ifstream(last / "shared_cpu_list") >> first;
    if (first == cpu) total += read_cache_size(last / "size");
  }
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool, std::size_t bytes) {
  using Clock = std::chrono::steady_clock;
  if (bytes == 0) {
    bytes = std::min(std::max(kLeast, 8 * last_level_cache_bytes()), memory_limit_bytes() / 8);
  }
  Parts parts(bytes, pool.size());
  parts.visit_all(pool, [](std::byte* block) { std::memset(block, 1, kBlock); });

  const Fold fold = choose_fold();
  std::atomic<std::uint64_t> sum{0};
  std::vector<double> rates;
  double spent = 0;
  for (int pass = 0; pass < kMostPasses && (pass < kFewestPasses || spent < kSeconds); ++pass) {
    const Clock::time_point start = Clock::now();
    parts.visit_all(pool, [&](const std::byte* block) {
      sum.fetch_xor(fold(block), std::memory_order_relaxed);
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    rates.push_back(static_cast<double>(parts.bytes()) / seconds);
    spent += seconds;
  }
  // Each block folds to 0, its words being equal: what the loads returned is used, and checked.
  if (sum.load() != 0) fail(ErrorKind::kInternal, "memory read back other than it was written");
  std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
  return rates[rates.size() / 2];
}

}  // namespace strata
