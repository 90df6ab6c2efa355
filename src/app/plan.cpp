// strata plan: what a model will take of memory, and whether it fits, before it is loaded.
#include "src/app/cache_flags.hpp"
#include "src/app/command.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/report.hpp"
#include "strata/base/error.hpp"
#include "strata/base/memory.hpp"
#include "strata/gguf/file.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/runtime/model_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

namespace strata::app {
namespace {

constexpr const char* kPlanExamples = R"(
Examples:
  strata plan model.gguf                             on this machine
  strata plan model.gguf --vram 12GiB --ram 32GiB    on a machine with such a GPU
  strata plan model.gguf --vram 8GiB -c 32768 --expert-cache 4GiB

Reads only the file's header. With --vram dense weights, keys and values, activations and the expert
cache are on a GPU of that size, and the experts in RAM. The exit code is 0 if all fits, else 5.)";

struct PlanOptions {
  std::string model, vram, ram, cache, fetch, policy = "default", kv = "f16";
  int context = 0;
  int window = 0;
  std::int64_t reserve_mib = static_cast<std::int64_t>(kDefaultReserveBytes >> 20);
  bool on_disk = false;
  bool json = false;
};

nlohmann::ordered_json lines_json(const std::vector<core::PlanLine>& lines) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const core::PlanLine& line : lines) json[line.what] = line.bytes;
  return json;
}

nlohmann::ordered_json to_json(const core::PlanInput& in, const core::Plan& plan) {
  return {{"fits", plan.fits},
          {"accelerator", lines_json(plan.accelerator)},
          {"accelerator_needed", plan.accelerator_needed},
          {"accelerator_bytes", plan.accelerator_bytes},
          {"ram", lines_json(plan.ram)},
          {"ram_needed", plan.ram_needed},
          {"ram_bytes", in.ram_bytes},
          {"cache_bytes", plan.cache_bytes},
          {"cache_slots", plan.cache_slots},
          {"resident_share", plan.resident_share},
          {"advice", plan.advice}};
}

core::PlanInput input_of(const PlanOptions& options) {
  const gguf::File file = gguf::File::open(options.model);
  model::HParams h = model::read_hparams(file);
  const model::ModelTensors tensors = model::bind_tensors(file, h);
  const int context = options.context > 0 ? options.context : std::min(h.context, kDefaultContext);
  if (context > h.context) {
    fail(ErrorKind::kUsage, "context {}: this model was trained for 1 to {} positions", context,
         h.context);
  }
  CacheOptions cache;
  const bool gpu = !options.vram.empty();
  if (!options.cache.empty()) cache.size = core::parse_cache_request(options.cache);
  if (!options.fetch.empty()) cache.fetch = core::parse_fetch_request(options.fetch);
  cache.policy.kind = core::policy_of(options.policy).value();
  cache = runtime::resolve(cache, gpu);
  cache.reserve_bytes = static_cast<std::uint64_t>(options.reserve_mib) << 20;
  core::PlanInput in = runtime::plan_input(
      h, tensors, {context, window_of(options.window, gpu), parse_kv_type(options.kv)}, cache);
  in.accelerator = runtime::accelerator_of(cache, gpu);
  if (gpu) in.accelerator_bytes = core::parse_size(options.vram);
  in.experts_on_disk = options.on_disk;
  in.ram_bytes = options.ram.empty() ? available_memory_bytes() : core::parse_size(options.ram);
  return in;
}

int run(const PlanOptions& options, Console& console) {
  const core::PlanInput in = input_of(options);
  const core::Plan plan = core::make_plan(in);
  console.out.write(options.json ? json_line(to_json(in, plan)) : core::format_plan(in, plan));
  return plan.fits ? 0 : static_cast<int>(ErrorKind::kResource);
}

}  // namespace

Command add_plan(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("plan", "Tells what a model takes of memory, and whether it fits.");
  app->footer(kPlanExamples);
  const auto o = std::make_shared<PlanOptions>();
  app->add_option("MODEL", o->model, "GGUF file, or the first shard of a split one")
      ->required()
      ->type_name("");
  const std::string machine = "Machine";
  app->add_option("--vram", o->vram, "memory of the GPU; by default this machine without one")
      ->type_name("SIZE")
      ->group(machine);
  app->add_option("--ram", o->ram, "memory of the CPU; by default what is available now")
      ->type_name("SIZE")
      ->group(machine);
  app->add_option("--vram-reserve-mib", o->reserve_mib, "MiB of the GPU that are left alone")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40).description(""))
      ->capture_default_str()
      ->group(machine);
  const std::string what = "What is to run";
  app->add_option("-c,--context", o->context,
                  fmt::format("positions; 0: the model's own, at most {}", kDefaultContext))
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 30).description(""))
      ->capture_default_str()
      ->group(what);
  add_choice(*app, "--kv,--kv-type", o->kv, {"f16", "f32", "q8_0"}, "cells of the KV cache")
      ->capture_default_str()
      ->group(what);
  app->add_option("--window", o->window,
                  "most tokens of a prompt computed at once; 0: 512 on a CPU, 2048 on a GPU")
      ->type_name("N")
      ->check(CLI::Range(0, 16384).description(""))
      ->capture_default_str()
      ->group(what);
  app->add_option("--expert-cache", o->cache,
                  "experts on the accelerator; by default auto with --vram, else 0")
      ->type_name("N|SIZE|auto")
      ->group(what);
  add_policy(*app, o->policy)->group(what);
  app->add_option("--pcie-frac", o->fetch, "share of the misses that is fetched over the link")
      ->type_name("auto|F")
      ->group(what);
  app->add_flag("--experts-on-disk", o->on_disk, "the experts in a file, not in RAM")->group(what);
  app->add_flag("--json", o->json, "print the plan as JSON, sizes in bytes")->group(what);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
