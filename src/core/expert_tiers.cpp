#include "strata/core/expert_tiers.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/core/copy_engine.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <tuple>

namespace strata::core {

TierCounts& TierCounts::operator+=(const TierCounts& other) noexcept {
  hit_rows += other.hit_rows;
  miss_rows += other.miss_rows;
  fetch_rows += other.fetch_rows;
  hit_experts += other.hit_experts;
  miss_experts += other.miss_experts;
  fetch_experts += other.fetch_experts;
  hit_bytes += other.hit_bytes;
  miss_bytes += other.miss_bytes;
  fetch_bytes += other.fetch_bytes;
  hit_seconds += other.hit_seconds;
  miss_seconds += other.miss_seconds;
  fetch_seconds += other.fetch_seconds;
  return *this;
}

TierCounts TierCounts::operator-(const TierCounts& earlier) const noexcept {
  return {hit_rows - earlier.hit_rows,         miss_rows - earlier.miss_rows,
          fetch_rows - earlier.fetch_rows,     hit_experts - earlier.hit_experts,
          miss_experts - earlier.miss_experts, fetch_experts - earlier.fetch_experts,
          hit_bytes - earlier.hit_bytes,       miss_bytes - earlier.miss_bytes,
          fetch_bytes - earlier.fetch_bytes,   hit_seconds - earlier.hit_seconds,
          miss_seconds - earlier.miss_seconds, fetch_seconds - earlier.fetch_seconds};
}

TierCounts ExpertTiers::total() const noexcept {
  TierCounts sum;
  for (const TierCounts& layer : counts_) sum += layer;
  return sum;
}

namespace {

std::size_t rows_of(std::span<const device::ExpertWork> work) {
  std::size_t rows = 0;
  for (const device::ExpertWork& w : work) rows += w.rows.size();
  return rows;
}

}  // namespace

struct ExpertTiers::Fetcher {
  FetchChooser chooser;
  std::unique_ptr<device::Copier> copier;
  double link_bytes_per_second;  // of a link that is made slower; 0: as it is
  FetchRequest request;
  std::unique_ptr<ExpertStream> stream;    // where copies run beside the accelerator's calls
  std::vector<device::ExpertWork> order;   // the layer's misses, those with most tokens first
  std::vector<device::ExpertWork> staged;  // scratch

  // The first of `order`, which are fetched; the pool gets the rest.
  std::span<const device::ExpertWork> choose(int layer, const DispatchPlan& plan, std::size_t bytes,
                                             int slots) {
    order.assign(plan.misses.begin(), plan.misses.end());
    int rows = 0;
    for (const device::ExpertWork& w : order) rows += static_cast<int>(w.rows.size());
    if (slots == 0) return {};
    const auto ahead = [&](const device::ExpertWork& w) {
      return stream && stream->is_ahead({layer, w.expert}) ? 1 : 0;
    };
    const auto on_way = static_cast<int>(std::ranges::count_if(order, ahead));
    const int count = chooser.choose(
        {layer, static_cast<int>(plan.hits.size()), static_cast<int>(order.size()), rows, bytes});
    if (std::max(count, on_way) == 0) return {};
    std::ranges::sort(order, std::ranges::less{}, [&](const device::ExpertWork& w) {
      return std::tuple(-ahead(w), -static_cast<std::ptrdiff_t>(w.rows.size()), w.expert);
    });
    return std::span(order).first(static_cast<std::size_t>(std::max(count, on_way)));
  }
};

ExpertTiers::ExpertTiers(const ExpertStore& store, device::Device& pool, int layers, int experts)
    : store_(store),
      pool_(pool),
      dispatch_(experts),
      counts_(static_cast<std::size_t>(layers)),
      uses_(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts)) {}

void ExpertTiers::set_home(device::Device& home, int tokens, int used, std::int64_t width) {
  if (home.is_host_memory()) return;
  home_ = &home;
  const std::size_t row = sizeof(float) * static_cast<std::size_t>(width);
  host_x_ = home.allocate_host(row * static_cast<std::size_t>(tokens));
  host_parts_ =
      home.allocate_host(row * static_cast<std::size_t>(tokens) * static_cast<std::size_t>(used));
  rows_.reserve(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(used));
  if (!home.can_record()) return;
  const auto experts = static_cast<int>(uses_.size() / counts_.size());
  exchange_ = std::make_unique<WindowExchange>(home, layers(), experts, used, width);
}

