#include "strata/runtime/engine.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/core/routing_replay.hpp"
#include "strata/core/trace.hpp"
#include "strata/device/cuda_device.hpp"
#include "strata/gguf/file.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "strata/runtime/model_plan.hpp"

#include <algorithm>
#include <exception>

namespace strata {
namespace {

Isa choose_isa(const EngineOptions& options, std::span<const IsaSupport> support) {
  if (!options.isa) return best_isa(support);
  for (const IsaSupport& s : support) {
    if (s.isa != *options.isa) continue;
    if (s.usable) return s.isa;
    fail(ErrorKind::kUnsupported, "--isa {}: not usable on this machine: {}", isa_name(s.isa),
         s.reason);
  }
  fail(ErrorKind::kUnsupported, "--isa {}: unknown to this build", isa_name(*options.isa));
}

int choose_context(const EngineOptions& options, const gguf::File& file) {
  const model::HParams h = model::read_hparams(file);
  if (options.context == 0) return std::min(h.context, kDefaultContext);
  if (options.context < 0 || options.context > h.context) {
    fail(ErrorKind::kUsage, "context {}: this model was trained for 1 to {} positions",
         options.context, h.context);
  }
  return options.context;
}

// Null where the CPU does everything; then `reason` says why, if a GPU was looked for.
std::unique_ptr<device::Device> choose_gpu(const EngineOptions& options, std::string& reason) {
  const bool f32 = options.activations == device::Activations::kF32;
  if (options.device == DeviceChoice::kCuda && f32)
    fail(ErrorKind::kUsage, "--activations f32: only the CPU has it; add --device cpu");
  if (options.device == DeviceChoice::kCpu || f32) return nullptr;
  if (options.device == DeviceChoice::kAuto) {
    const device::CudaStatus status = device::cuda_status(options.gpu);
    reason = status.reason;
    if (!status.usable) return nullptr;
  }
  return device::make_cuda_device({.gpu = options.gpu});
}

// Linux grants addresses for more than there is and kills the program when it touches them: so ask
// first. Keys and values count as far as the context goes, though they come when they are used.
core::Plan make_plan(const EngineOptions& options, const gguf::File& file,
                     const runtime::ModelSizing& sizing, const CacheOptions& cache, bool gpu) {
  model::HParams h = model::read_hparams(file);
  const model::ModelTensors tensors = model::bind_tensors(file, h);
  core::PlanInput in = runtime::plan_input(h, tensors, sizing, cache);
  in.accelerator = runtime::accelerator_of(cache, gpu);
  in.accelerator_bytes = cache.accelerator_limit;
  if (gpu) {
    const std::uint64_t free = device::cuda_free_bytes(options.gpu);
    in.accelerator_bytes = in.accelerator_bytes == 0 ? free : std::min(free, in.accelerator_bytes);
  }
  in.ram_bytes = available_memory_bytes();
  in.experts_on_disk = !options.expert_folder.empty();
  core::Plan plan = core::make_plan(in);
  if (!plan.fits) {
    fail(ErrorKind::kResource, "{}: does not fit the memory that is available\n{}",
         file.path().string(), core::format_plan(in, plan));
  }
  return plan;
}

ThreadPoolOptions pool_options(const EngineOptions& options, const CpuTopology& topology,
                               bool stand_in) {
  int threads = topology.default_threads();
  // A stand-in's threads work beside the pool's: they get cores of their own, and nobody is pinned,
  // since the thread that drives it and the one that serves the pool would share a core.
  if (stand_in) threads = std::max(threads - options.cache.accelerator_threads, 1);
  if (options.threads > 0) threads = options.threads;
  ThreadPoolOptions pool{.threads = threads, .cpus = {}};
  if (options.pin_threads && !stand_in &&
      static_cast<std::size_t>(threads) <= topology.cores.size()) {
    for (int i = 0; i < threads; ++i)
      pool.cpus.push_back(topology.cores[static_cast<std::size_t>(i)].os_index);
  }
  return pool;
}

}  // namespace

std::unique_ptr<Engine> Engine::load(const EngineOptions& options) {
  const Stopwatch watch;
  if (options.threads < 0 || options.threads > 1024) {
    fail(ErrorKind::kUsage, "threads {}: expected 1 to 1024, or 0 for one a core", options.threads);
  }
  if (options.window < 0 || options.window > 16384) {
    fail(ErrorKind::kUsage, "window {}: expected 1 to 16384 tokens, or 0 for the default",
         options.window);
  }
  // unique_ptr by hand: the constructor is private.
  std::unique_ptr<Engine> engine(new Engine());
  LoadReport& report = engine->report_;
  const gguf::File file = gguf::File::open(options.model);
  report.context = choose_context(options, file);
  report.isas = detect_isas();
  report.isa = choose_isa(options, report.isas);
  report.activations = options.activations;

  engine->kv_ =
      options.kv.value_or(options.activations == device::Activations::kF32 ? device::KvType::kF32
                                                                           : device::KvType::kF16);
  engine->gpu_ = choose_gpu(options, report.no_gpu);
  const bool gpu = engine->gpu_ != nullptr;
  const CacheOptions cache = runtime::resolve(options.cache, gpu);
  const bool cached = cache.size.kind != core::CacheRequest::Kind::kNone;
  const core::Plan plan = make_plan(
      options, file, {report.context, window_of(options.window, gpu), engine->kv_}, cache, gpu);
  const CpuTopology topology = detect_topology();
  report.physical_cores = topology.default_threads();
  const ThreadPoolOptions pool = pool_options(options, topology, cached && !gpu);
  report.threads = pool.threads;
  const device::CpuDeviceOptions cpu{report.isa, options.activations};
  if (cached) {
    engine->caching_ = std::make_unique<runtime::ExpertCaching>(cache, model::read_hparams(file),
                                                                engine->gpu_.get(), cpu);
  }
  // A file that cannot be written is told before minutes of loading, not after.
  if (!options.dump_routing.empty())
    engine->trace_ = std::make_unique<core::TraceWriter>(options.dump_routing);
  if (!options.replay_routing.empty()) {
    const model::HParams h = model::read_hparams(file);
    engine->replay_ = std::make_unique<const core::RoutingReplay>(
        options.replay_routing, core::ExpertGeometry{h.layers, h.experts}, h.experts_used);
    report.replay = options.replay_routing;
    report.replay_tokens = engine->replay_->tokens();
  }
  if (!options.audit.empty()) runtime::AuditLog::check(options.audit);
  engine->pool_ = std::make_unique<ThreadPool>(pool);
  engine->cpu_ = std::make_unique<device::CpuDevice>(*engine->pool_, cpu);
  device::Device& device = engine->main_device();
  engine->model_ = std::make_unique<runtime::Model>(runtime::load_model(
      file, report.context, device, *engine->pool_, options.progress, options.expert_folder));
  if (cached && gpu && options.expert_folder.empty()) engine->pin_experts();
  engine->tokenizer_ = std::make_unique<text::Tokenizer>(text::Tokenizer::from_gguf(file));
  engine->chat_template_ = std::string(file.get_string("tokenizer.chat_template").value_or(""));
  const int window = std::min(window_of(options.window, gpu), report.context);
  engine->forward_ =
      std::make_unique<runtime::Forward>(*engine->model_, device, *engine->cpu_, window);
  if (engine->caching_) {
    engine->caching_->attach(*engine->model_, *engine->forward_, plan, options.progress);
  }
  engine->watch_routing();
  if (engine->replay_) engine->forward_->replay_routing(*engine->replay_);

  report.device = engine->cpu_->description();
  if (gpu) report.device = fmt::format("{}; {}", device.description(), report.device);
  report.dense_bytes = engine->model_->dense_bytes();
  report.expert_bytes = engine->model_->experts.total_bytes();
  report.expert_folder = options.expert_folder;
  report.kv_bytes_per_position =
      runtime::SequenceState(*engine->model_, device, 16, engine->kv_).bytes_per_position();
  report.seconds = watch.seconds();
  if (!options.audit.empty()) {
    engine->audit_ = std::make_unique<runtime::AuditLog>(options.audit, options.build,
                                                         *engine->forward_, engine->caching_.get());
    engine->audit_->load(options.model, engine->model_->h, report);
    engine->audit_->ready();
  }
  return engine;
}

Engine::Engine() = default;
Engine::~Engine() = default;

// What the system refuses to pin is copied all the same.
void Engine::pin_experts() {
  try {
    for (int layer = 0; layer < model_->h.layers; ++layer) {
      pinned_.push_back(gpu_->pin(model_->experts.bytes(layer)));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kResource) throw;
    pinned_.clear();
    report_.not_pinned = error.what();
  }
}

void Engine::watch_routing() {
  if (!trace_ && !caching_) return;
  const model::HParams& h = model_->h;
  routing_ = std::make_unique<core::WindowRouting>(core::ExpertGeometry{h.layers, h.experts},
                                                   h.experts_used, forward_->max_window());
  forward_->observe_routing([routing = routing_.get()](int layer, std::span<const std::int32_t> ids,
                                                       std::span<const float> weights,
                                                       int) { routing->add(layer, ids, weights); },
                            trace_ != nullptr);
}

device::Rows Engine::run(std::span<const runtime::WindowToken> window) {
  if (!routing_) return forward_->run(window);
  routing_->clear();
  const device::Rows logits = forward_->run(window);
  if (trace_) {
    for (int layer = 0; layer < model_->h.layers; ++layer) {
      trace_->add_layer(layer, routing_->used(), routing_->ids(layer), routing_->weights(layer));
    }
    trace_->end_window();
  }
  if (caching_) caching_->after_window(*routing_);
  return logits;
}

void Engine::audit(const RequestRecord& request) {
  if (audit_) audit_->request(request);
}

void Engine::finish() {
  std::exception_ptr first;
  const auto attempt = [&first](const auto& step) {
    try {
      step();
    } catch (const Error&) {
      if (!first) first = std::current_exception();
    }
  };
  if (caching_) attempt([&] { caching_->save(); });
  if (trace_) attempt([&] { trace_->close(); });
  if (audit_) attempt([&] { audit_->exit(); });
  trace_.reset();
  audit_.reset();
  if (first) std::rethrow_exception(first);
}

std::unique_ptr<Session> Engine::new_session() {
  return std::unique_ptr<Session>(new Session(*this));
}

double Engine::measure_read_bandwidth() { return strata::measure_read_bandwidth(*pool_); }

Session::Session(Engine& engine)
    : engine_(engine), state_(*engine.model_, engine.main_device(), engine.context(), engine.kv_) {}

void Session::check(std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) fail(ErrorKind::kUsage, "the prompt has no tokens; give at least one");
  const auto context = static_cast<std::size_t>(engine_.context());
  if (tokens_.size() + tokens.size() > context) {
    fail(ErrorKind::kUsage,
         "{} tokens more do not fit: the context holds {} and has {}; raise it with -c or shorten "
         "the text",
         tokens.size(), context, tokens_.size());
  }
  for (const std::int32_t t : tokens) {
    if (t < 0 || t >= engine_.hparams().vocab) {
      fail(ErrorKind::kUsage, "token id {} is outside the vocabulary of {}", t,
           engine_.hparams().vocab);
    }
  }
}

