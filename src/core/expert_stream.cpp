#include "strata/core/expert_stream.hpp"

#include <algorithm>

namespace strata::core {

ExpertStream::ExpertStream(ExpertCache& cache, device::Device& accelerator, device::Copier& copier)
    : cache_(cache), accelerator_(accelerator), copier_(copier) {
  const auto most = static_cast<std::size_t>(cache.experts());
  waiting_.reserve(most);
  work_.reserve(most);
  staged_.reserve(most);
  on_way_.reserve(2);
  spare_.resize(2);
  for (Batch& batch : spare_) batch.experts.reserve(most);
}

bool ExpertStream::is_ahead(ExpertId id) const noexcept {
  if (id.layer != layer_) return false;
  return std::ranges::any_of(on_way_, [id](const Batch& batch) {
    return std::ranges::any_of(batch.experts, [id](const auto& e) { return e.first == id.expert; });
  });
}

// Slots are taken in turn: those of a batch are none of the batch before it, and the batch before
// that has been computed when the copies begin.
std::size_t ExpertStream::fill(int layer, std::span<const std::int32_t> experts) {
  const std::size_t count = std::min(experts.size(), static_cast<std::size_t>(room(layer)));
  if (count == 0) return 0;
  Batch batch = std::move(spare_.back());
  spare_.pop_back();
  batch.note = next_note_;
  batch.experts.clear();
  if (halves(layer) > 1) next_note_ = 1 - next_note_;
  copier_.wait_for_calls(batch.note);
  for (const std::int32_t expert : experts.first(count)) {
    const ExpertCache::Fill fill = cache_.stage({layer, expert});
    copier_.begin(fill.to, fill.from, fill.bytes);
    batch.experts.emplace_back(expert, fill.to);
  }
  copier_.note_copies(batch.note);
  on_way_.push_back(std::move(batch));
  return count;
}

void ExpertStream::begin(int layer, std::span<const device::ExpertWork> work) {
  if (layer != layer_) forget();
  work_.assign(work.begin(), work.end());
  waiting_.clear();
  for (const device::ExpertWork& w : work) {
    if (!is_ahead({layer, w.expert})) waiting_.push_back(w.expert);
  }
  layer_ = layer;
  while (on_way_.size() < halves(layer) && !waiting_.empty()) {
    waiting_.erase(waiting_.begin(),
                   waiting_.begin() + static_cast<std::ptrdiff_t>(fill(layer, waiting_)));
  }
}

void ExpertStream::compute(device::Rows x, const quant::ExpertLayout& layout, device::Rows parts) {
  while (!on_way_.empty()) {
    compute_batch(on_way_.front(), x, layout, parts);
    retire();
    if (waiting_.empty()) continue;
    waiting_.erase(waiting_.begin(),
                   waiting_.begin() + static_cast<std::ptrdiff_t>(fill(layer_, waiting_)));
  }
  layer_ = -1;
}

void ExpertStream::retire() {
  spare_.push_back(std::move(on_way_.front()));
  on_way_.erase(on_way_.begin());
}

void ExpertStream::compute_batch(const Batch& batch, device::Rows x,
                                 const quant::ExpertLayout& layout, device::Rows parts) {
  staged_.clear();
  for (const auto& [expert, blob] : batch.experts) {
    const auto work = std::ranges::find(work_, expert, &device::ExpertWork::expert);
    if (work != work_.end()) staged_.push_back({blob, work->tokens, work->rows, expert});
  }
  copier_.wait_for_copies(batch.note);
  if (!staged_.empty()) accelerator_.experts(x, layout, staged_, parts);
  copier_.note_calls(batch.note);
}

void ExpertStream::look_ahead(int layer, std::span<const std::uint64_t> uses) {
  forget();
  waiting_.clear();
  for (std::int32_t e = 0; e < cache_.experts(); ++e) {
    if (cache_.slot_of({layer, e}) == kNotResident) waiting_.push_back(e);
  }
  const auto count = std::min(waiting_.size(), static_cast<std::size_t>(room(layer)));
  std::ranges::partial_sort(
      waiting_, waiting_.begin() + static_cast<std::ptrdiff_t>(count), std::ranges::greater{},
      [uses](std::int32_t e) { return std::pair(uses[static_cast<std::size_t>(e)], -e); });
  layer_ = layer;
  fill(layer, std::span(waiting_).first(count));
  waiting_.clear();
}

void ExpertStream::forget() {
  while (!on_way_.empty()) {
    copier_.wait_for_copies(on_way_.front().note);
    retire();
  }
  waiting_.clear();
  layer_ = -1;
}

}  // namespace strata::core
