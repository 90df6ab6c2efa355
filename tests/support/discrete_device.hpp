// A device whose memory the CPU cannot touch, as a GPU's: a CpuDevice behind pages that are
// forbidden except during its own operations. Whoever reads or writes them from outside ends with
// SIGSEGV.
#pragma once

#include "strata/device/cpu_device.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace strata::testing {

class DiscreteDevice final : public device::Device {
 public:
  explicit DiscreteDevice(ThreadPool& pool, const device::CpuDeviceOptions& options = {})
      : inner_(pool, options) {}

  [[nodiscard]] std::string description() const override { return "discrete test device"; }
  [[nodiscard]] bool is_host_memory() const noexcept override { return false; }
  void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes) override {
    const Open open(*this);
    std::memcpy(to, from, bytes);
  }
  void copy_from_host(std::byte* to, const std::byte* from, std::size_t bytes) override {
    const Open open(*this);
    std::memcpy(to, from, bytes);
  }
  [[nodiscard]] std::unique_ptr<device::Copier> make_copier() override {
    class Locked final : public device::Copier {
     public:
      explicit Locked(DiscreteDevice& device) : device_(device) {}
      void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
        device_.copy_from_host(to, from, bytes);
      }

     private:
      DiscreteDevice& device_;
    };
    return std::make_unique<Locked>(*this);
  }
  [[nodiscard]] std::optional<std::size_t> free_bytes() const override { return free; }
  [[nodiscard]] std::unique_ptr<device::Memory> allocate(std::size_t bytes) override {
    return std::make_unique<Pages>(*this, bytes);
  }
  [[nodiscard]] std::unique_ptr<device::Memory> upload(Buffer&& host) override {
    const Buffer source = std::move(host);
    auto memory = std::make_unique<Pages>(*this, source.size());
    if (source.size() > 0) copy_from_host(memory->data(), source.data(), source.size());
    return memory;
  }
  void begin_window(std::span<const device::WindowRow> rows) override { inner_.begin_window(rows); }
  void embed(const device::Linear& table, device::Rows out) override {
    const Open open(*this);
    inner_.embed(table, out);
  }
  void rms_norm(device::Rows x, const float* weight, float eps, device::Rows out) override {
    const Open open(*this);
    inner_.rms_norm(x, weight, eps, out);
  }
  void linear(device::Rows x, std::span<const device::LinearOutput> outputs) override {
    const Open open(*this);
    inner_.linear(x, outputs);
  }
  void keep_rows(device::Rows x, std::span<const std::int32_t> kept) override {
    const Open open(*this);
    inner_.keep_rows(x, kept);
  }
  void rope(device::Rows x, int head_dim, const device::Rope& rope) override {
    const Open open(*this);
    inner_.rope(x, head_dim, rope);
  }
  void kv_append(device::Rows k, device::Rows v, int layer,
                 const device::AttentionShape& shape) override {
    const Open open(*this);
    inner_.kv_append(k, v, layer, shape);
  }
  void attention(device::Rows q, int layer, const device::AttentionShape& shape,
                 device::Rows out) override {
    const Open open(*this);
    inner_.attention(q, layer, shape, out);
  }
  void route(device::Rows logits, const device::RouterShape& shape, std::int32_t* ids,
             float* weights) override {
    const Open open(*this);
    inner_.route(logits, shape, ids, weights);
  }
  void experts(device::Rows x, const quant::ExpertLayout& layout,
               std::span<const device::ExpertWork> work, device::Rows parts) override {
    const Open open(*this);
    inner_.experts(x, layout, work, parts);
  }
  void combine(device::Rows parts, const float* weights, int ranks, device::Rows x) override {
    const Open open(*this);
    inner_.combine(parts, weights, ranks, x);
  }

  std::optional<std::size_t> free;  // what free_bytes() says

 private:
  class Pages final : public device::Memory {
   public:
    Pages(DiscreteDevice& device, std::size_t bytes) : device_(device) {
      size_ = bytes;
      mapped_ = std::max<std::size_t>((bytes + 4095) / 4096 * 4096, 4096);
      void* const map =
          ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (map == MAP_FAILED) throw std::runtime_error("mmap failed");
      data_ = static_cast<std::byte*>(map);
      device_.pages_.push_back(this);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages() override {
      std::erase(device_.pages_, this);
      ::munmap(data_, mapped_);
    }
    void protect(int rights) const { ::mprotect(data_, mapped_, rights); }

   private:
    DiscreteDevice& device_;
    std::size_t mapped_;
  };
  // All pages are open while one of these lives; one at a time, so that copies beside the calls do
  // not close what they use.
  class Open {
   public:
    explicit Open(DiscreteDevice& device) : device_(device), lock_(device.mutex_) {
      for (const Pages* p : device_.pages_) p->protect(PROT_READ | PROT_WRITE);
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() {
      for (const Pages* p : device_.pages_) p->protect(PROT_NONE);
    }

   private:
    DiscreteDevice& device_;
    std::lock_guard<std::mutex> lock_;
  };

  std::mutex mutex_;
  device::CpuDevice inner_;
  std::vector<const Pages*> pages_;
};

}  // namespace strata::testing
