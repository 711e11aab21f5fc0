// What the flags of each command say.
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

// How the verifier is reached.
struct ConnectionOptions {
  std::string verifier;  // host:port
  TlsOptions tls;        // with authorities: TLS
  std::string tls_server_name;
  std::string token_file;  // its first token is sent
  std::string token;       // sent without a file; "": none
  bool allow_plaintext = false;
  bool balanced = true;  // where the address stands for several; else one of them is asked
};

// How a text is generated, whatever the prompt.
struct RequestOptions {
  v1::SamplingParams sampling;         // unset fields: the model's own defaults
  std::optional<uint32_t> max_tokens;  // unset: the model's own default, or as the context allows
  std::vector<std::string> stop_strings;
  bool ignore_eos = false;
  std::optional<uint64_t> seed;  // unset: the server draws one
  bool speculation = true;
  std::optional<Rule> rule;      // unset: the server's
  uint32_t draft_length = 0;     // 0: the server's choice
  uint32_t paths = 0;            // 0: the server's choice
  std::vector<uint32_t> tree;    // branching by depth in place of both
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
};

struct BenchOptions {
  ConnectionOptions connection;
  std::string prompts_path;
  int concurrency = 1;
  double rate = 0;              // requests started a second; 0: as others end
  std::optional<int> requests;  // unset: each prompt once
  RequestOptions request;       // a seed s becomes s + i for request i
  bool allow_refused = false;   // refused requests do not fail the command
  bool json = false;
};

struct StatusOptions {
  ConnectionOptions connection;
  bool json = false;
};

// What outrider-simulate is to be called with.
struct SimulateCommand {
  std::vector<std::string> arguments;
};

struct PlanFlags {
  PlanOptions options;
  bool json = false;
};

struct TrainHeadOptions {
  std::string data;     // file that a drafter writes
  std::string drafter;  // directory of its model
  std::string out;      // file; "": beside the model
  HeadTraining training;
  bool json = false;
  // To collect first.
  std::string prompts;  // file of JSON lines, as for bench; "": what there is will do
  ConnectionOptions connection;
  uint64_t examples = 50000;  // that the file is to hold
  int concurrency = 8;
  SamplingParams sampling;
  uint32_t max_tokens = 128;  // of a text
  uint32_t draft_length = 8;
};

using Command = std::variant<GenerateOptions, BenchOptions, StatusOptions, SimulateCommand,
                             PlanFlags, TrainHeadOptions>;

}  // namespace outrider
