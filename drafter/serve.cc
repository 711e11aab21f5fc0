#include "drafter/serve.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/metrics/exporter.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "common/model/acceptance_head.h"
#include "common/model/model_directory.h"
#include "common/model/model_fingerprint.h"
#include "common/net/listener.h"
#include "common/rpc/plaintext.h"
#include "common/rpc/server.h"
#include "common/rpc/token_file.h"
#include "common/service/host_and_pid.h"
#include "common/service/open_tracer.h"
#include "common/service/served_model.h"
#include "common/text/tokenizer.h"
#include "common/training/head_data.h"
#include "drafter/metrics.h"
#include "drafter/observers.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/propose/head_recorder.h"
#include "drafter/rpc/verifier_links.h"

namespace outrider {
namespace {

constexpr int kExitRefused = 3;
constexpr Duration kShutdownGrace = std::chrono::seconds(1);

// The token must exist from the start, and should not cross the network in plaintext.
Status CheckToken(const DrafterOptions& options) {
  if (options.token_file.empty()) return Status();
  OUTRIDER_TRY(ReadToken(options.token_file).status());
  for (const VerifierTarget& target : options.verifiers) {
    // A file may name any address later.
    const bool local = target.kind != VerifierTarget::Kind::kFile && IsLoopback(target.text);
    if (!options.service.tls.ca.empty() || local || !options.service.allow_plaintext) continue;
    Log(LogLevel::kWarning, "the token goes over the network in plaintext: give --tls-ca",
        {{"verifier", target.text}});
  }
  return Status();
}

// nullopt: the model has none.
Result<std::optional<AcceptanceHead>> LoadHead(const DrafterOptions& options, int hidden_size) {
  std::optional<AcceptanceHead> head;
  if (options.acceptance_head.empty()) {
    OUTRIDER_ASSIGN(head, AcceptanceHead::LoadBeside(options.service.model, hidden_size));
  } else {
    OUTRIDER_ASSIGN(head, AcceptanceHead::Load(options.acceptance_head, hidden_size));
  }
  if (head.has_value()) Log(LogLevel::kInfo, "acceptance head loaded", {{"depth", head->depth}});
  return head;
}

// Null: no data is collected.
Result<std::unique_ptr<HeadRecorder>> OpenRecorder(const DrafterOptions& options, int hidden_size) {
  if (options.collect_head_data.empty()) return std::unique_ptr<HeadRecorder>();
  OUTRIDER_ASSIGN(const uint64_t fingerprint, ModelFingerprint(options.service.model));
  OUTRIDER_ASSIGN(std::unique_ptr<HeadDataWriter> writer,
                  HeadDataWriter::Open(options.collect_head_data, hidden_size, fingerprint));
  Log(LogLevel::kInfo, "collecting head data",
      {{"file", options.collect_head_data}, {"examples", writer->examples()}});
  return std::make_unique<HeadRecorder>(std::move(writer), options.collect_head_examples);
}

// What is loaded from the model's directory, and the file that drafting writes.
struct Loaded {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::shared_ptr<const DrafterVocabulary> vocabulary;  // nullptr: it cannot be translated
  std::optional<AcceptanceHead> head;
  std::unique_ptr<HeadRecorder> recorder;  // nullptr: no data is collected
  std::unique_ptr<grammar::GrammarCache> grammars;

