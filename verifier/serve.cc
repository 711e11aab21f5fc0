#include "verifier/serve.h"

#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/version.h"
#include "common/metrics/exporter.h"
#include "common/metrics/registry.h"
#include "common/model/model_directory.h"
#include "common/rpc/client_tokens.h"
#include "common/rpc/plaintext.h"
#include "common/rpc/server.h"
#include "common/rpc/token_file.h"
#include "common/service/open_tracer.h"
#include "common/service/service_options.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/generation_defaults.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/engine/vllm_names.h"
#include "verifier/http/api.h"
#include "verifier/http/server.h"
#include "verifier/rpc/authorization.h"
#include "verifier/rpc/drafting_service.h"
#include "verifier/rpc/generation_service.h"
#include "verifier/status/status_board.h"

namespace outrider {
namespace {

constexpr char kGenerationService[] = "outrider.v1.Generation";
constexpr char kDraftingService[] = "outrider.v1.Drafting";
constexpr Duration kShutdownGrace = std::chrono::seconds(1);

// Waits until no session is left or the time is over. True: all ended.
bool WaitIdle(EngineThread& thread, Engine& engine, Time until) {
  constexpr auto kPoll = std::chrono::milliseconds(10);
  while (true) {
    std::promise<bool> idle;
    thread.Post([&] { idle.set_value(engine.idle()); });
    if (idle.get_future().get()) return true;
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kPoll);
  }
}

Result<std::unique_ptr<TokenFile>> OpenTokens(const std::string& path) {
  if (path.empty()) return std::unique_ptr<TokenFile>();
  return TokenFile::Open(path);
}

void WarnOfReadableTokens(const VerifierOptions& options) {
  const bool tokens = !options.client_tokens.empty() || !options.drafter_tokens.empty();
  const bool local =
      IsLoopback(options.service.listen) && (options.http.empty() || IsLoopback(options.http));
  if (!tokens || !options.service.tls.cert.empty() || local) return;
  Log(LogLevel::kWarning, "tokens go over the network in plaintext: give --tls-cert and --tls-key",
      {{"listen", options.service.listen}, {"http", options.http}});
}

Result<ChatTemplate> LoadChatTemplate(const VerifierOptions& options) {
  if (options.chat_template.has_value()) return ChatTemplate::FromFamily(*options.chat_template);
  OUTRIDER_ASSIGN(const std::string text, ChatTemplate::ReadText(options.service.model));
  return ChatTemplate::FromText(text);
}

// How texts begin and end, which nobody sees in them.
void LogModelRoles(const ModelConfig& config, const Tokenizer& tokenizer,
                   const ChatTemplate& chat_template) {
  const auto named = [&tokenizer](const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) {
      text += (text.empty() ? "" : " ") + std::to_string(id) + ":" +
              std::string(tokenizer.IdToToken(id));
    }
    return text.empty() ? "none" : text;
  };
  const std::optional<ChatFamily> family = chat_template.family();
  Log(LogLevel::kInfo, "model's conventions",
      {{"chat_template", family.has_value() ? ChatFamilyName(*family) : "unknown, chats refused"},
       {"before_prompts", named(tokenizer.prompt_prefix())},
       {"ends_texts", named(config.eos_token_ids)}});
}

}  // namespace

