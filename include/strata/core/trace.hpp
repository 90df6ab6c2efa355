// Routing traces: which experts the router chose, token by token and layer by layer. Written by
// --dump-routing, read by `strata profile` and `strata simulate`.
//
// Format (that of the reference engine's --dump-routing), little-endian, one record a token and MoE
// layer, nothing before, between or after:
//   i32 layer, i32 k, k x i32 expert, k x f32 weight
// in rank order, the router's first choice first. Tools that do not know the weights write zeros.
// The file has no marks between tokens: a token ends where the layer number does not rise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace strata::core {

// Larger numbers are refused as damage: STRP profiles count layers and experts in 16 bits.
inline constexpr std::int32_t kMaxTraceLayers = 65536;
inline constexpr std::int32_t kMaxTraceExperts = 65536;
inline constexpr std::int32_t kMaxTraceUsed = 1024;

// One token in one MoE layer. The spans live until the next call of whoever gave the event.
struct RoutingEvent {
  std::int64_t token = 0;  // counted from 0 in file order
  std::int32_t layer = 0;
  std::span<const std::int32_t> experts;  // [k], all different
  std::span<const float> weights;         // [k], finite
};

// Reads a trace record by record, in constant memory.
class TraceReader {
 public:
  // Error(kIo) when the file cannot be opened, Error(kInput) for a directory.
  explicit TraceReader(const std::filesystem::path& path);

  // The next event, or false at the end. Error(kInput) with the record's offset when it is cut off
  // or holds what no router gives: k outside 1..kMaxTraceUsed, a negative or huge layer or expert,
  // an expert twice, a weight that is not finite.
  [[nodiscard]] bool next(RoutingEvent& event);

  // Bytes of the file read so far: where the next record starts.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  // Reads exactly `bytes`, or nothing at the end of the file when `may_end`.
  [[nodiscard]] bool read(void* to, std::size_t bytes, bool may_end);
  void check(const RoutingEvent& event);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t offset_ = 0;  // of the record being read, then of the next
  std::uint64_t within_ = 0;  // bytes of that record read so far
  std::int64_t token_ = -1;
  std::int32_t previous_layer_ = kMaxTraceLayers;
  std::vector<std::int32_t> experts_;
  std::vector<float> weights_;
  std::vector<std::int64_t> seen_;  // [experts] number of the record that last held it
  std::int64_t record_ = 0;
};

// Writes a trace under a temporary name beside `path`, which close() renames to it: `path` never
// holds a part of a trace. Without close() nothing is left behind.
class TraceWriter {
 public:
  // Error(kIo) when no file can be made there.
  explicit TraceWriter(std::filesystem::path path);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // One record. The spans have the same length, 1..kMaxTraceUsed.
  // Error(kResource) when the disk is full, Error(kIo) otherwise.
  void append(std::int32_t layer, std::span<const std::int32_t> experts,
              std::span<const float> weights);

  // A window goes through the engine layer by layer, a trace is token by token: add_layer() keeps
  // a layer's choices, ids and weights being [tokens][used], and end_window() writes them in the
  // trace's order. Every layer of a window has the same number of tokens.
  void add_layer(std::int32_t layer, std::int32_t used, std::span<const std::int32_t> experts,
                 std::span<const float> weights);
  void end_window();

  // Flushes to the disk and renames. Error as append(); then `path` is as it was before.
  void close();

 private:
  struct WindowLayer {
    std::int32_t layer;
    std::int32_t used;
    std::size_t begin;  // in window_experts_ and window_weights_
  };

  void flush();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
  std::vector<WindowLayer> window_;
  std::size_t window_tokens_ = 0;
  std::vector<std::int32_t> window_experts_;
  std::vector<float> window_weights_;
};

// A whole trace in memory, for what must look at it more than once or from its end.
class Trace {
 public:
  // Error as TraceReader; Error(kInput) for a file without a record.
  [[nodiscard]] static Trace load(const std::filesystem::path& path);

  // Adds an event; its token is the one given, which may not fall.
  void add(const RoutingEvent& event);

  [[nodiscard]] std::size_t size() const noexcept { return layer_.size(); }
  [[nodiscard]] RoutingEvent operator[](std::size_t i) const noexcept;

  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int32_t layers() const noexcept { return layers_; }    // highest layer + 1
  [[nodiscard]] std::int32_t experts() const noexcept { return experts_; }  // highest expert + 1
  [[nodiscard]] std::int64_t picks() const noexcept {
    return static_cast<std::int64_t>(ids_.size());
  }

  // Part of the trace: tokens first..last-1, renumbered from 0, and only the layers for which
  // `layers` is true (all when it is empty). Layer numbers stay.
  [[nodiscard]] Trace slice(std::int64_t first, std::int64_t last,
                            const std::vector<bool>& layers = {}) const;

  // [layers()][experts] how often each expert was chosen; `experts` >= experts().
  [[nodiscard]] std::vector<double> counts(std::int32_t experts) const;

 private:
  std::vector<std::int32_t> layer_;  // [events]
  std::vector<std::int64_t> token_;  // [events]
  std::vector<std::size_t> begin_;   // [events] into ids_ and weights_; the next one's is the end
  std::vector<std::int32_t> ids_;
  std::vector<float> weights_;
  std::int64_t tokens_ = 0;
  std::int32_t layers_ = 0;
  std::int32_t experts_ = 0;
};

}  // namespace strata::core
