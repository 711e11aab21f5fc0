#include "verifier/embedded/embedded_drafter.h"

#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/model/acceptance_head.h"
#include "common/model/model.h"
#include "common/model/model_directory.h"
#include "common/service/served_model.h"
#include "common/text/tokenizer.h"
#include "drafter/propose/draft_loop.h"
#include "verifier/embedded/local_link.h"

namespace outrider {
namespace {

// No stream has this id: streams count from 1.
constexpr uint64_t kConnection = uint64_t{1} << 63;

// Hands drafts to the engine thread, as a stream does.
class ToVerifier final : public VerifierLink {
 public:
  ToVerifier(DrafterPool* pool, EngineThread* thread) : pool_(pool), thread_(thread) {}

  void SendDrafts(std::vector<DraftPart> drafts) override {
    thread_->Post([pool = pool_, drafts = std::move(drafts), now = SteadyClock().Now()]() mutable {
      pool->OnDrafts(kConnection, std::move(drafts), /*bytes=*/0, now);
    });
  }
  void SendLoad(const DrafterLoad& load) override {
    thread_->Post([pool = pool_, load] { pool->roster().OnLoad(kConnection, load); });
  }
  void Close() override {}

 private:
  DrafterPool* const pool_;
  EngineThread* const thread_;
};

}  // namespace

struct EmbeddedDrafter::Loop {
  Loop(std::unique_ptr<Model> its_model, std::optional<AcceptanceHead> its_head,
       std::unique_ptr<grammar::GrammarCache> its_grammars, DraftLoopOptions its_options,
       const Clock* clock)
      : model(std::move(its_model)),
        head(std::move(its_head)),
        grammars(std::move(its_grammars)),
        options(its_options) {
    options.head = head.has_value() ? &*head : nullptr;
    options.grammars = grammars.get();
    loop.emplace(model.get(), options, clock, /*observer=*/nullptr);
  }

  const std::unique_ptr<Model> model;
  const std::optional<AcceptanceHead> head;
  const std::unique_ptr<grammar::GrammarCache> grammars;
  DraftLoopOptions options;
  std::optional<DraftLoop> loop;  // never empty once constructed
};

EmbeddedDrafter::EmbeddedDrafter(std::shared_ptr<Loop> loop)
    : loop_(std::move(loop)), thread_([this] { loop_->loop->Run(); }) {}

EmbeddedDrafter::~EmbeddedDrafter() {
  loop_->loop->Stop();
  thread_.join();
}

Result<std::unique_ptr<EmbeddedDrafter>> EmbeddedDrafter::Start(
    const EmbeddedDrafterOptions& options, int64_t promised_bytes, DrafterPool* pool,
    EngineThread* thread, const Clock* clock, const std::stop_token& stop) {
  const std::string& directory = options.service.model;
  OUTRIDER_TRY(CheckModelDirectory(directory));
  OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(directory));
  const DraftLoopOptions loop_options{.ahead_tokens = options.ahead_tokens,
                                      .tokenizer_vocab = tokenizer->vocab_size(),
                                      .prefix_cache = options.prefix_cache};
  OUTRIDER_ASSIGN(
      std::unique_ptr<Model> model,
      LoadSecondModel(options.service, loop_options.max_step_tokens, stop, promised_bytes));
  OUTRIDER_ASSIGN(std::optional<AcceptanceHead> head,
                  AcceptanceHead::LoadBeside(directory, model->config().hidden_size));
  OUTRIDER_ASSIGN(std::unique_ptr<grammar::GrammarCache> grammars,
                  grammar::GrammarCache::Create(*tokenizer, model->config().eos_token_ids,
                                                model->config().vocab_size));
  const auto vocabulary = VocabularyOf(*tokenizer, model->config());
  const auto loop = std::make_shared<Loop>(std::move(model), std::move(head), std::move(grammars),
                                           loop_options, clock);
  const auto link = std::make_shared<LocalDrafterLink>(
      kConnection, std::shared_ptr<LinkEvents>(loop, &*loop->loop),
      std::make_shared<ToVerifier>(pool, thread), vocabulary);
  std::promise<Status> joined;
  thread->Post([&] {
    Status status =
        pool->roster().Join(kConnection,
                            LocalHello(*loop->model, loop->options, tokenizer->fingerprint(),
                                       /*translates=*/vocabulary != nullptr),
                            link);
    if (status.ok() && link->match().has_value()) {
      status = pool->roster().OnMatch(kConnection, *link->match());
    }
    joined.set_value(std::move(status));
  });
  if (const Status status = joined.get_future().get(); !status.ok()) {
    return status.Annotate("--draft-model");
  }
  return std::unique_ptr<EmbeddedDrafter>(new EmbeddedDrafter(loop));
}

}  // namespace outrider
