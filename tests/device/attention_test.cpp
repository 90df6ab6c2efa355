// CpuDevice::kv_append and attention: against softmax attention in double precision, and the same
// bits for every device, window and way of cutting the work.
#include "strata/base/half.hpp"
#include "tests/device/device_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace strata::device::test {
namespace {

// One sequence: its keys and values in a cache whose unwritten cells are NaN, and as they were.
class Sequence {
 public:
  Sequence(const AttentionShape& shape, KvType type, int positions, int capacity, unsigned seed)
      : shape_(shape),
        k_(random_rows(positions, static_cast<std::int64_t>(shape.kv_heads) * shape.head_dim,
                       seed)),
        v_(random_rows(positions, k_.width(), seed + 1)),
        cells_(2 * size_of(shape.kv_heads) * size_of(capacity) * kv_row_bytes(type, shape.head_dim),
               std::byte{0xff}),
        cache_{cells_.data(), cells_.size() / 2, type, capacity},
        held_k_(as_held(k_)),
        held_v_(as_held(v_)) {}
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // Appends positions [first, first + count) in one window.
  void append(CpuDevice& device, int first, int count) {
    OwnRows k = k_.slice(first, count);
    OwnRows v = v_.slice(first, count);
    std::vector<WindowRow> rows;
    for (int i = 0; i < count; ++i) rows.push_back(row(first + i));
    device.begin_window(rows);
    device.kv_append(k.rows(), v.rows(), 0, shape_);
  }
  [[nodiscard]] WindowRow row(int position) const { return {0, position, cache_}; }
  [[nodiscard]] KvLayer cache() const { return cache_.layer(0); }
  [[nodiscard]] int positions() const { return k_.count(); }
  // What the cache should hold.
  [[nodiscard]] float key(int head, int position, int d) const {
    return held_k_.row(position)[size_of(head * shape_.head_dim + d)];
  }
  [[nodiscard]] float value(int head, int position, int d) const {
    return held_v_.row(position)[size_of(head * shape_.head_dim + d)];
  }

 private:
  // The rows as cells of the cache's type keep them.
  [[nodiscard]] OwnRows as_held(const OwnRows& rows) const {
    std::vector<float> all;
    for (int position = 0; position < rows.count(); ++position) {
      const auto row = rows.row(position);
      for (std::int64_t head = 0; head < rows.width(); head += shape_.head_dim) {
        for (int d = 0; d < shape_.head_dim; d += kKvBlock) {
          const int count = std::min(kKvBlock, shape_.head_dim - d);
          hold(row.subspan(static_cast<std::size_t>(head + d), size_of(count)), all);
        }
      }
    }
    return {std::move(all), rows.width()};
  }
  // One block of a head's row.
  void hold(std::span<const float> block, std::vector<float>& out) const {
    float top = 0;
    for (const float exact : block) top = std::max(top, std::abs(exact));
    const float scale = half_to_float(float_to_half(top / 127.0F));
    for (const float exact : block) {
      if (cache_.type == KvType::kF32) {
        out.push_back(exact);
      } else if (cache_.type == KvType::kF16) {
        out.push_back(half_to_float(float_to_half(exact)));
      } else {
        out.push_back(std::clamp(std::nearbyint(exact * (1.0F / scale)), -127.0F, 127.0F) * scale);
      }
    }
  }

  AttentionShape shape_;
  OwnRows k_, v_;
  std::vector<std::byte> cells_;
  KvCache cache_;
  OwnRows held_k_, held_v_;
};

std::string cell_name(KvType type) {
  return type == KvType::kF16 ? "f16" : type == KvType::kF32 ? "f32" : "q8";
}

AttentionShape make_shape(int kv_heads, int heads_per_kv, int head_dim) {
  return {kv_heads * heads_per_kv, kv_heads, head_dim,
          1.0f / std::sqrt(static_cast<float>(head_dim))};
}

// A row of a window: a sequence and the position in it.
struct Query {
  const Sequence* sequence;
  int position;
};

// Rows of q and where they stand.
struct Window {
  AttentionShape shape;
  std::vector<Query> queries;
  OwnRows q;

