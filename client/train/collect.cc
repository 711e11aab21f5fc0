#include "client/train/collect.h"

#include <algorithm>
#include <condition_variable>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/prompt_file.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/values_wire.h"

namespace outrider {
namespace {

constexpr auto kLookInterval = std::chrono::milliseconds(200);
// A drafter writes with every verdict.
constexpr auto kTimeout = std::chrono::seconds(10);

// The number of examples in the file.
Result<uint64_t> Look(const TrainHeadOptions& options, const DraftModel& model) {
  const Result<HeadDataSize> size = CountHeadData(options.data);
  if (size.status().code() == Code::kFailedPrecondition) return uint64_t{0};
  if (size.status().code() == Code::kNotFound) {
    return size.status().Annotate("start a drafter with --collect-head-data");
  }
  if (!size.ok()) return size.status();
  OUTRIDER_TRY(CheckModel(options, size->header, model));
  if (size->header.transforms.sampling != options.sampling) {
    return FailedPrecondition(options.data +
                              ": its examples were sampled otherwise: give the same "
                              "--temperature, --top-p and --top-k, or begin another file");
  }
  return size->examples;
}

// What the workers share.
class Texts {
 public:
  // The next text's number; nullopt: there is nothing more to do.
  std::optional<uint64_t> Next() {
    MutexLock lock(mu_);
    if (over_ || !failure_.ok()) return std::nullopt;
    return begun_++;
  }

  void Ended(const Result<v1::Finished>& finished) {
    MutexLock lock(mu_);
    if (finished.ok()) {
      ++ended_;
      drafted_ += finished->speculation().drafted_tokens();
    } else if (failure_.ok()) {
      failure_ = finished.status();
      changed_.notify_all();
    }
  }

  void Stop() {
    MutexLock lock(mu_);
    over_ = true;
  }

  struct State {
    uint64_t ended = 0, drafted = 0;
    Status failure;
  };
  // Returns after an interval, or at once after a failure.
  State Wait() {
    MutexLock lock(mu_);
    const Time until = SteadyClock().Now() + kLookInterval;
    while (failure_.ok() && lock.WaitUntil(changed_, until) != std::cv_status::timeout) continue;
    return {.ended = ended_, .drafted = drafted_, .failure = failure_};
  }

 private:
  Mutex mu_;
  std::condition_variable changed_;
  bool over_ OUTRIDER_GUARDED_BY(mu_) = false;
  Status failure_ OUTRIDER_GUARDED_BY(mu_);
  uint64_t begun_ OUTRIDER_GUARDED_BY(mu_) = 0;
  uint64_t ended_ OUTRIDER_GUARDED_BY(mu_) = 0;
  uint64_t drafted_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

// Drafts to the full length, because all of these tokens are labelled. The verifier chooses the
// seeds: for others it does not tell drafters how likely their tokens were, and a run that
// continues a file gets new texts.
RequestOptions TextOptions(const TrainHeadOptions& options) {
  RequestOptions request;
  ToWire(options.sampling, &request.sampling);
  request.max_tokens = options.max_tokens;
  request.rule = Rule::kBlock;
  request.draft_length = options.draft_length;
  request.paths = 1;
  request.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.f};
  return request;
}

// Watches the file until it holds enough; it held `examples` at first.
Status Watch(const TrainHeadOptions& options, const DraftModel& model, uint64_t examples,
             Texts& texts, const Console& console) {
  const SteadyClock clock;
  Time grown = clock.Now();
  uint64_t drafted = 0;  // when it last grew
  for (;;) {
    const Texts::State state = texts.Wait();
    OUTRIDER_TRY(state.failure);
    OUTRIDER_ASSIGN(const uint64_t now, Look(options, model));
    if (now > examples) {
      grown = clock.Now();
      drafted = state.drafted;
    }
    examples = now;
    if (console.err_is_terminal) {
      console.err << "\r\033[K" << state.ended << " texts, examples " << examples << "/"
                  << options.examples << std::flush;
    }
    if (examples >= options.examples) return Status();
    if (clock.Now() - grown < kTimeout || state.ended == 0) continue;
    if (state.drafted == 0) {
      return FailedPrecondition(
          "no text was drafted: the verifier plans no drafts, or its drafters do not answer");
    }
    if (state.drafted == drafted) continue;  // no text has ended since
    return FailedPrecondition(
        options.data + ": holds " + std::to_string(examples) +
        " examples and does not grow: no drafter of this verifier writes to it, or it is full "
        "(--collect-head-data and --collect-head-examples of outrider-drafter)");
  }
}

}  // namespace

Status CheckModel(const TrainHeadOptions& options, const HeadDataHeader& header,
                  const DraftModel& model) {
  if (header.model != model.fingerprint) {
    return FailedPrecondition(options.data + ": its examples are of another draft model than " +
                              options.drafter);
  }
  // Only a damaged or forged file: the fingerprint depends on the model's hidden size.
  if (header.width != model.width) {
    return FailedPrecondition(options.data + ": its hidden states have " +
                              std::to_string(header.width) + " numbers, those of " +
                              options.drafter + " have " + std::to_string(model.width) +
                              "; begin another file");
  }
  return Status();
}

Status CollectHeadData(const TrainHeadOptions& options, const DraftModel& model,
                       const Console& console) {
  OUTRIDER_ASSIGN(const std::vector<BenchPrompt> prompts, ReadPrompts(options.prompts));
  OUTRIDER_ASSIGN(const uint64_t before, Look(options, model));
  if (before >= options.examples) return Status();
  OUTRIDER_ASSIGN(const VerifierClient client, VerifierClient::Create(options.connection));
  OUTRIDER_ASSIGN(const v1::GetStatusResponse status, client.GetStatus());
  if (status.drafters_size() == 0) {
    return FailedPrecondition(options.connection.verifier + ": no drafter is attached");
  }

  Texts texts;
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<size_t>(options.concurrency));
  for (int worker = 0; worker < options.concurrency; ++worker) {
    workers.emplace_back([&] {
      const RequestOptions text = TextOptions(options);
      while (const std::optional<uint64_t> number = texts.Next()) {
        const BenchPrompt& prompt = prompts[*number % prompts.size()];
        v1::GenerateRequest request = MakeRequest(text);
        request.set_text(prompt.prompt);
        texts.Ended(client.Generate(request, /*timeout_seconds=*/0, [](const auto&) {}));
      }
    });
  }
  Status watched = Watch(options, model, before, texts, console);
  texts.Stop();
  if (console.err_is_terminal) console.err << std::endl;
  return watched;
}

}  // namespace outrider
