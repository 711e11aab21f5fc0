// The flags that both services share.
//
// Thread: main.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/tls_files.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
}

namespace outrider {

struct ServiceOptions {
  std::string model;   // directory
  std::string listen;  // host:port of the gRPC server; optional for some services
  TlsOptions tls;
  bool allow_plaintext = false;  // to other machines
  std::string metrics;           // host:port of the Prometheus endpoint; empty: none
  std::string device = "cpu";    // or cuda:N; the first of `devices`, if there are any
  // Devices of one kind, more than one, among which the model is divided; empty: it is on `device`.
  std::vector<std::string> devices;
  std::vector<std::string> command;  // the program and its arguments, for processes of `devices`
  double memory_fraction = 0.9;      // of a CUDA device
  bool cuda_graphs = true;
  int threads = 1;  // on each device
  std::vector<int> cores;
  WeightType weights = WeightType::kBf16;
  bool bf16_activations = false;
  bool int8_activations = false;
  bool fp8_activations = false;    // on a CUDA device
  std::optional<KvType> kv_cache;  // none: f32 on the CPU, on a CUDA device as wide as the weights
  // 0: on a CUDA device what its memory has left, on the CPU 64 sequences of the longest context,
  // 262,144 at most.
  int kv_tokens = 0;
  std::string trace_file;      // for spans; empty: no file
  int trace_max_mb = 64;       // for it and the previous file together
  std::string trace_endpoint;  // URL of a collector; empty: none. Without either no spans are made
  LogLevel log_level = LogLevel::kInfo;
  bool log_json = false;
};

// Adds the flags of `options` to `app`, with --version and --config (a flag file). Defaults are the
// values in `options`.
void AddServiceFlags(CLI::App& app, ServiceOptions* options);

// Checks that flags of the model are honoured together; errors say what to do.
Status CheckModelFlags(const ServiceOptions& options);
// Checks addresses and certificates; errors say what to do.
Status CheckTransport(const ServiceOptions& options);

// The certificates of `options`, read and checked; null if there are none.
Result<std::shared_ptr<TlsFiles>> OpenTlsFiles(const TlsOptions& options);

}  // namespace outrider