  Window(const AttentionShape& s, std::vector<Query> rows, unsigned seed)
      : shape(s),
        queries(std::move(rows)),
        q(random_rows(static_cast<int>(queries.size()),
                      static_cast<std::int64_t>(s.heads) * s.head_dim, seed, 2.0f)) {}

  // Rows [first, first + count) in one call.
  [[nodiscard]] OwnRows run(CpuDevice& device, int first, int count) const {
    std::vector<WindowRow> rows;
    for (int i = first; i < first + count; ++i) {
      const Query& query = queries[size_of(i)];
      rows.push_back(query.sequence->row(query.position));
    }
    device.begin_window(rows);
    OwnRows part = q.slice(first, count);
    OwnRows out(count, q.width());
    device.attention(part.rows(), 0, shape, out.rows());
    return out;
  }
  [[nodiscard]] OwnRows run(CpuDevice& device) const { return run(device, 0, q.count()); }
  [[nodiscard]] OwnRows run_alone(CpuDevice& device) const {
    std::vector<float> all;
    for (int i = 0; i < q.count(); ++i) {
      OwnRows one = run(device, i, 1);
      all.insert(all.end(), one.data().begin(), one.data().end());
    }
    return {std::move(all), q.width()};
  }
};

// softmax(q k / sqrt(d)) v of one row and head, by the book.
std::vector<double> naive_attention(const Window& w, int row, int head) {
  const Query& query = w.queries[size_of(row)];
  const int dim = w.shape.head_dim;
  const int kv = head / (w.shape.heads / w.shape.kv_heads);
  const float* q = w.q.row(row).data() + head * dim;
  std::vector<double> score(size_of(query.position + 1));
  double top = -1e300;
  for (int p = 0; p <= query.position; ++p) {
    double s = 0;
    for (int d = 0; d < dim; ++d) s += static_cast<double>(q[d]) * query.sequence->key(kv, p, d);
    score[size_of(p)] = s * w.shape.scale;
    top = std::max(top, score[size_of(p)]);
  }
  double sum = 0;
  std::vector<double> out(size_of(dim));
  for (int p = 0; p <= query.position; ++p) {
    const double e = std::exp(score[size_of(p)] - top);
    sum += e;
    for (int d = 0; d < dim; ++d) out[size_of(d)] += e * query.sequence->value(kv, p, d);
  }
  for (double& o : out) o /= sum;
  return out;
}

void expect_near_the_book(const Window& w, const OwnRows& out) {
  for (int row = 0; row < w.q.count(); ++row) {
    for (int head = 0; head < w.shape.heads; ++head) {
      const std::vector<double> expected = naive_attention(w, row, head);
      for (int d = 0; d < w.shape.head_dim; ++d) {
        ASSERT_NEAR(out.row(row)[size_of(head * w.shape.head_dim + d)], expected[size_of(d)], 2e-5)
            << "position " << w.queries[size_of(row)].position << " head " << head << " dim " << d;
      }
    }
  }
}

// Whole and cut in windows of `step`, on every device: the bits of `alone`.
void expect_everywhere(const Window& w, const OwnRows& alone, std::span<const int> steps) {
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    for (const int step : steps) {
      for (int first = 0; first < w.q.count(); first += step) {
        const int count = std::min(step, w.q.count() - first);
        const OwnRows out = w.run(device, first, count);
        for (int i = 0; i < count; ++i) {
          ASSERT_TRUE(same_bits(alone.row(first + i), out.row(i)))
              << "row " << first + i << " in a window of " << count;
        }
      }
    }
  });
}

std::vector<Query> positions_of(const Sequence& s, const std::vector<int>& positions) {
  std::vector<Query> queries;
  for (const int p : positions) queries.push_back({&s, p});
  return queries;
}

