#include "common/service/service_options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <utility>

#include "common/backend/create_backend.h"
#include "common/base/version.h"
#include "common/command_line/command_line.h"
#include "common/net/address.h"
#include "common/rpc/plaintext.h"
#include "common/trace_http/http_post.h"

namespace outrider {
namespace {

void AddModelFlags(CLI::App& app, ServiceOptions* o) {
  const std::map<std::string, WeightType> weight_types{{"bf16", WeightType::kBf16},
                                                       {"f16", WeightType::kF16},
                                                       {"f32", WeightType::kF32},
                                                       {"int8", WeightType::kW8A8},
                                                       {"int4", WeightType::kW4A16}};
  app.option_defaults()->group("Model");
  app.add_option(
         "--model", o->model,
         "Directory of the model: config.json, *.safetensors, tokenizer.json; or a GGUF file")
      ->required();
  app.add_option("--device", o->device, "Where the model runs: cpu, or cuda:N for a CUDA device")
      ->check([](const std::string& name) { return CheckDeviceName(name).message(); });
  app.add_option(
         "--memory-fraction", o->memory_fraction,
         "Share of a CUDA device's memory that may be used, by other programs too; the KV cache "
         "gets what weights and activations leave of it")
      ->check(Between(0.05, 1));
  app.add_option(
         "--cuda-graphs", o->cuda_graphs,
         "Whether a CUDA device captures forward passes of up to 256 rows as graphs at start "
         "and replays each with one launch: true or false")
      ->default_str(o->cuda_graphs ? "true" : "false");
  app.add_option("--threads", o->threads, "Compute threads of the CPU")->check(CLI::Range(1, 256));
  app.add_option("--cores", o->cores, "Cores to pin the compute threads to, e.g. 0,1; none: free")
      ->delimiter(',')
      ->check(AtLeast(0));
  app.add_option_function<std::string>(
         "--weights",
         [o, weight_types](const std::string& name) { o->weights = weight_types.at(name); },
         "How weights that are stored as floats are kept: bf16, f32 (exact), f16 (on a GPU), "
         "int8 or int4 (smaller, approximate)")
      ->default_str("bf16")
      ->check(CLI::IsMember(weight_types));
  app.add_flag(
      "--bf16-activations", o->bf16_activations,
      "Round the activations of matrix products to bf16 too, as GPUs do: up to twice as fast "
      "where the processor multiplies bf16 (AVX512_BF16), no effect elsewhere");
  app.add_flag(
      "--int8-activations", o->int8_activations,
      "Round the activations of products with weights in 4 and 8 bits, except for FP8, to 8 bits, "
      "with a scale for each group of inputs: several rows are up to 2.7 times as fast where the "
      "processor has AVX512_VNNI, no effect elsewhere");
  app.add_flag(
      "--fp8-activations", o->fp8_activations,
      "On a CUDA device, round the activations of products with FP8 weights to FP8 too, with a "
      "power of two for each row: products of many rows then multiply FP8 with FP8 where the "
      "device can. For weights with one scale an output, a matrix or a block of 128 x 128; a draft "
      "model's are not affected");
  const std::map<std::string, std::optional<KvType>> kv_types{{"auto", std::nullopt},
                                                              {"f32", KvType::kF32},
                                                              {"bf16", KvType::kBf16},
                                                              {"fp8", KvType::kFp8}};
  app.add_option_function<std::string>(
         "--kv-cache-dtype",
         [o, kv_types](const std::string& name) { o->kv_cache = kv_types.at(name); },
         "What keys and values are kept as: f32, bf16, fp8 (a byte each, approximate) or auto (f32 "
         "on the CPU, the floats of --weights on a CUDA device)")
      ->default_str("auto")
      ->check(CLI::IsMember(kv_types));
  app.add_option(
         "--kv-tokens", o->kv_tokens,
         "Tokens that the KV cache holds over all sessions; 0: 64 times the longest context, at "
         "most 262,144, or on a CUDA device as many as --memory-fraction leaves room for")
      ->check(CLI::Range(0, 1 << 28));
}

void AddNetworkFlags(CLI::App& app, ServiceOptions* o) {
  app.option_defaults()->group("Network");
  app.add_option("--listen", o->listen, "host:port of the gRPC server; port 0: any free port");
  app.add_option("--metrics", o->metrics,
                 "host:port of the Prometheus endpoint (/metrics); empty: none");
  app.option_defaults()->group("Security");
  app.add_option("--tls-cert", o->tls.cert,
                 "PEM file of this service's certificate, followed by intermediate ones: --listen "
                 "then speaks TLS, and peers that it dials may ask for it. All TLS files are read "
                 "again when they change");
  app.add_option("--tls-key", o->tls.key,
                 "PEM file of the private key of --tls-cert, without a passphrase");
  app.add_flag("--allow-plaintext", o->allow_plaintext,
               "Speak plaintext beyond this machine where no TLS is configured");
}

void AddObservabilityFlags(CLI::App& app, ServiceOptions* o) {
  const std::map<std::string, LogLevel> log_levels{{"debug", LogLevel::kDebug},
                                                   {"info", LogLevel::kInfo},
                                                   {"warning", LogLevel::kWarning},
                                                   {"error", LogLevel::kError}};
  app.option_defaults()->group("Observability");
  CLI::Option* const trace_file = app.add_option(
      "--trace-file", o->trace_file,
      "File to which spans of requests are appended, as OTLP in JSON, one line for each export; "
      "empty: none");
  app.add_option(
         "--trace-endpoint", o->trace_endpoint,
         "URL of a collector to which spans of requests are sent, as OTLP in JSON over HTTP "
         "or HTTPS, e.g. http://localhost:4318/v1/traces; empty: none")
      ->check([](const std::string& url) {
        return url.empty() ? std::string() : CheckHttpUrl(url).message();
      });
  app.add_option(
         "--trace-max-mb", o->trace_max_mb,
         "MiB that --trace-file and the file before it (its name with .1 added) take at most")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(trace_file);
  app.add_option_function<std::string>(
         "--log-level",
         [o, log_levels](const std::string& name) { o->log_level = log_levels.at(name); },
         "debug, info, warning or error")
      ->default_str("info")
      ->check(CLI::IsMember(log_levels));
  app.add_flag("--log-json", o->log_json, "Log one JSON object a line");
}

}  // namespace

void AddServiceFlags(CLI::App& app, ServiceOptions* o) {
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", kVersion);
  AddConfigFlag(app);
  AddModelFlags(app, o);
  AddNetworkFlags(app, o);
  AddObservabilityFlags(app, o);
}

Status CheckModelFlags(const ServiceOptions& options) {
  if (!options.fp8_activations) return Status();
  if (!CudaDeviceOf(options.device).has_value()) {
    return InvalidArgument("--fp8-activations needs a CUDA device, but --device is " +
                           options.device);
  }
  if (options.weights == WeightType::kF32 || options.weights == WeightType::kF16) {
    return InvalidArgument("--fp8-activations needs activations in bf16: leave out --weights");
  }
  return Status();
}

Status CheckTransport(const ServiceOptions& options) {
  if (!options.listen.empty()) {
    OUTRIDER_TRY(CheckHostPort(options.listen).Annotate("--listen"));
  }
  if (!options.metrics.empty()) {
    OUTRIDER_TRY(CheckHostPort(options.metrics).Annotate("--metrics"));
  }
  if (options.tls.cert.empty() != options.tls.key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key belong together: give both");
  }
  if (options.allow_plaintext || options.listen.empty() || !options.tls.cert.empty()) {
    return Status();
  }
  return CheckPlaintext("--listen", options.listen, "give --tls-cert and --tls-key");
}

Result<std::shared_ptr<TlsFiles>> OpenTlsFiles(const TlsOptions& options) {
  if (options.cert.empty() && options.ca.empty()) return std::shared_ptr<TlsFiles>();
  return TlsFiles::Open(options);
}

}  // namespace outrider