device::Rows ExpertTiers::to_pool(device::Rows x) {
  if (home_ == nullptr) return x;
  const std::size_t bytes =
      sizeof(float) * static_cast<std::size_t>(x.count) * static_cast<std::size_t>(x.width);
  assert(bytes <= host_x_->size());
  home_->copy_to_host(host_x_->data(), reinterpret_cast<const std::byte*>(x.data), bytes);
  return {reinterpret_cast<float*>(host_x_->data()), x.count, x.width};
}

device::Rows ExpertTiers::pool_parts(device::Rows parts) noexcept {
  if (home_ == nullptr) return parts;
  return {reinterpret_cast<float*>(host_parts_->data()), parts.count, parts.width};
}

void ExpertTiers::from_pool(std::span<const device::ExpertWork> misses, device::Rows parts) {
  if (home_ == nullptr) return;
  rows_.clear();
  for (const device::ExpertWork& w : misses)
    rows_.insert(rows_.end(), w.rows.begin(), w.rows.end());
  std::ranges::sort(rows_);
  const device::Rows host = pool_parts(parts);
  // Neighbours in one copy: a prompt whose experts all missed is a single one. The pool writes to
  // these rows again only after the next layer's x has been copied to it.
  for (std::size_t first = 0; first < rows_.size();) {
    std::size_t last = first + 1;
    while (last < rows_.size() && rows_[last] == rows_[last - 1] + 1) ++last;
    home_->copy_from_host_later(
        reinterpret_cast<std::byte*>(parts.row(rows_[first])),
        reinterpret_cast<const std::byte*>(host.row(rows_[first])),
        sizeof(float) * (last - first) * static_cast<std::size_t>(parts.width));
    first = last;
  }
}

void ExpertTiers::attach(ExpertCache& cache, device::Device& accelerator, int rows) {
  assert(cache_ == nullptr);
  cache_ = &cache;
  accelerator_ = &accelerator;
  handover_ = std::make_unique<Handover>(rows);
  service_ = std::thread([this] { serve(); });
}

void ExpertTiers::fetch(FetchRequest request, double link_bytes_per_second) {
  assert(cache_ != nullptr);
  if (request.off()) return;
  const std::size_t most = static_cast<std::size_t>(cache_->experts());
  fetcher_ = std::make_unique<Fetcher>(Fetcher{FetchChooser(request, layers()),
                                               accelerator_->make_copier(),
                                               link_bytes_per_second,
                                               request,
                                               {},
                                               {},
                                               {}});
  fetcher_->order.reserve(most);
  fetcher_->staged.reserve(most);
  if (accelerator_->is_host_memory() || link_bytes_per_second > 0) return;
  fetcher_->stream = std::make_unique<ExpertStream>(*cache_, *accelerator_, *fetcher_->copier);
  measure_link();
}

// Where copies only begin, nobody sees later what they take. A cache that holds all needs no link.
void ExpertTiers::measure_link() {
  constexpr int kCopies = 4;
  int copies = 0;
  for (int layer = 0; layer < layers() && copies < kCopies; ++layer) {
    for (int e = 0; e < cache_->experts() && copies < kCopies; ++e) {
      if (cache_->staging(layer) == 0 || cache_->slot_of({layer, e}) != kNotResident) continue;
      const Stopwatch watch;
      const ExpertCache::Fill fill = cache_->stage({layer, e});
      fetcher_->copier->copy(fill.to, fill.from, fill.bytes);
      if (copies++ > 0) {  // the first one warms up
        fetcher_->chooser.link_took(static_cast<double>(fill.bytes), watch.seconds());
      }
    }
  }
  cache_->forget_staged();
}

ExpertTiers::~ExpertTiers() {
  if (!service_.joinable()) return;
  handover_->shutdown();
  service_.join();
}

