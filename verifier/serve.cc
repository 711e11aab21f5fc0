#include "verifier/serve.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/periodic.h"
#include "common/base/version.h"
#include "common/metrics/exporter.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/readiness.h"
#include "common/metrics/registry.h"
#include "common/model/model_directory.h"
#include "common/model/warm_up.h"
#include "common/net/listener.h"
#include "common/rpc/client_tokens.h"
#include "common/rpc/plaintext.h"
#include "common/rpc/server.h"
#include "common/rpc/service_names.h"
#include "common/rpc/token_file.h"
#include "common/service/open_tracer.h"
#include "common/service/served_model.h"
#include "verifier/chat/answer_reader.h"
#include "verifier/embedded/embedded_drafter.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/generation_defaults.h"
#include "verifier/engine/intake.h"
#include "verifier/engine/text_workers.h"
#include "verifier/engine/vllm_names.h"
#include "verifier/http/api.h"
#include "verifier/http/server.h"
#include "verifier/pool/demand.h"
#include "verifier/rpc/authorization.h"
#include "verifier/rpc/drafting_service.h"
#include "verifier/rpc/generation_service.h"
#include "verifier/status/prefix_page.h"
#include "verifier/status/status_board.h"

namespace outrider {
namespace {

constexpr Duration kShutdownGrace = std::chrono::seconds(1);

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

// Logs how prompts begin and texts end, which the texts themselves do not show.
void LogModelRoles(const ModelConfig& config, const Tokenizer& tokenizer,
                   const ChatTemplate& chat_template, const AnswerFormat& answers) {
  const auto named = [&tokenizer](const std::vector<TokenId>& ids) {
    std::string text;
    for (const TokenId id : ids) {
      text += (text.empty() ? "" : " ") + std::to_string(id) + ":" +
              std::string(tokenizer.IdToToken(id));
    }
    return text.empty() ? "none" : text;
  };
  const Status& chats = chat_template.status();
  Log(LogLevel::kInfo, "prompt and answer formats",
      {{"chat_template", chats.ok() ? "read" : "none, chats are refused: " + chats.message()},
       {"tool_parser", std::string(NameOf(answers.tools))},
       {"reasoning_parser", std::string(NameOf(answers.reasoning))},
       {"tokens_before_prompts", named(tokenizer.prompt_prefix())},
       {"tokens_after_prompts", named(tokenizer.prompt_suffix())},
       {"end_of_sequence_tokens", named(config.eos_token_ids)}});
}

// Harmony has reasoning and calls in messages of one format, so that no other can read either.
Status CheckAnswerFormat(const AnswerFormat& format) {
  const bool are_both =
      format.tools == ToolFormat::kHarmony && format.reasoning == ReasoningFormat::kHarmony;
  const bool is_one =
      format.tools == ToolFormat::kNone || format.reasoning == ReasoningFormat::kNone;
  if (!format.is_harmony() || are_both || is_one) return Status();
  return InvalidArgument("--tool-parser " + std::string(NameOf(format.tools)) +
                         " and --reasoning-parser " + std::string(NameOf(format.reasoning)) +
                         ": openai and openai_gptoss read one format, harmony; give both, none "
                         "for one, or leave both out");
}

// Who may call: certificates and tokens.
struct Access {
  std::shared_ptr<TlsFiles> tls;
  std::unique_ptr<ClientTokens> clients;
  std::unique_ptr<DrafterAuthorization> drafters;
};

Result<Access> OpenAccess(const VerifierOptions& options) {
  Access access;
  OUTRIDER_ASSIGN(access.tls, OpenTlsFiles(options.service.tls));
  OUTRIDER_ASSIGN(std::unique_ptr<TokenFile> client_tokens, OpenTokens(options.client_tokens));
  OUTRIDER_ASSIGN(std::unique_ptr<TokenFile> drafter_tokens, OpenTokens(options.drafter_tokens));
  WarnOfReadableTokens(options);
  access.clients = std::make_unique<ClientTokens>(std::move(client_tokens));
  access.drafters =
      std::make_unique<DrafterAuthorization>(std::move(drafter_tokens), options.drafter_names);
  return access;
}

// What is loaded from the model's directory.
struct Loaded {
  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat_template;
  AnswerFormat answer_format;
  GenerationDefaults defaults;
  std::unique_ptr<Model> model;
  std::vector<PassTime> passes;  // of the model
  std::unique_ptr<grammar::GrammarCache> grammars;
  std::shared_ptr<const VocabularyEntries> vocabulary;  // nullptr: no drafter can translate it