  const ModelConfig& config() const { return model->config(); }
};

// The tokens of a forward pass: every session can draft in one, and every plan's widest depth fits.
int StepTokens(const DrafterOptions& options) {
  return std::max(
      {DraftLoopOptions{}.max_step_tokens, options.max_sessions, options.max_draft_tokens});
}

Result<Loaded> Load(const DrafterOptions& options, const StopOnSignal& signals,
                    const ModelLoader& load_model) {
  const std::string& directory = options.service.model;
  Loaded loaded;
  OUTRIDER_TRY(CheckModelDirectory(directory));
  OUTRIDER_ASSIGN(loaded.tokenizer, Tokenizer::Load(directory));
  OUTRIDER_ASSIGN(loaded.model, load_model(options.service, StepTokens(options), signals.token()));
  loaded.vocabulary = VocabularyOf(*loaded.tokenizer, loaded.config());
  OUTRIDER_ASSIGN(loaded.head, LoadHead(options, loaded.config().hidden_size));
  OUTRIDER_ASSIGN(loaded.recorder, OpenRecorder(options, loaded.config().hidden_size));
  OUTRIDER_ASSIGN(loaded.grammars,
                  grammar::GrammarCache::Create(*loaded.tokenizer, loaded.config().eos_token_ids,
                                                loaded.config().vocab_size));
  return loaded;
}

DraftLoopOptions LoopOptionsOf(const DrafterOptions& options, const Loaded& loaded,
                               Tracer* tracer) {
  return {.max_sessions = options.max_sessions,
          .max_draft_length = options.max_draft_length,
          .max_draft_tokens = options.max_draft_tokens,
          .chunk_depths = options.chunk_depths,
          .ahead_tokens = options.ahead_tokens,
          .max_ahead_rows = options.max_ahead_rows,
          .tokenizer_vocab = loaded.tokenizer->vocab_size(),
          .prefix_cache = options.prefix_cache,
          .max_step_tokens = StepTokens(options),
          .head = loaded.head.has_value() ? &*loaded.head : nullptr,
          .recorder = loaded.recorder.get(),
          .tracer = tracer,
          .grammars = loaded.grammars.get()};
}

DrafterHello HelloOf(const DrafterOptions& options, const Loaded& loaded) {
  const Model& model = *loaded.model;
  return {.name = options.name.empty() ? HostAndPid() : options.name,
          .model = loaded.config().name,
          .tokenizer = loaded.tokenizer->fingerprint(),
          .vocab_size = loaded.config().vocab_size,
          .max_sessions = options.max_sessions,
          .max_draft_length = options.max_draft_length,
          .max_draft_tokens = options.max_draft_tokens,
          .max_context = std::min(loaded.config().max_position_embeddings,
                                  model.total_pages() * model.page_tokens()),
          .acceptance_head = loaded.head.has_value(),
          .translates = loaded.vocabulary != nullptr};
}

VerifierLinksOptions LinkOptionsOf(const DrafterOptions& options, const Loaded& loaded,
                                   const DrafterHello& hello, std::shared_ptr<TlsFiles> tls) {
  // Drafters may share a name, but must not share their ranks of the verifiers.
  const std::string identity = hello.name + " " + HostAndPid();
  return {
      .targets = options.verifiers,
      .link = {.dial = {.hello = hello,
                        .vocabulary = loaded.vocabulary,
                        .tls = options.service.tls.ca.empty() ? nullptr : std::move(tls),
                        .tls_server_name = options.tls_server_name,
                        .token_file = options.token_file}},
      .subset = {.drafter = identity,
                 .size = options.subset,
                 .zone = options.zone,
                 .rebalance = FromSeconds(options.rebalance_seconds)},
      .refresh = FromSeconds(options.resolve_seconds),
      .admit = [&options](const std::string& address) { return CheckVerifier(options, address); }};
}

// nullptr: no port is configured.
Result<std::unique_ptr<MetricsExporter>> StartExporter(const DrafterOptions& options,
                                                       MetricsRegistry& registry) {
  if (options.service.metrics.empty()) return std::unique_ptr<MetricsExporter>();
  return MetricsExporter::Start(options.service.metrics, registry);
}

// For health checks. nullptr: no port is configured.
Result<std::unique_ptr<RpcServer>> StartServer(const DrafterOptions& options,
                                               std::shared_ptr<TlsFiles> tls) {
  if (options.service.listen.empty()) return std::unique_ptr<RpcServer>();
  if (options.service.tls.cert.empty()) tls = nullptr;
  return RpcServer::Start({.listen = options.service.listen, .tls = std::move(tls)}, {});
}

// `targets`: entries of --verifier. `server`, `exporter`: nullptr if their ports are off.
void LogStart(const std::string& name, size_t targets, const RpcServer* server,
              const MetricsExporter* exporter) {
  std::vector<LogField> fields = {{"name", name}, {"targets", targets}};
  if (server != nullptr) fields.emplace_back("port", server->port());
  if (exporter != nullptr) fields.emplace_back("metrics_port", exporter->port());
  Log(LogLevel::kInfo, "started", fields);
}

}  // namespace

Result<int> Serve(const DrafterOptions& options, const StopOnSignal& signals,
                  const ModelLoader& load_model) {
  // Checks what can fail at once before the model, which takes longer.
  OUTRIDER_TRY(CheckToken(options));
  OUTRIDER_ASSIGN(const std::shared_ptr<TlsFiles> tls, OpenTlsFiles(options.service.tls));
  OUTRIDER_TRY(CheckCanListen(
      {{"--listen", options.service.listen}, {"--metrics", options.service.metrics}}));
  OUTRIDER_ASSIGN(const Loaded loaded, Load(options, signals, load_model));
  MetricsRegistry registry(MetricLabels{{"model_name", loaded.config().name}});
  AddProcessMetrics(registry);
  DrafterMetrics metrics(registry);
  OUTRIDER_ASSIGN(const std::unique_ptr<Tracer> tracer,
                  OpenTracer(options.service, "outrider-drafter", options.name,
                             /*sample_ratio=*/0,  // it begins no traces
                             metrics.trace_spans));
  OUTRIDER_ASSIGN(const std::unique_ptr<MetricsExporter> exporter,
                  StartExporter(options, registry));
  OUTRIDER_ASSIGN(const std::unique_ptr<RpcServer> server, StartServer(options, tls));

  const SteadyClock clock;
  LoopMetrics loop_metrics(&metrics);
  Attachments attachments(&metrics, server.get(), exporter.get(), options.exit_on_refusal);
  DraftLoop loop(loaded.model.get(), LoopOptionsOf(options, loaded, tracer.get()), &clock,
                 &loop_metrics);
  std::thread owner([&loop] { loop.Run(); });
  const DrafterHello hello = HelloOf(options, loaded);
  VerifierLinks links(LinkOptionsOf(options, loaded, hello, tls), &loop, &attachments);
  LogStart(hello.name, options.verifiers.size(), server.get(), exporter.get());

  signals.Wait();
  // A refusal raises the signal itself.
  Log(LogLevel::kInfo, "stopping",
      {attachments.refused() ? LogField("reason", "refused")
                             : LogField("signal", SignalName(signals.signal()))});
  attachments.Drain();
  // Before the loop: a stream that waits for room ends once the loop has handled its events.
  links.Stop();
  loop.Stop();
  owner.join();
  if (server != nullptr) server->Shutdown(kShutdownGrace);
  Log(LogLevel::kInfo, "stopped");
  return attachments.refused() ? kExitRefused : 0;
}

}  // namespace outrider