Status Serve(const VerifierOptions& options, const StopOnSignal& signals) {
  // First what can be wrong in a moment; the model takes longer.
  OUTRIDER_ASSIGN(const std::shared_ptr<TlsFiles> tls, OpenTlsFiles(options.service.tls));
  OUTRIDER_ASSIGN(std::unique_ptr<TokenFile> client_tokens, OpenTokens(options.client_tokens));
  OUTRIDER_ASSIGN(std::unique_ptr<TokenFile> drafter_tokens, OpenTokens(options.drafter_tokens));
  WarnOfReadableTokens(options);
  const ClientTokens clients(std::move(client_tokens));
  const ClientAuthorization client_authorization(&clients);
  const DrafterAuthorization drafters(std::move(drafter_tokens), options.drafter_names);
  // The kind of model before its details: an unknown one must not fail with its tokenizer's words.
  OUTRIDER_TRY(CheckModelDirectory(options.service.model));
  OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer,
                  Tokenizer::Load(options.service.model));
  OUTRIDER_ASSIGN(ChatTemplate chat_template, LoadChatTemplate(options));
  GenerationDefaults defaults;
  if (options.generation_config) {
    OUTRIDER_ASSIGN(defaults, LoadGenerationDefaults(options.service.model));
  }
  OUTRIDER_ASSIGN(
      const std::unique_ptr<Model> model,
      LoadServedModel(options.service, options.engine.scheduler.token_budget, signals.token()));
  const ModelConfig& config = model->config();

  MetricsRegistry registry;
  std::vector<std::string> arm_names;
  if (options.engine.planner.has_value()) {
    for (const Arm& arm : ServedArms(*options.engine.planner)) arm_names.push_back(arm.name);
  }
  VerifierMetrics metrics(registry, config.name, arm_names);
  OUTRIDER_ASSIGN(const std::unique_ptr<Tracer> tracer,
                  OpenTracer(options.service, "outrider-verifier", "", options.trace_sample_ratio,
                             metrics.trace_spans_total, metrics.trace_spans_dropped_total));
  std::unique_ptr<MetricsExporter> exporter;
  if (!options.service.metrics.empty()) {
    OUTRIDER_ASSIGN(exporter,
                    MetricsExporter::Start(options.service.metrics, registry,
                                           options.vllm_metrics ? VllmAliases() : MetricAliases()));
  }

  LogModelRoles(config, *tokenizer, chat_template);
  HttpServer http;  // before the engine: sessions hold its exchanges
  HttpMetrics http_metrics(registry, config.name);
  const SteadyClock clock;
  DrafterPool pool({.model = config.name,
                    .tokenizer = tokenizer->fingerprint(),
                    .vocab_size = config.vocab_size},
                   options.law_limits, &metrics, &clock);
  EngineOptions engine_options = options.engine;
  engine_options.tracer = tracer.get();
  engine_options.defaults = defaults;
  Engine engine(engine_options, model.get(), tokenizer.get(), &pool, &metrics, &clock);
  pool.set_consumer(&engine.drafts());
  EngineThread thread(&engine);
  std::unique_ptr<EmbeddedDrafter> embedded;
  if (!options.embedded.service.model.empty()) {
    OUTRIDER_ASSIGN(embedded, EmbeddedDrafter::Start(options.embedded, &pool, &thread, &clock,
                                                     signals.token()));
  }

  std::optional<StatusBoard> board;
  if (exporter != nullptr) {
    board.emplace(
        StatusBoard::Watched{
            .engine = &engine, .pool = &pool, .metrics = &metrics, .thread = &thread},
        StatusHistory::Served{.model = config.name,
                              .version = kVersion,
                              .policy = options.policy,
                              .arms = arm_names});
    board->ServeOn(*exporter);
  }

  Intake intake(&engine, &thread);
  TextWorkers text_workers({}, &clock, &metrics);
  GenerationService generation({.tokenizer = tokenizer.get(),
                                .config = config,
                                .limits = engine.limits(),
                                .version = kVersion,
                                .authorization = &client_authorization,
                                .pad_responses = options.pad_responses,
                                .tracer = tracer.get(),
                                .text_workers = &text_workers},
                               &engine, &pool, &thread, &intake);
  DraftingService drafting(&drafters, &metrics, &pool, &thread);
  OUTRIDER_ASSIGN(
      const std::unique_ptr<RpcServer> server,
      RpcServer::Start({.listen = options.service.listen, .tls = tls}, {&generation, &drafting}));
  HttpApi api({.model = {.name = options.http_model.empty() ? config.name : options.http_model,
                         .tokenizer = tokenizer.get(),
                         .chat_template = std::move(chat_template),
                         .limits = engine.limits(),
                         .ignore_unknown = options.http_ignore_unknown},
               .tokens = &clients,
               .pad_events = options.pad_responses,
               .tracer = tracer.get()},
              &intake, &text_workers, &http_metrics);
  if (!options.http.empty()) {
    OUTRIDER_TRY(http.Start({.listen = options.http, .tls = tls}, &api));
  }
  server->SetServing(kGenerationService, true);
  server->SetServing(kDraftingService, true);
  Log(LogLevel::kInfo, "serving",
      {{"listen", options.service.listen},
       {"port", server->port()},
       {"metrics_port", exporter != nullptr ? exporter->port() : 0},
       {"http_port", options.http.empty() ? 0 : http.port()}});

  signals.Wait();
  Log(LogLevel::kInfo, "draining", {{"timeout_seconds", options.drain_timeout_seconds}});
  server->SetServing(kGenerationService, false);
  server->SetServing(kDraftingService, false);
  api.Drain();
  thread.Post([&] {
    engine.Drain();
    pool.Drain();
  });
  const Time until =
      clock.Now() + std::chrono::duration_cast<Duration>(
                        std::chrono::duration<double>(options.drain_timeout_seconds));
  const bool all_ended = WaitIdle(thread, engine, until);
  thread.Post([&] { engine.CancelAll(Unavailable("the verifier is shutting down")); });
  const bool texts_ended = text_workers.Stop(kShutdownGrace);
  http.Shutdown(kShutdownGrace);
  if (texts_ended) {
    server->Shutdown(kShutdownGrace);
    thread.Stop();
  }
  Log(LogLevel::kInfo, "stopped", {{"all_ended", all_ended && texts_ended ? "true" : "false"}});
  if (!texts_ended) {
    // A text that is still being tokenized holds a call, and what would be destroyed now.
    if (tracer != nullptr) tracer->Close();
    std::_Exit(0);
  }
  return Status();
}

}  // namespace outrider