void ExpertTiers::serve() {
  HandoverRequest request;
  std::uint64_t step = 0;
  while (handover_->next(request, step)) {
    const Stopwatch watch;
    try {
      pool_.experts(request.x, store_.layout(request.layer), request.misses, request.parts);
    } catch (const std::exception& e) {
      handover_->fail_with(e.what());
      return;
    }
    for (const device::ExpertWork& w : request.misses) {
      for (const std::int32_t row : w.rows) handover_->stamp(row, step);
    }
    served_seconds_ = watch.seconds();
    handover_->reply(step);
  }
}

std::uint64_t ExpertTiers::compute(int layer, device::Rows x, std::span<const std::int32_t> ids,
                                   int used, device::Rows parts) {
  const quant::ExpertLayout& layout = store_.layout(layer);
  const DispatchPlan plan = dispatch_.plan(store_, layer, ids, used, cache_);
  std::span<const device::ExpertWork> misses = plan.misses;
  std::span<const device::ExpertWork> fetched;
  if (fetcher_) {
    fetched = fetcher_->choose(layer, plan, layout.bytes(), cache_->staging(layer));
    misses = std::span(fetcher_->order).subspan(fetched.size());
  }
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  if (plan.hits.empty() && fetched.empty()) {
    // Nothing to do beside it: the caller works with the pool itself. Its service is asleep.
    const Stopwatch watch;
    pool_.experts(to_pool(x), layout, misses, pool_parts(parts));
    from_pool(misses, parts);
    served_seconds_ = watch.seconds();
    counts.miss_seconds += served_seconds_;
  } else {
    compute_beside(layer, x, plan.hits, misses, fetched, parts);
  }
  count(layer, ids, plan.hits, misses, fetched);
  if (fetcher_ && fetcher_->stream) look_ahead(layer, fetched.empty() ? 0 : ids.size());
  if (fetcher_ && !misses.empty()) {
    fetcher_->chooser.pool_took(static_cast<int>(misses.size()), static_cast<int>(rows_of(misses)),
                                static_cast<double>(misses.size() * layout.bytes()),
                                served_seconds_);
  }
  return (plan.hits.size() + plan.misses.size()) * layout.bytes();
}

void ExpertTiers::count(int layer, std::span<const std::int32_t> ids,
                        std::span<const device::ExpertWork> hits,
                        std::span<const device::ExpertWork> misses,
                        std::span<const device::ExpertWork> fetched) {
  const std::size_t experts = uses_.size() / counts_.size();
  for (const std::int32_t id : ids)
    ++uses_[static_cast<std::size_t>(layer) * experts + static_cast<std::size_t>(id)];
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  const std::size_t bytes = store_.layout(layer).bytes();
  counts.hit_rows += rows_of(hits);
  counts.miss_rows += rows_of(misses);
  counts.fetch_rows += rows_of(fetched);
  counts.hit_experts += hits.size();
  counts.miss_experts += misses.size();
  counts.fetch_experts += fetched.size();
  counts.hit_bytes += hits.size() * bytes;
  counts.miss_bytes += misses.size() * bytes;
  counts.fetch_bytes += fetched.size() * bytes;
}

bool ExpertTiers::can_record() const noexcept {
  // A share is fetched from every window; by itself no window of few rows gains by it.
  const bool fetches = fetcher_ && !fetcher_->request.automatic;
  return exchange_ && !fetches && (cache_ == nullptr || accelerator_ == home_);
}

void ExpertTiers::record(int layer, device::Rows x, const std::int32_t* ids, const float* weights,
                         device::Rows parts, device::Rows sum) {
  const device::Exchange& exchange = exchange_->exchange();
  home_->experts_held(x, store_.layout(layer), ids, weights, exchange, layer, parts);
  home_->combine_held(parts, weights, exchange, layer, sum);
}

