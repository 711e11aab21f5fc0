// outrider-verifier with its drafter inside: the same services and flags, and a drafting loop on a
// thread of its own whose messages are handed over in memory. What the split into two processes
// costs is measured against it.
//
//   colocated_verifier --drafter models/default/drafter --drafter-cores 1
//       --model models/default/target --cores 0 --listen 127.0.0.1:7300
//
// Its own flags: --drafter DIRECTORY, --drafter-cores N,N (free without it), --drafter-ahead-tokens
// N (working ahead, 0 by default).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/service/service_options.h"
#include "tests/support/local_link.h"
#include "verifier/options.h"
#include "verifier/serve.h"

namespace outrider::testing {
namespace {

// No stream has this id: they count from 1.
constexpr uint64_t kConnection = uint64_t{1} << 63;

// Drafts go to the engine thread, as the drafting service posts them.
class ToVerifier final : public VerifierLink {
 public:
  explicit ToVerifier(const AttachPoint& point) : pool_(point.pool), thread_(point.thread) {}

  void SendDrafts(std::vector<Draft> drafts) override {
    thread_->Post([pool = pool_, arrived = ToArrived(std::move(drafts))]() mutable {
      pool->OnDrafts(kConnection, std::move(arrived), 0);
    });
  }
  void SendLoad(const DrafterLoad& load) override {
    thread_->Post(
        [pool = pool_, sessions = load.sessions] { pool->OnLoad(kConnection, sessions); });
  }
  void Close() override {}

 private:
  DrafterPool* pool_;
  EngineThread* thread_;
};

struct DrafterFlags {
  ServiceOptions service{.metrics = ""};
  DraftLoopOptions loop;
};

class LocalDrafter {
 public:
  LocalDrafter(std::unique_ptr<Model> model, const DraftLoopOptions& options, const Clock* clock)
      : model_(std::move(model)),
        loop_(model_.get(), options, clock, nullptr),
        thread_([this] { loop_.Run(); }) {}
  ~LocalDrafter() {
    loop_.Stop();
    thread_.join();
  }

  static Result<std::shared_ptr<void>> Attach(const DrafterFlags& flags, const AttachPoint& point) {
    DraftLoopOptions options = flags.loop;
    options.tokenizer_vocab = point.tokenizer->vocab_size();
    OUTRIDER_ASSIGN(std::unique_ptr<Model> model,
                    LoadServedModel(flags.service, options.max_step_tokens));
    const DrafterHello hello = LocalHello(*model, options, *point.tokenizer);
    auto drafter = std::make_shared<LocalDrafter>(std::move(model), options, point.clock);
    std::promise<Status> joined;
    point.thread->Post([&] {
      joined.set_value(
          point.pool->Join(kConnection, hello,
                           std::make_shared<LocalDrafterLink>(
                               kConnection, &drafter->loop_, std::make_shared<ToVerifier>(point))));
    });
    OUTRIDER_TRY(joined.get_future().get());
    return std::shared_ptr<void>(std::move(drafter));
  }

 private:
  std::unique_ptr<Model> model_;
  DraftLoop loop_;
  std::thread thread_;
};

std::vector<int> Numbers(const std::string& list) {
  std::vector<int> numbers;
  std::istringstream in(list);
  for (std::string one; std::getline(in, one, ',');) numbers.push_back(std::atoi(one.c_str()));
  return numbers;
}

// Takes our own flags out of the command line; the verifier parses the rest.
DrafterFlags TakeFlags(std::vector<char*>* arguments) {
  DrafterFlags flags;
  for (auto at = arguments->begin() + 1; at + 1 < arguments->end();) {
    const std::string flag = *at;
    const std::string value = *(at + 1);
    if (flag == "--drafter") {
      flags.service.model = value;
    } else if (flag == "--drafter-cores") {
      flags.service.cores = Numbers(value);
    } else if (flag == "--drafter-ahead-tokens") {
      flags.loop.ahead_tokens = std::atoi(value.c_str());
    } else {
      ++at;
      continue;
    }
    at = arguments->erase(at, at + 2);
  }
  return flags;
}

int Main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  DrafterFlags flags = TakeFlags(&arguments);
  if (flags.service.model.empty()) {
    std::fprintf(stderr, "colocated_verifier: --drafter is missing\n");
    return 2;
  }
  VerifierOptions options;
  if (const auto code =
          ParseVerifierOptions(static_cast<int>(arguments.size()), arguments.data(), &options)) {
    return *code;
  }
  flags.service.bf16_activations = options.service.bf16_activations;
  SetLogLevel(options.service.log_level);
  SetLogJson(options.service.log_json);
  IgnoreBrokenPipes();
  const StopOnSignal signals;  // before any thread starts
  const Status status = Serve(options, signals, [&flags](const AttachPoint& point) {
    return LocalDrafter::Attach(flags, point);
  });
  if (!status.ok()) std::fprintf(stderr, "colocated_verifier: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace outrider::testing

int main(int argc, char** argv) { return outrider::testing::Main(argc, argv); }
