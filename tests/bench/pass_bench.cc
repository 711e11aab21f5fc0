// The duration of one forward pass, for cpu_race.py, which alternates between this program and
// other engines. Each line of standard input requests a measurement, "sequences rows context
// passes": the mean time of that many passes over `sequences` sequences, each with `rows` new
// tokens after `context` cached ones. The answer is a line of JSON.
//
//   echo "8 1 128 16" | pass_bench --model models/default/target
//
// A pass leaves the cached tokens unchanged. Logits are computed for every new token; without
// cached tokens (a prefill) only for the last one of each sequence.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/command_line/command_line.h"
#include "common/service/served_model.h"

namespace outrider {
namespace {

// The largest pass: a prefill, or 32 sequences of 16 rows.
constexpr int kMaxBatchTokens = 512;

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "pass_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(Result<T> result) {
  Must(result.status());
  return std::move(result).value();
}

struct PassShape {
  int sequences = 0;
  int rows = 0;     // new tokens per sequence
  int context = 0;  // tokens that each sequence has cached before
  int passes = 0;
};

class PassTimer {
 public:
  explicit PassTimer(Model* model) : model_(*model) {}

  // Mean duration of a pass in seconds, after one that is not timed.
  double MeanSeconds(const PassShape& shape) {
    Hold(shape.sequences, shape.context);
    const std::vector<TokenId> tokens = Tokens(shape.rows, 5);
    std::vector<int32_t> logit_rows(static_cast<size_t>(shape.context > 0 ? shape.rows : 1));
    std::iota(logit_rows.begin(), logit_rows.end(),
              shape.rows - static_cast<int32_t>(logit_rows.size()));
    std::vector<ForwardSequence> batch;
    for (int i = 0; i < shape.sequences; ++i) {
      batch.push_back({.sequence = held_[i], .tokens = tokens, .logit_rows = logit_rows});
    }
    Pass(batch);
    double seconds = 0;
    for (int i = 0; i < shape.passes; ++i) seconds += Pass(batch);
    return seconds / shape.passes;
  }

 private:
  std::vector<TokenId> Tokens(int n, int first) const {
    std::vector<TokenId> tokens;
    for (int i = 0; i < n; ++i) tokens.push_back((first + i * 17) % model_.config().vocab_size);
    return tokens;
  }

  // Makes at least `sequences` sequences with `context` cached tokens each. They are kept for the
  // next measurement with that context.
  void Hold(int sequences, int context) {
    if (context != context_) {
      for (const SequenceId sequence : held_) model_.Release(sequence);
      held_.clear();
      context_ = context;
    }
    while (static_cast<int>(held_.size()) < sequences) {
      held_.push_back(model_.NewSequence());
      const std::vector<TokenId> tokens = Tokens(context, static_cast<int>(held_.size()));
      if (context == 0) continue;
      ForwardOutput output;
      Must(
          model_.Forward(std::vector<ForwardSequence>{{.sequence = held_.back(), .tokens = tokens}},
                         false, &output));
    }
  }

  double Pass(const std::vector<ForwardSequence>& batch) {
    ForwardOutput output;
    const Time start = SteadyClock().Now();
    Must(model_.Forward(batch, false, &output));
    const double seconds = Seconds(SteadyClock().Now() - start);
    for (const ForwardSequence& sequence : batch) model_.Truncate(sequence.sequence, context_);
    return seconds;
  }

  Model& model_;
  int context_ = 0;
  std::vector<SequenceId> held_;
};

Result<PassShape> ParseShape(const std::string& line) {
  PassShape shape;
  std::istringstream words(line);
  if (!(words >> shape.sequences >> shape.rows >> shape.context >> shape.passes) ||
      shape.sequences < 1 || shape.rows < 1 || shape.context < 0 || shape.passes < 1 ||
      shape.context > kMaxBatchTokens || shape.rows > kMaxBatchTokens / shape.sequences) {
    return InvalidArgument("\"" + line +
                           "\" is not \"sequences rows context passes\" with at most " +
                           std::to_string(kMaxBatchTokens) + " tokens a pass");
  }
  return shape;
}

int Main(int argc, char** argv) {
  ServiceOptions options;
  CLI::App app("Seconds of forward passes that standard input asks for");
  AddServiceFlags(app, &options);
  if (const auto code = ParseCommandLine(app, argc, argv, std::cout, std::cerr)) return *code;
  SetLogLevel(LogLevel::kWarning);
  const std::unique_ptr<Model> model = Must(LoadServedModel(options, kMaxBatchTokens));
  PassTimer timer(model.get());
  std::cout << nlohmann::json{{"engine", "Outrider"}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << nlohmann::json{{"seconds", timer.MeanSeconds(Must(ParseShape(line)))}}
              << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::Main(argc, argv); }