  const ModelConfig& config() const { return model->config(); }
};

// A text may end with the model's end token or a chat's.
Result<std::unique_ptr<grammar::GrammarCache>> OpenGrammars(const Loaded& loaded) {
  std::vector<TokenId> ends = loaded.config().eos_token_ids;
  for (const TokenId id : loaded.chat_template.EndTokens(*loaded.tokenizer)) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  return grammar::GrammarCache::Create(*loaded.tokenizer, ends, loaded.config().vocab_size);
}

std::shared_ptr<const VocabularyEntries> TargetVocabularyOf(const Loaded& loaded) {
  Result<VocabularyEntries> entries = VocabularyEntries::FromTokenizer(
      *loaded.tokenizer, loaded.config().vocab_size, loaded.config().eos_token_ids);
  if (entries.ok()) return std::make_shared<const VocabularyEntries>(std::move(entries).value());
  Log(LogLevel::kWarning, "drafters of another vocabulary will be refused",
      {{"reason", entries.status().message()}});
  return nullptr;
}

Result<Loaded> Load(const VerifierOptions& options, const StopOnSignal& signals,
                    const ModelLoader& load_model) {
  const std::string& directory = options.service.model;
  Loaded loaded;
  // Checks the architecture first, so that an unknown one does not fail with a message about its
  // tokenizer.
  OUTRIDER_TRY(CheckModelDirectory(directory));
  OUTRIDER_ASSIGN(loaded.tokenizer, Tokenizer::Load(directory));
  OUTRIDER_ASSIGN(loaded.chat_template, ChatTemplate::Load(directory, options.chat_template));
  const std::string& text = loaded.chat_template.text_with_tools();
  loaded.answer_format = {
      .tools = options.tool_parser.value_or(DetectToolFormat(text)),
      .reasoning = options.reasoning_parser.value_or(DetectReasoningFormat(text))};
  OUTRIDER_TRY(CheckAnswerFormat(loaded.answer_format));
  if (options.generation_config) {
    OUTRIDER_ASSIGN(loaded.defaults, LoadGenerationDefaults(directory));
  }
  OUTRIDER_ASSIGN(loaded.model, load_model(options.service, options.engine.scheduler.token_budget,
                                           signals.token()));
  // Drafts have a few rows. If the model is too slow to time that many, real steps will tell.
  constexpr int kMostRows = 16;
  constexpr double kMostSeconds = 0.5;
  if (options.policy == "adaptive") {
    OUTRIDER_ASSIGN(loaded.passes, TimePasses(loaded.model.get(), kMostRows, kMostSeconds));
  }
  OUTRIDER_ASSIGN(loaded.grammars, OpenGrammars(loaded));
  loaded.vocabulary = TargetVocabularyOf(loaded);
  LogModelRoles(loaded.config(), *loaded.tokenizer, loaded.chat_template, loaded.answer_format);
  return loaded;
}

std::vector<std::string> ArmNames(const EngineOptions& options) {
  std::vector<std::string> names;
  if (!options.planner.has_value()) return names;
  for (const Arm& arm : ServedArms(*options.planner)) names.push_back(arm.name);
  return names;
}

// nullptr: nothing of the prefix cache is listed.
std::shared_ptr<PrefixDigest> MakePrefixDigest(const VerifierOptions& options,
                                               const Loaded& loaded) {
  if (!options.prefix_digest) return nullptr;
  return std::make_shared<PrefixDigest>(std::min(loaded.model->total_pages(), kMaxListedPrefixes));
}

EngineOptions EngineOptionsOf(const VerifierOptions& options, const Loaded& loaded,
                              PrefixDigest* digest, Tracer* tracer) {
  EngineOptions engine = options.engine;
  engine.admission.prefix_digest = digest;
  engine.tracer = tracer;
  engine.defaults = loaded.defaults;
  if (engine.planner.has_value()) engine.planner->passes = loaded.passes;
  return engine;
}

TargetIdentity IdentityOf(const Loaded& loaded) {
  return {.model = loaded.config().name,
          .tokenizer = loaded.tokenizer->fingerprint(),
          .vocab_size = loaded.config().vocab_size,
          .vocabulary = loaded.vocabulary};
}

// GET /metrics of the HTTP front; nullptr: it is off.
std::function<HttpReply()> MetricsPageOf(const VerifierOptions& options,
                                         MetricsRegistry& registry) {
  if (!options.http_metrics) return nullptr;
  return [page = MetricsExporter::MetricsOf(
              registry, options.vllm_metrics ? VllmAliases() : MetricAliases())] {
    MetricsPage metrics = page();
    return HttpReply{.content_type = std::move(metrics.content_type),
                     .body = std::move(metrics.body)};
  };
}

// The headers that let pages of `origin` read answers.
HttpHeaders CorsHeaders(const std::string& origin) {
  if (origin.empty()) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Expose-Headers", "Retry-After, x-request-id, x-outrider-prefix"}};
}

// The engine, its drafters, and the fronts that bring it requests. Members are declared in the
// order in which each may outlive the next.
class Services {
 public:
  // All must outlive it. `exporter` and `tracer` may be nullptr.
  Services(const VerifierOptions& options, const Access& access, const Loaded& loaded,
           MetricsRegistry& registry, VerifierMetrics* metrics, MetricsExporter* exporter,
           Tracer* tracer)
      : options_(options),
        access_(access),
        loaded_(loaded),
        metrics_(metrics),
        exporter_(exporter),
        ready_(exporter, "draining or not serving yet"),
        http_metrics_(registry),
        pool_(IdentityOf(loaded), options.distribution_limits, metrics, &clock_,
              {.min_draft_wait = options.min_draft_wait_seconds,
               .max_drafters = options.max_drafters,
               .zone = options.zone}),
        prefixes_(MakePrefixDigest(options, loaded)),
        engine_(EngineOptionsOf(options, loaded, prefixes_.get(), tracer), loaded.model.get(),
                loaded.tokenizer.get(), &pool_, metrics, &clock_),
        thread_(&engine_),
        intake_(&engine_, &thread_),
        text_workers_({}, &clock_, metrics),
        client_authorization_(access.clients.get()),
        generation_({.tokenizer = loaded.tokenizer.get(),
                     .config = loaded.config(),
                     .limits = engine_.limits(),
                     .version = kVersion,
                     .authorization = &client_authorization_,
                     .pad_responses = options.pad_responses,
                     .tracer = tracer,
                     .text_workers = &text_workers_,
                     .grammars = loaded.grammars.get()},
                    &engine_, &pool_.roster(), &thread_, &intake_),
        drafting_(access.drafters.get(), metrics, &pool_, &thread_),
        api_({.model = {.name =
                            options.http_model.empty() ? loaded.config().name : options.http_model,
                        .tokenizer = loaded.tokenizer.get(),
                        .chat_template = loaded.chat_template,
                        .answer_format = loaded.answer_format,
                        .limits = engine_.limits(),
                        .grammars = loaded.grammars.get(),
                        .ignore_unknown = options.http_ignore_unknown},
              .tokens = access.clients.get(),
              .pad_events = options.pad_responses,
              .tracer = tracer,
              .version = kVersion,
              .page_tokens = loaded.model->page_tokens(),
              .metrics = MetricsPageOf(options, registry),
              .cors_origin = options.http_cors},
             &intake_, &text_workers_, &http_metrics_) {
    pool_.set_consumer(&engine_.draft_consumer());
  }

