#include "src/serve/routes.hpp"

#include "src/serve/anthropic_messages.hpp"
#include "src/serve/openai_chat.hpp"
#include "src/serve/openai_completions.hpp"
#include "src/serve/openai_responses.hpp"
#include "src/serve/page.hpp"
#include "src/serve/reply.hpp"
#include "src/serve/slot_file.hpp"
#include "strata/base/clock.hpp"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace strata::serve {
namespace {

// The path without /v1, which clients leave out when their base URL lacks it.
std::string_view short_path(std::string_view path) {
  if (path.starts_with("/v1/")) path.remove_prefix(3);
  return path;
}

bool speaks_anthropic(std::string_view path) { return short_path(path).starts_with("/messages"); }

bool is_public(std::string_view path) {
  return path == "/health" || path == "/" ||
         std::ranges::any_of(page_files(), [&](const PageFile& f) { return f.path == path; });
}

HttpReply json_reply(const Json& json) {
  HttpReply reply;
  reply.body = to_text(json);
  return reply;
}

Json model_json(const ChatModel& model) {
  const Engine& engine = model.engine();
  return {{"id", model.name()},
          {"object", "model"},
          {"created", model.loaded_at()},
          {"owned_by", "strata"},
          {"type", "model"},
          {"display_name", model.name()},
          {"created_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(model.loaded_at()))},
          {"max_model_len", model.context()},
          {"meta",
           {{"vocab_size", engine.tokenizer().vocab_size()},
            {"n_ctx", model.context()},
            {"n_ctx_train", engine.hparams().context},
            {"n_embd", engine.hparams().embd},
            {"can_chat", model.can_chat()},
            {"can_think", model.can_think()}}}};
}

// "answers" of one request, on their way.
HttpReply start(const HttpRequest& request, Ready& ready, std::vector<GenerationRequest> requests,
                std::vector<OutputStyle> styles, std::unique_ptr<AnswerWriter> writer,
                bool stream) {
  ReplyJob job;
  job.answers = ready.scheduler.submit(std::move(requests));
  job.styles = std::move(styles);
  job.writer = std::move(writer);
  job.stream = stream;
  return make_reply(request, std::move(job));
}

}  // namespace

Routes::Routes(Context context) : context_(std::move(context)) {}

const Routes::Route* Routes::find(const HttpRequest& request, std::string& allowed) const {
  static constexpr std::array<Route, 12> kRoutes = {{
      {"POST", "/chat/completions", &Routes::chat},
      {"POST", "/completions", &Routes::completion},
      {"POST", "/messages", &Routes::messages},
      {"POST", "/messages/count_tokens", &Routes::count_tokens},
      {"POST", "/responses", &Routes::responses},
      {"GET", "/models", &Routes::models},
      {"GET", "/models/", &Routes::model},
      {"GET", "/health", &Routes::health},
      {"GET", "/metrics", &Routes::metrics},
      {"GET", "/status", &Routes::status},
      {"GET", "/slots", &Routes::slots},
      {"POST", "/slots/", &Routes::slot_action},
  }};
  const std::string_view path = short_path(request.path);
  const std::string_view asked = request.method;
  const std::string_view method = asked == "HEAD" ? "GET" : asked;
  for (const Route& route : kRoutes) {
    const bool fits = route.path.ends_with('/')
                          ? path.starts_with(route.path) && path.size() > route.path.size()
                          : path == route.path;
    if (!fits) continue;
    if (route.method == method) return &route;
    allowed = route.method;
  }
  return nullptr;
}

std::optional<HttpReply> Routes::admit(const HttpRequest& request) const {
  const bool preflight = request.method == "OPTIONS" && !request.header("origin").empty();
  const std::optional<Denial> denial =
      check_access(context_.access,
                   {request.header("host"), request.header("origin"),
                    request.header("authorization"), request.header("x-api-key")},
                   !preflight && !is_public(request.path));
  if (denial) {
    HttpReply reply =
        complain(request, ApiError(denial->status, denial->text, {},
                                   denial->status == 401 ? "invalid_api_key" : "forbidden"));
    if (denial->status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
  }
  if (preflight) {
    HttpReply reply;
    reply.status = 204;
    add_cors(request, reply);
    return reply;
  }
  return std::nullopt;
}

void Routes::add_cors(const HttpRequest& request, HttpReply& reply) const {
  const std::string origin = allowed_origin(context_.access, request.header("origin"));
  if (origin.empty()) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", origin);
  reply.headers.emplace_back("Vary", "Origin");
  if (request.method != "OPTIONS") return;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  reply.headers.emplace_back(
      "Access-Control-Allow-Headers",
      "Authorization, Content-Type, X-API-Key, Anthropic-Version, Anthropic-Beta");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
}

HttpReply Routes::handle(const HttpRequest& request) const {
  HttpReply reply;
  try {
    if (std::optional<HttpReply> file = page(request)) return std::move(*file);
    std::string allowed;
    if (const Route* route = find(request, allowed)) {
      reply = (this->*route->handler)(request);
    } else if (!allowed.empty()) {
      reply = complain(request, ApiError(405, fmt::format("use {} here", allowed)));
      reply.headers.emplace_back("Allow", allowed);
    } else {
      throw ApiError(404, fmt::format("there is nothing at {}", request.path), {}, "not_found");
    }
  } catch (const std::exception&) {
    reply = complain(request, to_api_error(std::current_exception()));
  }
  add_cors(request, reply);
  return reply;
}

HttpReply Routes::complain(const HttpRequest& request, const ApiError& error) const {
  return speaks_anthropic(request.path) ? anthropic_error_reply(error) : openai_error_reply(error);
}

std::shared_ptr<Ready> Routes::need_ready() const {
  std::shared_ptr<Ready> ready = context_.ready();
  if (!ready) {
    ApiError error(
        503, context_.draining() ? "the server is shutting down" : "the model is being loaded", {},
        "not_ready");
    error.retry_after = 5;
    throw error;
  }
  return ready;
}

// --- answers ---

HttpReply Routes::chat(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const Json body = parse_body(request.body);
  const ChatTask task = read_openai_chat(body, context_.sampling);
  ChatPlan plan = ready->model.plan(task, request.client);
  const OpenAiFrame frame{ready->model.name(), "strata-" + context_.version,
                          read_include_usage(Fields(body, "")),
                          task.top_logprobs >= 0 ? &ready->model.tokenizer() : nullptr};
  return start(request, *ready, std::move(plan.requests), {plan.style},
               make_openai_chat_writer(frame), task.stream);
}

HttpReply Routes::completion(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const Json body = parse_body(request.body);
  CompletionTask task = read_openai_completion(body, ready->model.tokenizer(), context_.sampling);
  const OpenAiFrame frame{ready->model.name(), "strata-" + context_.version,
                          read_include_usage(Fields(body, "")),
                          task.chat.top_logprobs >= 0 ? &ready->model.tokenizer() : nullptr};
  std::unique_ptr<AnswerWriter> writer = make_openai_completion_writer(frame, task);
  std::vector<GenerationRequest> requests;
  for (const std::vector<std::int32_t>& prompt : task.prompts) {
    for (GenerationRequest& one : ready->model.plan_completion(task.chat, prompt, request.client)) {
      requests.push_back(std::move(one));
    }
  }
  return start(request, *ready, std::move(requests), {OutputStyle{}}, std::move(writer),
               task.chat.stream);
}

HttpReply Routes::messages(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const ChatTask task = read_anthropic(parse_body(request.body), context_.sampling);
  ChatPlan plan = ready->model.plan(task, request.client);
  auto writer =
      make_anthropic_writer(ready->model.name(), task, plan.requests.front().prompt.size());
  return start(request, *ready, std::move(plan.requests), {plan.style}, std::move(writer),
               task.stream);
}

HttpReply Routes::count_tokens(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const ChatTask task = read_anthropic(parse_body(request.body), context_.sampling, true);
  return json_reply({{"input_tokens", ready->model.count_tokens(task)}});
}

HttpReply Routes::responses(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const Json body = parse_body(request.body);
  const ChatTask task = read_openai_response(body, context_.sampling);
  ChatPlan plan = ready->model.plan(task, request.client);
  return start(request, *ready, std::move(plan.requests), {plan.style},
               make_openai_response_writer(ready->model.name(), body), task.stream);
}

// --- what is here ---

HttpReply Routes::models(const HttpRequest&) const {
  const Json model = model_json(need_ready()->model);
  return json_reply({{"object", "list"},
                     {"data", Json::array({model})},
                     {"first_id", model["id"]},
                     {"last_id", model["id"]},
                     {"has_more", false}});
}

HttpReply Routes::model(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const std::string_view name =
      short_path(request.path).substr(std::string_view("/models/").size());
  if (name != ready->model.name()) {
    throw ApiError(404, fmt::format("there is no model '{}'", name), "model", "model_not_found");
  }
  return json_reply(model_json(ready->model));
}

HttpReply Routes::health(const HttpRequest&) const {
  const bool loaded = context_.ready() != nullptr;
  const bool draining = context_.draining();
  HttpReply reply = json_reply({{"status", draining ? "shutting down"
                                           : loaded ? "ok"
                                                    : "loading model"}});
  reply.status = loaded && !draining ? 200 : 503;
  return reply;
}

MonitorView Routes::view(Ready& ready) const {
  MonitorView view;
  ready.scheduler.between_windows([&](SlotTable&) { view.experts = view_experts(ready.engine); });
  view.snapshot = ready.scheduler.snapshot();
  view.connections = context_.connections();
  view.uptime_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  return view;
}

HttpReply Routes::metrics(const HttpRequest&) const {
  HttpReply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = metrics_text(view(*need_ready()));
  return reply;
}

HttpReply Routes::status(const HttpRequest&) const {
  const std::shared_ptr<Ready> ready = need_ready();
  Json json = {{"version", context_.version}, {"name", ready->model.name()}};
  json.update(status_json(view(*ready), ready->engine));
  return json_reply(json);
}

HttpReply Routes::slots(const HttpRequest&) const {
  return json_reply(slots_json(need_ready()->scheduler.snapshot()));
}

HttpReply Routes::slot_action(const HttpRequest& request) const {
  const std::shared_ptr<Ready> ready = need_ready();
  const std::string_view name = short_path(request.path).substr(std::string_view("/slots/").size());
  std::size_t id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  const auto slots = static_cast<std::size_t>(ready->scheduler.options().slots);
  if (error != std::errc() || end != name.data() + name.size() || id >= slots) {
    throw ApiError(404, fmt::format("there is no slot '{}': they are 0 to {}", name, slots - 1));
  }
  const auto asked = request.query.find("action");
  const std::string action = asked == request.query.end() ? "" : asked->second;
  if (action != "save" && action != "restore" && action != "erase") {
    refuse("action", "action: expected save, restore or erase");
  }
  std::filesystem::path path;
  std::string file;
  if (action != "erase") {
    if (context_.slots_folder.empty()) {
      throw ApiError(501, "this server saves no slots: start it with --slots-folder");
    }
    file = Fields(parse_body(request.body), "").need_text("filename");
    const bool plain = !file.empty() && file.size() <= 200 && file.front() != '.' &&
                       std::ranges::all_of(file, [](char c) {
                         return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                                (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
                       });
    if (!plain) refuse("filename", "filename: letters, digits, '.', '_' and '-' only");
    path = context_.slots_folder / file;
    if (action == "restore" && !std::filesystem::exists(path)) {
      throw ApiError(404, fmt::format("there is no file '{}'", file), "filename");
    }
  }
  Json result = {{"id_slot", id}};
  if (!file.empty()) result["filename"] = file;
  const Stopwatch watch;
  ready->scheduler.between_windows([&](SlotTable& table) {
    Slot& slot = table.all()[id];
    if (slot.phase != Slot::Phase::kIdle) throw ApiError(409, "the slot is busy");
    if (action == "save") {
      result["n_written"] = save_slot(slot, ready->engine, ready->fingerprint, path);
      result["n_saved"] = slot.tokens.size();
    } else if (action == "restore") {
      result["n_read"] = restore_slot(slot, ready->engine, ready->fingerprint, path);
      result["n_restored"] = slot.tokens.size();
    } else {
      result["n_erased"] = slot.tokens.size();
      table.clear(slot);
    }
  });
  result["timings"] = {{"ms", watch.seconds() * 1e3}};
  return json_reply(result);
}

std::optional<HttpReply> Routes::page(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") return std::nullopt;
  const std::string_view asked = request.path;
  const std::string_view path = asked == "/" ? "/index.html" : asked;
  const auto files = page_files();
  const auto found = std::ranges::find(files, path, &PageFile::path);
  if (found == files.end()) return std::nullopt;
  HttpReply reply;
  reply.content_type = found->content_type;
  reply.body = found->bytes;
  reply.headers = {
      {"Cache-Control", "no-cache"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
  return reply;
}

}  // namespace strata::serve
