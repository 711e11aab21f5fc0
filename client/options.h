// The options of each command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/plan.h"
#include "client/train/head_trainer.h"
#include "common/rpc/tls_files.h"
#include "common/spec/draft.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"
#include "outrider/v1/generation.pb.h"

namespace outrider {

// How to connect to the verifier.
struct ConnectionOptions {
  std::string verifier;  // host:port
  TlsOptions tls;        // with authorities: TLS
  std::string tls_server_name;
  std::string token_file;  // its first token is sent
  std::string token;       // sent without a file; "": none
  bool allow_plaintext = false;
  bool balanced = true;  // if the address resolves to several, use all of them; else one
};

// How to generate a text, whatever the prompt.
struct RequestOptions {
  v1::SamplingParams sampling;         // unset fields: the model's own defaults
  std::optional<uint32_t> max_tokens;  // unset: the model's own default, or what the context allows
  std::vector<std::string> stop_strings;
  bool ignore_eos = false;
  std::optional<uint64_t> seed;  // unset: the server draws one
  bool speculation = true;
  std::optional<Rule> rule;      // unset: the server's
  uint32_t draft_length = 0;     // 0: the server's choice
  uint32_t paths = 0;            // 0: the server's choice
  std::vector<uint32_t> tree;    // branching by depth, instead of both
  std::optional<StopRule> stop;  // unset: the server's
  double timeout_seconds = 0.0;  // 0: none
};

struct TextPrompt {
  std::string text;
};
struct FilePrompt {
  std::string path;  // "-": standard input
};
struct TokenPrompt {
  std::vector<uint32_t> token_ids;
};

struct GenerateOptions {
  ConnectionOptions connection;
  std::variant<TextPrompt, FilePrompt, TokenPrompt> prompt;
  RequestOptions request;
  bool json = false;
  bool show_drafts = false;
  bool trace = false;  // begins a trace, which the verifier records if it has somewhere to
};

// Which of several verifiers gets a request.
enum class RoutePolicy {
  kPrefix,       // where prompts that begin alike go: common/routing/prefix_router.h
  kRoundRobin,   // each in turn
  kLeastLoaded,  // the one with the fewest of this client's requests in flight
};

struct BenchOptions {
  ConnectionOptions connection;        // of all verifiers, but for the address
  std::vector<std::string> verifiers;  // addresses, at least one
  RoutePolicy route = RoutePolicy::kPrefix;
  std::string prompts_path;
  int concurrency = 1;
  double rate = 0;              // requests started per second; 0: one starts when another ends
  std::optional<int> requests;  // unset: each prompt once
  RequestOptions request;       // a seed s becomes s + i for request i
  bool allow_refused = false;   // refused requests do not make the command fail
  bool json = false;
};

struct StatusOptions {
  ConnectionOptions connection;
  bool json = false;
  double watch_seconds = 0;  // between two looks; 0: one look
};

// The arguments for outrider-simulate.
struct SimulateCommand {
  std::vector<std::string> arguments;
};

struct PlanFlags {
  PlanOptions options;
  bool json = false;
};

struct TrainHeadOptions {
  std::string data;     // written by a drafter
  std::string drafter;  // directory of its model
  std::string out;      // file; "": beside the model
  HeadTraining training;
  bool json = false;
  // For collecting examples first.
  std::string prompts;  // file of JSON lines, as for bench; "": use the existing examples
  ConnectionOptions connection;
  uint64_t examples = 50000;  // to collect
  int concurrency = 8;
  SamplingParams sampling;
  uint32_t max_tokens = 128;  // per text
  uint32_t draft_length = 8;
};

using Command = std::variant<GenerateOptions, BenchOptions, StatusOptions, SimulateCommand,
                             PlanFlags, TrainHeadOptions>;

}  // namespace outrider
