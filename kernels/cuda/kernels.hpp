// The CUDA kernels as functions: each puts its work on a stream and returns. All pointers are the
// device's (or pinned memory's) unless said otherwise; the structs are copied. Errors: launch() in
// simt.cuh. The arithmetic is that of the generic CPU kernels, bit for bit (docs/exactness.md).
#pragma once

#include "kernels/cuda/runtime.hpp"
#include "strata/gguf/types.hpp"

#include <cstddef>
#include <cstdint>

namespace strata::cuda {

// ---- whether kernels run at all (trial.cu) ----

inline constexpr std::int32_t kTrialAnswer = 42;
void trial(Stream stream, std::int32_t* answer);

// ---- dot products (dot.cu) ----

// A packed matrix that takes part in a launch, and where its products go.
struct DotTarget {
  const std::byte* weights = nullptr;  // without jobs
  std::size_t offset = 0;              // with jobs: from a job's blob
  std::int64_t groups = 0;             // of 16 rows
  float* out = nullptr;                // [column's out row][out_width]
  std::int64_t out_width = 0;
  bool accumulate = false;  // out += instead of out =
};

// Up to 8 neighbouring columns of a launch that meet the same blob.
struct DotJob {
  const std::byte* blob;
  std::int32_t first;
  std::int32_t count;
};

inline constexpr int kMaxTargets = 4;
inline constexpr int kMaxDotTokens = 8;

// Columns are rows of activations: with quantised weights panels of one token, with float weights
// (F32, F16, BF16) plain floats. All targets have the same type and columns.
struct DotArgs {
  DotTarget targets[kMaxTargets];
  int target_count = 0;
  std::size_t group_bytes = 0;
  std::int64_t cols = 0;
  const std::byte* x = nullptr;
  std::size_t x_row_bytes = 0;
  const std::int32_t* x_rows = nullptr;    // column -> row of x; null: itself
  const std::int32_t* out_rows = nullptr;  // column -> row of out; null: itself
  const DotJob* job = nullptr;             // null: every column meets target.weights
  std::int32_t jobs = 0;                   // with `job`
  // With `job`, where the number of jobs is known on the device only: `jobs` is then the most there
  // can be, which the grid is made for. Null: exactly `jobs`.
  const std::int32_t* job_count = nullptr;
  std::int32_t columns = 0;  // without
  int tile = kMaxDotTokens;  // with `job`: no count is larger
};
void dot(Stream stream, gguf::Type type, DotArgs args);

// The same bits on tensor cores (dot_tile.cu; compute capability 8.0 and newer), for quantised
// weights and many columns: a job has up to kTileTokens of them.
inline constexpr int kTileTokens = 64;
void dot_tiles(Stream stream, gguf::Type type, const DotArgs& args);

// ---- quantising (quantize.cu) ----

// `blocks` blocks of 32 floats into panels of one token. Rows may follow one another.
void quantize(Stream stream, const float* x, std::int64_t blocks, std::byte* panels);
// silu(gate) * up of `blocks` blocks of 32, quantised, or as floats.
void swiglu_quantize(Stream stream, const float* gate, const float* up, std::int64_t blocks,
                     std::byte* panels);
void swiglu(Stream stream, const float* gate, const float* up, std::int64_t blocks, float* hidden);

// ---- rows (rows.cu) ----

struct EmbedArgs {
  const std::byte* table = nullptr;
  std::size_t group_bytes = 0;
  std::int64_t cols = 0;
  const std::int32_t* tokens = nullptr;
  int count = 0;
  float* out = nullptr;  // [count][out_width]
  std::int64_t out_width = 0;
};
void embed(Stream stream, gguf::Type type, const EmbedArgs& args);

// Rows of `width` floats, a multiple of 4. y may be x.
void rms_norm(Stream stream, const float* x, const float* weight, std::int64_t width, int rows,
              float eps, float* y);

// RMSNorm and quantize() after it, the same bits.
struct NormArgs {
  const float* x = nullptr;  // [rows][width], a multiple of 4; with panels of 32
  std::int64_t width = 0;
  int rows = 0;
  const float* weight = nullptr;
  float eps = 0;
  float* y = nullptr;           // may be x
  std::byte* panels = nullptr;  // of one token, [rows]; null: not wanted
};
void rms_norm(Stream stream, const NormArgs& args);

// Row i becomes what row kept[i] was, for `count` rows; kept rises.
void keep_rows(Stream stream, float* x, std::int64_t width, const std::int32_t* kept, int count);

// x[t] += sum over ranks of weights[t][rank] * parts[t * ranks + rank].
void combine(Stream stream, const float* parts, const float* weights, int ranks, std::int64_t width,
             int rows, float* x);

// ---- heads (heads.cu) ----

// The type of a KV cache's cells: device::KvType.
enum class Cells : std::int32_t { kF32, kF16, kQ8 };

// A row of the window: its sequence's cache at layer 0, and its position there. The layout of
// cells: device::KvLayer.
struct Place {
  std::byte* keys;
  std::byte* values;
  std::uint64_t layer_bytes;  // from the keys of a layer to those of the next, and so with values
  Cells cells;
  std::int32_t capacity;
  std::int32_t position;
  std::int32_t padding;
};

struct RopeArgs {
  float* x = nullptr;  // [rows][heads * head_dim], in place
  const Place* places = nullptr;
  int rows = 0;
  int heads = 0;
  int head_dim = 0;
  const float* table = nullptr;  // device::Rope
  int n_rot = 0;
  bool neox = false;
};
void rope(Stream stream, const RopeArgs& args);

// k, v: [rows][kv_heads * head_dim].
void kv_append(Stream stream, const float* k, const float* v, const Place* places, int layer,
               int rows, int kv_heads, int head_dim);

// All of the above in one launch: heads are normed, unless their norm is null, and turned; keys
// then go to the cache with their values. q is changed in place, k is not.
struct HeadsArgs {
  float* q = nullptr;        // [rows][heads * head_dim]
  const float* k = nullptr;  // [rows][kv_heads * head_dim]
  const float* v = nullptr;  // as k
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float eps = 0;
  const Place* places = nullptr;
  int layer = 0;
  int rows = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;              // at most 512
  const float* table = nullptr;  // device::Rope
  int n_rot = 0;                 // 0: heads are not turned
  bool neox = false;
};
void heads(Stream stream, const HeadsArgs& args);

// ---- routing (router.cu) ----

inline constexpr int kMaxExperts = 2048;

struct RouteArgs {
  const float* logits = nullptr;  // [rows][width]
  std::int64_t width = 0;
  int rows = 0;
  int experts = 0;  // at most kMaxExperts
  int used = 0;
  bool renormalize = false;
  std::int32_t* ids = nullptr;  // [rows][used]
  float* weights = nullptr;
};
void route(Stream stream, const RouteArgs& args);

// ---- recorded windows: which experts the device holds, and the hand-over (handover.cu) ----

inline constexpr int kMaxChoices = 256;  // rows x experts a row: device::kProgramChoices

// Which hand-over it is: windows are numbered by the device, layers by the model.
struct HandoverStep {
  const std::uint64_t* window = nullptr;
  int layer = 0;
  int layers = 0;
};

// What the device tells the host, in memory that both see.
struct HandoverPost {
  std::uint64_t* step = nullptr;  // written last
  std::int32_t* ids = nullptr;    // [rows][used]
  float* weights = nullptr;       // [rows][used]
  float* x = nullptr;             // [rows][width]; only when the device lacks an expert
};

// Cuts a window's choice into jobs for the experts that the device holds, and posts the choice.
struct DispatchArgs {
  const std::int32_t* ids = nullptr;  // [rows][used], those of a row distinct
  const float* weights = nullptr;     // [rows][used]
  int rows = 0;
  int used = 0;
  const std::byte* const* blobs = nullptr;  // [experts]; null: the host computes it
  const float* x = nullptr;                 // [rows][width]
  std::int64_t width = 0;
  HandoverStep step;
  HandoverPost post;
  DotJob* jobs = nullptr;  // out: room for rows * used
  std::int32_t* job_count = nullptr;
  std::int32_t* x_rows = nullptr;    // by column of the jobs
  std::int32_t* out_rows = nullptr;  // by column of the jobs
  std::int32_t* held = nullptr;      // [rows][used], 1 or 0
};
void dispatch(Stream stream, const DispatchArgs& args);

// combine(), where the rows of experts that are not held come from the host, once it has replied.
struct CombineHeldArgs {
  const float* parts = nullptr;       // [rows * ranks][width]
  const float* host_parts = nullptr;  // the same, in the host's memory
  const std::int32_t* held = nullptr;
  const float* weights = nullptr;
  int ranks = 0;
  std::int64_t width = 0;
  int rows = 0;
  float* x = nullptr;
  HandoverStep step;
  const std::uint64_t* replied = nullptr;  // the host's: the last step it has answered
  // In the host's memory: a step that was waited for in vain, some half a minute; the sums are
  // worthless then. Nothing on a GPU may wait for ever.
  std::uint64_t* gave_up = nullptr;
};
void combine_held(Stream stream, const CombineHeldArgs& args);

// ---- attention (attention.cu) ----

inline constexpr int kAttentionQueries = 8;  // a block takes
inline constexpr int kAttentionSpan = 256;   // positions of a chunk: the CPU's kAttentionChunk

// Queries that a block of the kernel for prompts takes, and the largest heads it is for.
inline constexpr int kWideHeadDim = 256;
[[nodiscard]] constexpr int wide_attention_queries(int head_dim) noexcept {
  return head_dim <= 128 ? 64 : 32;
}

// Neighbouring rows of one sequence: at least 1, at most kAttentionQueries (wide tiles:
// wide_attention_queries(head_dim)) / heads per KV head.
struct QueryRows {
  std::int32_t first;
  std::int32_t count;
};

struct AttentionArgs {
  const float* q = nullptr;  // [rows][heads * head_dim]
  const Place* places = nullptr;
  int layer = 0;
  const QueryRows* tiles = nullptr;
  int tile_count = 0;
  bool wide = false;  // tiles are cut for the kernel for prompts
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float scale = 0;
  float* out = nullptr;  // [rows][heads * head_dim]
  // Split: each chunk of positions by a block of its own, then joined. partials: room for
  // rows * chunks * heads * (head_dim + 2) floats.
  int chunks = 0;  // of the longest row, or more; 0: no split, a block walks its rows' chunks
  int rows = 0;
  float* partials = nullptr;
};
void attention(Stream stream, const AttentionArgs& args);
void attention_prompt(Stream stream, const AttentionArgs& args);  // attention() of wide tiles

}  // namespace strata::cuda