std::size_t Session::feed(std::span<const std::int32_t> tokens,
                          const std::function<bool(std::size_t done)>& stop) {
  check(tokens);
  std::size_t done = 0;
  while (done < tokens.size()) {
    if (done > 0 && stop && stop(done)) break;
    const std::size_t n =
        std::min(tokens.size() - done, static_cast<std::size_t>(engine_.max_window()));
    window_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      const bool last = done + i + 1 == tokens.size();
      window_.push_back(
          {tokens[done + i], static_cast<std::int32_t>(tokens_.size() + i), &state_, last});
    }
    const device::Rows logits = engine_.run(window_);
    logits_.clear();
    if (logits.count > 0) logits_.assign(logits.data, logits.data + engine_.hparams().vocab);
    const auto fed = tokens.subspan(done, n);
    tokens_.insert(tokens_.end(), fed.begin(), fed.end());
    done += n;
  }
  return done;
}

void Session::score(
    std::span<const std::int32_t> tokens,
    const std::function<void(std::size_t index, std::span<const float> logits)>& row) {
  check(tokens);
  // Logits of a whole window at once would be large with big vocabularies: 64 rows at a time.
  constexpr std::size_t kRows = 64;
  const std::size_t most = std::min(kRows, static_cast<std::size_t>(engine_.max_window()));
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t n = std::min(tokens.size() - done, most);
    window_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      window_.push_back(
          {tokens[done + i], static_cast<std::int32_t>(tokens_.size() + i), &state_, true});
    }
    const device::Rows logits = engine_.run(window_);
    const auto vocab = static_cast<std::size_t>(engine_.hparams().vocab);
    for (std::size_t i = 0; i < n; ++i) row(done + i, {logits.row(static_cast<int>(i)), vocab});
    logits_.assign(logits.row(logits.count - 1), logits.row(logits.count - 1) + vocab);
    const auto fed = tokens.subspan(done, n);
    tokens_.insert(tokens_.end(), fed.begin(), fed.end());
    done += n;
  }
}

std::int32_t Session::sample(runtime::Sampler& sampler) const {
  if (logits_.empty())
    fail(ErrorKind::kUsage, "there are no logits to sample from: feed a token first");
  return sampler.sample(logits_, tokens_.size());
}

void Session::truncate(std::size_t length) {
  if (length >= tokens_.size()) return;
  tokens_.resize(length);
  logits_.clear();
}

std::size_t Session::common_prefix(std::span<const std::int32_t> tokens) const noexcept {
  const auto [mine, theirs] = std::ranges::mismatch(tokens_, tokens);
  return static_cast<std::size_t>(mine - tokens_.begin());
}

}  // namespace strata