ExpertTiers::Served ExpertTiers::serve(int layer, int rows) {
  try {
    const WindowExchange::Choice choice = exchange_->wait(layer, rows);
    const int used = exchange_->exchange().used;
    const DispatchPlan plan = dispatch_.plan(store_, layer, choice.ids, used, cache_);
    if (!plan.misses.empty()) {
      const Stopwatch watch;
      pool_.experts(exchange_->x(rows), store_.layout(layer), plan.misses, exchange_->parts(rows));
      exchange_->reply(layer);
      counts_[static_cast<std::size_t>(layer)].miss_seconds += watch.seconds();
    }
    count(layer, choice.ids, plan.hits, plan.misses, {});
    return {choice, (plan.hits.size() + plan.misses.size()) * store_.layout(layer).bytes()};
  } catch (...) {
    exchange_->release();
    throw;
  }
}

// The pool computes the misses while the accelerator computes hits and what is fetched.
void ExpertTiers::compute_beside(int layer, device::Rows x,
                                 std::span<const device::ExpertWork> hits,
                                 std::span<const device::ExpertWork> misses,
                                 std::span<const device::ExpertWork> fetched, device::Rows parts) {
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  const quant::ExpertLayout& layout = store_.layout(layer);
  const Stopwatch watch;
  std::uint64_t step = 0;
  if (!misses.empty()) step = handover_->post({layer, to_pool(x), misses, pool_parts(parts)});
  try {
    if (fetcher_ && fetcher_->stream) fetcher_->stream->begin(layer, fetched);
    if (!hits.empty()) {
      accelerator_->experts(x, layout, hits, parts);
      const double seconds = watch.seconds();
      counts.hit_seconds += seconds;
      if (fetcher_ && accelerator_->is_host_memory()) {  // elsewhere it has only been started
        fetcher_->chooser.accelerator_took(static_cast<double>(hits.size() * layout.bytes()),
                                           seconds);
      }
    }
    compute_fetched(layer, x, fetched, parts);
  } catch (...) {
    // The pool must not go on with lists that are about to change.
    if (step != 0) {
      try {
        handover_->wait(step);
      } catch (const Error&) {  // the first error says more
      }
    }
    throw;
  }
  if (step == 0) return;
  handover_->wait(step);
  counts.miss_seconds += served_seconds_;
  from_pool(misses, parts);
}

// As many at once as there are staging slots; or as the stream brings them.
void ExpertTiers::compute_fetched(int layer, device::Rows x,
                                  std::span<const device::ExpertWork> fetched, device::Rows parts) {
  if (fetched.empty()) return;
  const quant::ExpertLayout& layout = store_.layout(layer);
  TierCounts& counts = counts_[static_cast<std::size_t>(layer)];
  if (fetcher_->stream) {
    fetcher_->stream->compute(x, layout, parts);
    const double speed = fetcher_->chooser.link_speed();
    if (speed > 0)
      counts.fetch_seconds += static_cast<double>(fetched.size() * layout.bytes()) / speed;
    return;
  }
  const auto most = static_cast<std::size_t>(cache_->staging(layer));
  for (std::size_t first = 0; first < fetched.size(); first += most) {
    accelerator_->synchronize();  // what the slots held may still be read
    fetcher_->staged.clear();
    const Stopwatch watch;
    for (const device::ExpertWork& w :
         fetched.subspan(first, std::min(most, fetched.size() - first))) {
      const ExpertCache::Fill fill = cache_->stage({layer, w.expert});
      copy_throttled(*fetcher_->copier, fill, fetcher_->link_bytes_per_second);
      fetcher_->staged.push_back({fill.to, w.tokens, w.rows, w.expert});
    }
    const double seconds = watch.seconds();
    counts.fetch_seconds += seconds;
    fetcher_->chooser.link_took(static_cast<double>(fetcher_->staged.size() * layout.bytes()),
                                seconds);
    accelerator_->experts(x, layout, fetcher_->staged, parts);
  }
}

// A prompt's window will want nearly all of the next layer's experts. Not of the last layer: only
// the rows whose logits are wanted come to it.
void ExpertTiers::look_ahead(int layer, std::size_t choices) {
  constexpr std::size_t kRowsAnExpert = 8;
  if (layer + 1 == layers()) fetcher_->stream->forget();
  if (layer + 2 >= layers()) return;
  if (choices < kRowsAnExpert * static_cast<std::size_t>(cache_->experts())) return;
  fetcher_->stream->look_ahead(layer + 1, uses(layer + 1));
}

}  // namespace strata::core