  // Opens the ports. `kv_bytes`: host memory that the target's cache may take.
  Status Start(const StopOnSignal& signals, int64_t kv_bytes);
  // Waits for accepted requests, and until their answers are sent, up to the drain time, then ends
  // the rest. `signal`: that asked for it. Returns false if a text is still being tokenized: that
  // thread holds a call, so nothing may be destroyed.
  [[nodiscard]] bool Stop(int signal);

 private:
  // Whether no request is left, no text is being tokenized and no answer is being sent.
  bool IsIdle();
  // Returns false if the time is over first.
  bool AwaitIdle(Time until);
  void SetServing(bool serving);

  const VerifierOptions& options_;
  const Access& access_;
  const Loaded& loaded_;
  VerifierMetrics* const metrics_;
  MetricsExporter* const exporter_;
  Readiness ready_;
  const SteadyClock clock_;
  HttpServer http_;  // before the engine: sessions hold its exchanges
  HttpMetrics http_metrics_;
  DrafterPool pool_;
  const std::shared_ptr<PrefixDigest> prefixes_;  // nullptr: not listed
  Engine engine_;
  EngineThread thread_;
  std::unique_ptr<EmbeddedDrafter> embedded_;
  std::optional<StatusBoard> board_;
  std::optional<Periodic> demand_;
  Intake intake_;
  TextWorkers text_workers_;
  const ClientAuthorization client_authorization_;
  GenerationService generation_;
  DraftingService drafting_;
  std::unique_ptr<RpcServer> server_;
  HttpApi api_;
};

Status Services::Start(const StopOnSignal& signals, int64_t kv_bytes) {
  if (!options_.embedded.service.model.empty()) {
    OUTRIDER_ASSIGN(embedded_, EmbeddedDrafter::Start(options_.embedded, kv_bytes, &pool_, &thread_,
                                                      &clock_, signals.token()));
  }
  OUTRIDER_ASSIGN(server_, RpcServer::Start({.listen = options_.service.listen, .tls = access_.tls},
                                            {&generation_, &drafting_}));
  if (!options_.http.empty()) {
    OUTRIDER_TRY(http_.Start(
        {.listen = options_.http, .tls = access_.tls, .headers = CorsHeaders(options_.http_cors)},
        &api_));
  }
  demand_.emplace(kDemandPeriod, [this] {
    // An engine that is too busy to take the task tells the drafters later.
    (void)thread_.TryPost([this] {
      pool_.roster().TellDemand({.running = engine_.running(), .waiting = engine_.waiting()});
    });
  });
  if (exporter_ != nullptr) {
    board_.emplace(
        StatusBoard::Watched{
            .engine = &engine_, .roster = &pool_.roster(), .metrics = metrics_, .thread = &thread_},
        StatusHistory::Served{.model = loaded_.config().name,
                              .version = kVersion,
                              .policy = options_.policy,
                              .arms = ArmNames(options_.engine),
                              .port = server_->port()});
    board_->ServeOn(*exporter_);
    if (prefixes_ != nullptr) {
      ServePrefixPage(*exporter_, loaded_.config().name, loaded_.model->page_tokens(), prefixes_);
    }
  }
  SetServing(true);
  Log(LogLevel::kInfo, "serving",
      {{"listen", options_.service.listen},
       {"port", server_->port()},
       {"metrics_port", exporter_ != nullptr ? exporter_->port() : 0},
       {"http_port", options_.http.empty() ? 0 : http_.port()}});
  return Status();
}

void Services::SetServing(bool serving) {
  server_->SetServing(kGenerationService, serving);
  server_->SetServing(kDraftingService, serving);
  ready_.Set(serving);
}

bool Services::IsIdle() {
  std::promise<bool> idle;
  thread_.Post([&] { idle.set_value(engine_.idle()); });
  return idle.get_future().get() && generation_.open_calls() == 0 && http_.answers() == 0 &&
         text_workers_.idle();
}

bool Services::AwaitIdle(Time until) {
  constexpr auto kPoll = std::chrono::milliseconds(10);
  while (!IsIdle()) {
    if (clock_.Now() >= until) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

bool Services::Stop(int signal) {
  SetServing(false);
  api_.Drain();
  http_.Drain();
  text_workers_.Drain();
  std::promise<std::pair<int, int>> requests;  // running and waiting
  thread_.Post([&] {
    engine_.Drain();
    pool_.roster().Drain();
    requests.set_value({engine_.running(), engine_.waiting()});
  });
  const auto [running, waiting] = requests.get_future().get();
  Log(LogLevel::kInfo, "draining",
      {{"signal", SignalName(signal)},
       {"running", running},
       {"waiting", waiting},
       {"timeout_seconds", options_.drain_timeout_seconds},
       {"second_signal", "ends the process at once"}});
  const Time until = clock_.Now() + FromSeconds(options_.drain_timeout_seconds);
  const bool all_ended = AwaitIdle(until);
  thread_.Post([this] { engine_.CancelAll(Unavailable("the verifier is shutting down")); });
  const bool texts_ended = text_workers_.Stop(kShutdownGrace);
  http_.Shutdown(kShutdownGrace);
  if (texts_ended) {
    server_->Shutdown(kShutdownGrace);
    thread_.Stop();
  }
  Log(LogLevel::kInfo, "stopped", {{"all_requests_finished", all_ended && texts_ended}});
  return texts_ended;
}

}  // namespace

Status Serve(const VerifierOptions& options, const StopOnSignal& signals,
             const ModelLoader& load_model) {
  // Checks what can fail at once before the model, which takes longer.
  OUTRIDER_ASSIGN(const Access access, OpenAccess(options));
  OUTRIDER_TRY(CheckCanListen({{"--listen", options.service.listen},
                               {"--metrics", options.service.metrics},
                               {"--http", options.http}}));
  OUTRIDER_ASSIGN(const Loaded loaded, Load(options, signals, load_model));
  MetricsRegistry registry(MetricLabels{{"model_name", loaded.config().name}});
  AddProcessMetrics(registry);
  VerifierMetrics metrics(registry, ArmNames(options.engine));
  ExportConfig(registry,
               {.page_tokens = loaded.model->page_tokens(),
                .pages = loaded.model->total_pages(),
                .devices = std::max(1, static_cast<int>(options.service.devices.size()))});
  OUTRIDER_ASSIGN(const std::unique_ptr<Tracer> tracer,
                  OpenTracer(options.service, "outrider-verifier", "", options.trace_sample_ratio,
                             metrics.trace_spans));
  std::unique_ptr<MetricsExporter> exporter;
  if (!options.service.metrics.empty()) {
    OUTRIDER_ASSIGN(exporter,
                    MetricsExporter::Start(options.service.metrics, registry,
                                           options.vllm_metrics ? VllmAliases() : MetricAliases()));
  }
  Services services(options, access, loaded, registry, &metrics, exporter.get(), tracer.get());
  OUTRIDER_TRY(services.Start(signals, KvBytes(options.service, *loaded.model)));
  signals.Wait();
  if (!services.Stop(signals.signal())) {
    if (tracer != nullptr) tracer->Close();
    std::_Exit(0);
  }
  return Status();
}

}  // namespace outrider