struct Heads {
  int kv_heads;
  int heads_per_kv;
  int head_dim;
  KvType type;
};

class AttentionTest : public ::testing::TestWithParam<Heads> {
 protected:
  AttentionTest()
      : shape_(make_shape(GetParam().kv_heads, GetParam().heads_per_kv, GetParam().head_dim)),
        sequence_(shape_, GetParam().type, 1101, 1120, 7) {
    Reference reference;
    sequence_.append(reference.device, 0, sequence_.positions());
  }
  AttentionShape shape_;
  Sequence sequence_;
};

// Few rows over a long past: with one thread the rows are the tasks, with more the chunks are.
TEST_P(AttentionTest, RowsAtTheSeamsOfChunks) {
  const Window w(shape_, positions_of(sequence_, {0, 15, 16, 255, 256, 257, 511, 600, 1023, 1100}),
                 3);
  Reference reference;
  const OwnRows alone = w.run_alone(reference.device);
  expect_near_the_book(w, alone);
  expect_everywhere(w, alone, std::vector<int>{1, 2, 3, 5, 10});
}

// A prompt's window: neighbours share a call, whose rows see the chunk to different lengths or not
// at all.
TEST_P(AttentionTest, ARunOfRowsAcrossAChunkSeam) {
  std::vector<int> positions;
  for (int p = 240; p < 276; ++p) positions.push_back(p);
  const Window w(shape_, positions_of(sequence_, positions), 4);
  Reference reference;
  const OwnRows alone = w.run_alone(reference.device);
  expect_near_the_book(w, alone);
  expect_everywhere(w, alone, std::vector<int>{36, 17, 7});
}

