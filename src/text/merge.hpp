// Byte-pair merging: of all adjacent pairs that can merge, the one of lowest rank, and of equals
// the leftmost, until none is left. Shared by byte-level BPE (ranks from the merges list) and
// SentencePiece (ranks from scores).
#pragma once

#include "src/text/token_index.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace strata::text {

struct Symbol {
  std::int32_t id;
  std::uint32_t begin, size;  // bytes of the text being merged
};

// Buffers of merge_symbols, kept between calls to save allocations.
struct MergeScratch {
  struct Candidate {
    std::uint32_t rank, left,
        size;  // size: of both symbols, to recognise an entry whose symbols have changed
    std::int32_t id;
  };
  std::vector<Symbol> symbols;  // in: the text, symbol by symbol; out: the result
  std::vector<Merge> pairs;
  std::vector<std::uint32_t> next, previous;
  std::vector<Candidate> heap;
};

// Quadratic, but with a small constant: the right one for words.
template <class Find>
void merge_few(MergeScratch& scratch, const Find& find) {
  auto& symbols = scratch.symbols;
  auto& pairs = scratch.pairs;
  pairs.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
    pairs.push_back(find(symbols[i], symbols[i + 1]));
  while (!pairs.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs.size(); ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNone) return;
    symbols[best].id = pairs[best].id;
    symbols[best].size += symbols[best + 1].size;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best < pairs.size()) pairs[best] = find(symbols[best], symbols[best + 1]);
  }
}

// O(n log n): a heap of candidate pairs over a linked list.
template <class Find>
void merge_many(MergeScratch& scratch, const Find& find) {
  using Candidate = MergeScratch::Candidate;
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  scratch.next.resize(count);
  scratch.previous.resize(count);
  heap.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    scratch.next[i] = i + 1;  // count: none
    scratch.previous[i] = i - 1;
  }
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
  };
  const auto consider = [&](std::uint32_t left) {
    const std::uint32_t right = scratch.next[left];
    if (right == count) return;
    const Merge merge = find(symbols[left], symbols[right]);
    if (merge.rank == Merge::kNone) return;
    heap.push_back({merge.rank, left, symbols[left].size + symbols[right].size, merge.id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  for (std::uint32_t i = 0; i < count; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[top.left];
    const std::uint32_t right = scratch.next[top.left];
    // Symbols only grow, so a pair that has changed since has another size. A symbol merged away
    // has size 0.
    if (left.size == 0 || right == count || left.size + symbols[right].size != top.size) continue;
    left.id = top.id;
    left.size = top.size;
    symbols[right].size = 0;
    const std::uint32_t after = scratch.next[right];
    scratch.next[top.left] = after;
    if (after != count) scratch.previous[after] = top.left;
    if (top.left != 0) consider(scratch.previous[top.left]);
    consider(top.left);
  }
  symbols.erase(
      std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return s.size == 0; }),
      symbols.end());
}

// Merges scratch.symbols in place. find(left, right) is the Merge of two adjacent symbols.
template <class Find>
void merge_symbols(MergeScratch& scratch, const Find& find) {
  constexpr std::size_t kFew = 48;
  if (scratch.symbols.size() <= kFew) {
    merge_few(scratch, find);
  } else {
    merge_many(scratch, find);
  }
}

}  // namespace strata::text
