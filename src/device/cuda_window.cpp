// Windows on the GPU: what their rows stand for, and windows as graphs.
#include "src/device/cuda_state.hpp"

#include <bit>

namespace strata::device {
namespace {

// Arrays of a window, each from a multiple of 16 bytes on, as CudaStaging::send_to() lays them.
std::size_t aligned(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

int chunks_of(std::span<const WindowRow> rows) {
  int chunks = 0;
  for (const WindowRow& r : rows) chunks = std::max(chunks, r.position / cuda::kAttentionSpan + 1);
  return chunks;
}

}  // namespace

void CudaDevice::begin_window(std::span<const WindowRow> rows) {
  Device::begin_window(rows);
  static_cast<void>(state_->use());
  State& s = *state_;
  CudaWindow& w = s.window;
  w.rows = static_cast<int>(rows.size());
  w.chunks = chunks_of(rows);
  const std::uint64_t number = w.begun++;
  // A few rows take the same places whatever their number.
  const std::size_t room = rows.size() <= kProgramRows ? kProgramRows : rows.size();
  s.tokens.assign(room, 0);
  s.places.assign(room, cuda::Place{});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    s.tokens[i] = rows[i].token;
    s.places[i] = to_place(rows[i]);
  }
  s.tiles.clear();
  for (int i = 0; i < kProgramRows; ++i) s.tiles.push_back({i, 1});
  const std::size_t tokens_at = aligned(sizeof number);
  const std::size_t places_at = tokens_at + aligned(room * sizeof(std::int32_t));
  const std::size_t tiles_at = places_at + aligned(room * sizeof(cuda::Place));
  const std::size_t bytes = tiles_at + aligned(kProgramRows * sizeof(cuda::QueryRows));
  if (room == kProgramRows && w.few.size() == 0) w.few = CudaBlock(bytes, false);
  std::byte* to = room == kProgramRows ? w.few.data() : w.many.get(bytes);
  s.staging.begin(bytes, 4);
  static_cast<void>(s.staging.put(std::span(&number, 1)));
  static_cast<void>(s.staging.put(std::span<const std::int32_t>(s.tokens)));
  static_cast<void>(s.staging.put(std::span<const cuda::Place>(s.places)));
  static_cast<void>(s.staging.put(std::span<const cuda::QueryRows>(s.tiles)));
  s.staging.send_to(to);
  w.number = reinterpret_cast<const std::uint64_t*>(to);
  w.tokens = reinterpret_cast<const std::int32_t*>(to + tokens_at);
  w.places = reinterpret_cast<const cuda::Place*>(to + places_at);
  w.single = reinterpret_cast<const cuda::QueryRows*>(to + tiles_at);
}

std::uint64_t CudaDevice::window_number() const noexcept { return state_->window.begun - 1; }

// Attention's grid has room for this many chunks, rounded up.
int CudaDevice::window_kind() const noexcept {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(state_->window.chunks)));
}

bool CudaDevice::can_record() const noexcept { return state_->gpu.graphs; }

void CudaDevice::State::set_recording(bool on) noexcept {
  recording = on;
  normed = {};  // what a program reads it writes itself
  for (CudaScratch* scratch : {&panels, &gate_up, &hidden, &partials, &dispatched}) {
    scratch->set_recording(on);
  }
}

void CudaDevice::begin_recording() {
  cuda::begin_capture(state_->use());
  state_->set_recording(true);
  state_->recorded_events.clear();
}

std::unique_ptr<Program> CudaDevice::end_recording() {
  state_->set_recording(false);
  return std::make_unique<CudaProgram>(cuda::end_capture(state_->use()),
                                       std::move(state_->recorded_events));
}

void CudaDevice::abandon_recording() noexcept {
  state_->set_recording(false);
  cuda::abandon_capture(state_->stream);
}

void CudaDevice::start(Program& program) {
  cuda::launch_graph(static_cast<CudaProgram&>(program).graph(), state_->use());
}

bool CudaDevice::is_done() { return cuda::is_done(state_->use()); }

}  // namespace strata::device