TEST_P(AttentionTest, TheFirstPositionReturnsItsValue) {
  const Window w(shape_, positions_of(sequence_, {0}), 5);
  Reference reference;
  const OwnRows out = w.run(reference.device);
  for (int head = 0; head < shape_.heads; ++head) {
    for (int d = 0; d < shape_.head_dim; ++d) {
      EXPECT_EQ(out.row(0)[size_of(head * shape_.head_dim + d)],
                sequence_.value(head / GetParam().heads_per_kv, 0, d));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Heads, AttentionTest,
    ::testing::Values(Heads{2, 1, 64, KvType::kF16}, Heads{1, 2, 128, KvType::kF32},
                      Heads{2, 8, 80, KvType::kF16}, Heads{1, 24, 64, KvType::kF16},
                      Heads{1, 3, 16, KvType::kF32}, Heads{1, 40, 16, KvType::kF32},
                      Heads{1, 1, 512, KvType::kF16}, Heads{2, 8, 80, KvType::kQ8_0},
                      Heads{1, 2, 128, KvType::kQ8_0}, Heads{1, 3, 16, KvType::kQ8_0}),
    [](const auto& info) {
      return std::to_string(info.param.heads_per_kv) + "to1of" +
             std::to_string(info.param.head_dim) + cell_name(info.param.type);
    });

// Different lengths, capacities and cell types side by side; the same position in several.
TEST(AttentionWindowTest, SequencesDoNotMix) {
  const AttentionShape shape = make_shape(2, 4, 32);
  Sequence a(shape, KvType::kF16, 700, 704, 1);
  Sequence b(shape, KvType::kF32, 20, 32, 3);
  Sequence c(shape, KvType::kQ8_0, 300, 512, 5);
  Reference reference;
  for (Sequence* s : {&a, &b, &c}) s->append(reference.device, 0, s->positions());
  std::vector<Query> queries;
  for (const int p : {17, 255, 256, 257, 258, 699}) queries.push_back({&a, p});
  for (const int p : {0, 1, 2, 3, 4, 5, 17, 19}) queries.push_back({&b, p});
  queries.push_back({&c, 299});
  const Window w(shape, queries, 6);
  const OwnRows alone = w.run_alone(reference.device);
  expect_near_the_book(w, alone);
  expect_everywhere(w, alone, std::vector<int>{15, 4, 1});
}

// Scores so far apart that all but one weight vanish, in chunks before and after the largest.
TEST(AttentionWindowTest, OneScoreCanOutweighAllOthers) {
  const AttentionShape shape{1, 1, 16, 60.0f};
  Sequence s(shape, KvType::kF32, 600, 608, 9);
  Reference reference;
  s.append(reference.device, 0, 600);
  const Window w(shape, positions_of(s, {100, 300, 599}), 7);
  const OwnRows alone = w.run_alone(reference.device);
  expect_near_the_book(w, alone);
  expect_everywhere(w, alone, std::vector<int>{3, 1});
}

TEST(AttentionWindowTest, AUniformPastGivesTheMean) {
  const AttentionShape shape{2, 1, 16, 0.25f};
  Sequence s(shape, KvType::kF32, 520, 528, 11);
  Reference reference;
  s.append(reference.device, 0, 520);
  Window w(shape, positions_of(s, {519}), 8);
  std::ranges::fill(w.q.data(), 0.0f);
  expect_near_the_book(w, w.run(reference.device));
}

class KvAppendTest : public ::testing::TestWithParam<KvType> {};

// The layout of device.hpp, cell by cell, and nothing else written.
TEST_P(KvAppendTest, WritesTheDocumentedLayout) {
  constexpr int kCapacity = 48;
  const AttentionShape shape = make_shape(3, 1, 32);
  on_every_device(Activations::kInt8, [&](CpuDevice& device) {
    Sequence s(shape, GetParam(), 41, kCapacity, 2);
    s.append(device, 0, 7);  // windows of several sizes
    s.append(device, 7, 1);
    s.append(device, 8, 33);
    const auto half = [](const std::byte* base, std::int64_t index) {
      return half_to_float(reinterpret_cast<const std::uint16_t*>(base)[index]);
    };
    const auto cell = [&](const std::byte* base, std::int64_t index) {
      if (GetParam() == KvType::kF32) return reinterpret_cast<const float*>(base)[index];
      return half(base, index);
    };
    const auto code = [](const std::byte* base, std::int64_t index) {
      return static_cast<float>(reinterpret_cast<const std::int8_t*>(base)[index]);
    };
    constexpr std::int64_t kRow = 32 + 2;  // with kQ8_0, of a head of one block
    for (int h = 0; h < shape.kv_heads; ++h) {
      for (int p = 0; p < kCapacity; ++p) {
        for (int d = 0; d < shape.head_dim; ++d) {
          float key = 0;
          float value = 0;
          if (GetParam() == KvType::kQ8_0) {
            const std::byte* group = s.cache().keys + (h * kCapacity + p / 16 * 16) * kRow;
            const std::byte* row = s.cache().values + (h * kCapacity + p) * kRow;
            key = code(group + 32, d * 16 + p % 16) * half(group, p % 16);
            value = code(row + 2, d) * half(row, 0);
          } else {
            key = cell(s.cache().keys, ((h * (kCapacity / 16) + p / 16) * 32 + d) * 16 + p % 16);
            value = cell(s.cache().values, (h * kCapacity + p) * 32 + d);
          }
          if (p < 41) {
            ASSERT_EQ(key, s.key(h, p, d)) << h << ' ' << p << ' ' << d;
            ASSERT_EQ(value, s.value(h, p, d)) << h << ' ' << p << ' ' << d;
          } else {
            ASSERT_TRUE(std::isnan(key) && std::isnan(value)) << "written past the window";
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, KvAppendTest,
                         ::testing::Values(KvType::kF16, KvType::kF32, KvType::kQ8_0),
                         [](const auto& info) { return cell_name(info.param); });

}  // namespace
}  // namespace strata::device::test
