// outrider-drafter: parses flags, builds the objects, waits for a signal, closes its streams.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/file_limit.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/metrics/exporter.h"
#include "common/metrics/registry.h"
#include "common/model/acceptance_head.h"
#include "common/model/model_directory.h"
#include "common/model/model_fingerprint.h"
#include "common/rpc/library_logs.h"
#include "common/rpc/plaintext.h"
#include "common/rpc/server.h"
#include "common/rpc/token_file.h"
#include "common/service/open_tracer.h"
#include "common/service/service_options.h"
#include "common/spec/head_data.h"
#include "common/text/tokenizer.h"
#include "drafter/metrics.h"
#include "drafter/observers.h"
#include "drafter/options.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/propose/head_recorder.h"
#include "drafter/rpc/verifier_links.h"

namespace outrider {
namespace {

constexpr int kExitRefused = 3;
constexpr Duration kShutdownGrace = std::chrono::seconds(1);

std::string DefaultName() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

// The token must be there from the start, and is better not shown to the network.
Status CheckToken(const DrafterOptions& options) {
  if (options.token_file.empty()) return Status();
  OUTRIDER_TRY(ReadToken(options.token_file).status());
  for (const VerifierTarget& target : options.verifiers) {
    // A file may come to name any address.
    const bool local = target.kind != VerifierTarget::Kind::kFile && IsLoopback(target.text);
    if (!options.service.tls.ca.empty() || local || !options.service.allow_plaintext) continue;
    Log(LogLevel::kWarning, "the token goes over the network in plaintext: give --tls-ca",
        {{"verifier", target.text}});
  }
  return Status();
}

// No value: the model has none.
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

// Null: nothing is to be collected.
Result<std::unique_ptr<HeadRecorder>> OpenRecorder(const DrafterOptions& options, int hidden_size) {
  if (options.collect_head_data.empty()) return std::unique_ptr<HeadRecorder>();
  OUTRIDER_ASSIGN(const uint64_t fingerprint, ModelFingerprint(options.service.model));
  OUTRIDER_ASSIGN(std::unique_ptr<HeadDataWriter> writer,
                  HeadDataWriter::Open(options.collect_head_data, hidden_size, fingerprint));
  Log(LogLevel::kInfo, "collecting head data",
      {{"file", options.collect_head_data}, {"examples", writer->examples()}});
  return std::make_unique<HeadRecorder>(std::move(writer), options.collect_head_examples);
}

Result<int> Run(const DrafterOptions& options, const StopOnSignal& signals) {
  OUTRIDER_TRY(CheckToken(options));
  OUTRIDER_ASSIGN(const std::shared_ptr<TlsFiles> tls, OpenTlsFiles(options.service.tls));
  OUTRIDER_TRY(CheckModelDirectory(options.service.model));
  OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer,
                  Tokenizer::Load(options.service.model));
  DraftLoopOptions loop_options{.max_sessions = options.max_sessions,
                                .max_draft_length = options.max_draft_length,
                                .max_draft_tokens = options.max_draft_tokens,
                                .chunk_depths = options.chunk_depths,
                                .ahead_tokens = options.ahead_tokens,
                                .max_ahead_rows = options.max_ahead_rows,
                                .tokenizer_vocab = tokenizer->vocab_size()};
  // Every session can draft in one pass, and every plan's widest depth fits into one.
  loop_options.max_step_tokens =
      std::max({loop_options.max_step_tokens, options.max_sessions, options.max_draft_tokens});
  OUTRIDER_ASSIGN(const std::unique_ptr<Model> model,
                  LoadServedModel(options.service, loop_options.max_step_tokens, signals.token()));
  const ModelConfig& config = model->config();
  OUTRIDER_ASSIGN(const std::optional<AcceptanceHead> head, LoadHead(options, config.hidden_size));
  loop_options.head = head.has_value() ? &*head : nullptr;
  OUTRIDER_ASSIGN(const std::unique_ptr<HeadRecorder> recorder,
                  OpenRecorder(options, config.hidden_size));
  loop_options.recorder = recorder.get();

  MetricsRegistry registry;
  DrafterMetrics metrics(registry, config.name);
  OUTRIDER_ASSIGN(const std::unique_ptr<Tracer> tracer,
                  OpenTracer(options.service, "outrider-drafter", options.name,
                             /*sample_ratio=*/0,  // it begins no traces
                             metrics.trace_spans_total, metrics.trace_spans_dropped_total));
  loop_options.tracer = tracer.get();
  std::unique_ptr<MetricsExporter> exporter;
  if (!options.service.metrics.empty()) {
    OUTRIDER_ASSIGN(exporter, MetricsExporter::Start(options.service.metrics, registry));
  }
  std::unique_ptr<RpcServer> server;
  if (!options.service.listen.empty()) {
    OUTRIDER_ASSIGN(server,
                    RpcServer::Start({.listen = options.service.listen,
                                      .tls = options.service.tls.cert.empty() ? nullptr : tls},
                                     {}));
  }

  const SteadyClock clock;
  LoopMetrics loop_metrics(&metrics);
  Attachments attachments(&metrics, server.get(), options.exit_on_refusal);
  DraftLoop loop(model.get(), loop_options, &clock, &loop_metrics);
  std::thread owner([&loop] { loop.Run(); });

  const DrafterIdentity identity{
      .name = options.name.empty() ? DefaultName() : options.name,
      .model = config.name,
      .tokenizer = tokenizer->fingerprint(),
      .vocab_size = config.vocab_size,
      .max_sessions = options.max_sessions,
      .max_draft_length = options.max_draft_length,
      .max_draft_tokens = options.max_draft_tokens,
      .max_context =
          std::min(config.max_position_embeddings, model->total_pages() * model->page_tokens()),
      .acceptance_head = head.has_value()};
  VerifierLinks links(
      {.targets = options.verifiers,
       .link = {.identity = identity,
                .tls = options.service.tls.ca.empty() ? nullptr : tls,
                .tls_server_name = options.tls_server_name,
                .token_file = options.token_file},
       .refresh = std::chrono::duration_cast<Duration>(
           std::chrono::duration<double>(options.resolve_seconds)),
       .admit = [&options](const std::string& address) { return CheckVerifier(options, address); }},
      &loop, &attachments);
  Log(LogLevel::kInfo, "drafting",
      {{"name", identity.name},
       {"targets", options.verifiers.size()},
       {"port", server != nullptr ? server->port() : 0},
       {"metrics_port", exporter != nullptr ? exporter->port() : 0}});

  signals.Wait();
  Log(LogLevel::kInfo, "stopping");
  attachments.Drain();
  links.Stop();
  loop.Stop();
  owner.join();
  if (server != nullptr) server->Shutdown(kShutdownGrace);
  Log(LogLevel::kInfo, "stopped");
  return attachments.refused() ? kExitRefused : 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::DrafterOptions options;
  if (const auto code = outrider::ParseDrafterOptions(argc, argv, &options)) return *code;
  outrider::SetLogLevel(options.service.log_level);
  outrider::SetLogJson(options.service.log_json);
  outrider::RaiseFileLimit();
  outrider::TakeLibraryLogs();
  outrider::IgnoreBrokenPipes();
  const outrider::StopOnSignal signals;  // before any thread starts
  const outrider::Result<int> code = outrider::Run(options, signals);
  if (!code.ok()) {
    std::fprintf(stderr, "outrider-drafter: %s\n", code.status().ToString().c_str());
    return 1;
  }
  return *code;
}
