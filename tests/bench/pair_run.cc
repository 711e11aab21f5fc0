#include "tests/bench/pair_run.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "tests/bench/draft_coins.h"

namespace outrider {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Session {
  SequenceId target = -1, drafter = -1;
  std::vector<TokenId>
      tokens;      // prompt and text; the models have cached all but the last, or fewer
  int depths = 0;  // of this round's draft
  std::vector<TokenId> draft;
  std::vector<TokenId> fed;  // run by the target: the last token and the draft
};

struct RoundEnd {
  int accepted = 0;
  TokenId next = -1;
};

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// The first among equals, like a device.
TokenId Argmax(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

class Rounds {
 public:
  Rounds(Model* target, Model* drafter, const PairLoad& load, const PairCase& c)
      : target_(*target), drafter_(drafter), load_(load), case_(c) {}
  ~Rounds() {
    for (const Session& session : sessions_) {
      target_.Release(session.target);
      if (drafter_ != nullptr) drafter_->Release(session.drafter);
    }
  }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  Result<PairFigures> Run();

 private:
  int Emitted(const Session& session) const {
    return static_cast<int>(session.tokens.size()) - load_.prompt_tokens;
  }
  // What the drafter runs before it drafts: the text after its cached tokens, or its last draft
  // token.
  std::span<const TokenId> Unfed(const Session& session) const {
    if (!session.draft.empty()) return std::span(session.draft).last(1);
    return std::span(session.tokens)
        .subspan(static_cast<size_t>(drafter_->length(session.drafter)));
  }

  Status ReadPrompts();
  // Runs one round of every session whose text is incomplete; returns whether there was one.
  Result<bool> RunRound();
  Status Draft(std::vector<Session*> drafting);
  Status DraftOnDevice(std::vector<Session*> drafting);
  Status DraftStepByStep(std::vector<Session*> drafting);
  Result<std::vector<RoundEnd>> Verify(std::span<Session* const> live);
  void Advance(Session& session, RoundEnd end);

  Model& target_;
  Model* const drafter_;
  const PairLoad load_;
  const PairCase case_;
  std::vector<Session> sessions_;
  PairFigures figures_;
};

Status ReadPrompt(Model& model, SequenceId sequence, std::span<const TokenId> tokens) {
  ForwardOutput output;
  while (!tokens.empty()) {
    const auto count = std::min(tokens.size(), static_cast<size_t>(model.max_batch_tokens()));
    const ForwardSequence share = {sequence, tokens.first(count), {}, {}};
    OUTRIDER_TRY(model.Forward({&share, 1}, /*want_hidden=*/false, &output));
    tokens = tokens.subspan(count);
  }
  return Status();
}

Status Rounds::ReadPrompts() {
  const int vocab = target_.config().vocab_size;
  for (int s = 0; s < case_.sessions; ++s) {
    Session& session = sessions_.emplace_back();
    session.target = target_.NewSequence();
    if (drafter_ != nullptr) session.drafter = drafter_->NewSequence();
    for (int i = 0; i < load_.prompt_tokens; ++i) {
      session.tokens.push_back((11 + 37 * i + 101 * s) % (vocab - 2) + 2);
    }
  }
  for (const Session& session : sessions_) {
    // The last one belongs to the first round.
    const auto front = std::span(session.tokens).first(session.tokens.size() - 1);
    OUTRIDER_TRY(ReadPrompt(target_, session.target, front));
    if (drafter_ != nullptr) OUTRIDER_TRY(ReadPrompt(*drafter_, session.drafter, front));
  }
  return Status();
}

Status Rounds::Draft(std::vector<Session*> drafting) {
  for (Session* session : drafting) {
    session->draft.clear();
    session->depths = std::min(case_.draft, load_.tokens - Emitted(*session) - 1);
  }
  std::erase_if(drafting, [](const Session* session) { return session->depths == 0; });
  return drafter_->device() != nullptr ? DraftOnDevice(std::move(drafting))
                                       : DraftStepByStep(std::move(drafting));
}

// Like the drafter's loop for greedy drafts of fixed length (drafter/propose): as many depths in
// one go as all sessions have left.
Status Rounds::DraftOnDevice(std::vector<Session*> drafting) {
  while (!drafting.empty()) {
    const auto left = [](const Session* session) {
      return session->depths - static_cast<int>(session->draft.size());
    };
    const int depths = left(
        *std::min_element(drafting.begin(), drafting.end(),
                          [&](const Session* a, const Session* b) { return left(a) < left(b); }));
    std::vector<DraftChain> chains;
    PickBatch draws;
    for (const Session* session : drafting) {
      chains.push_back({session->drafter, Unfed(*session)});
      draws.BeginSequence({});
      draws.AddChain({.pick = RowPick::kTop,
                      .count = 2,
                      .allowed = drafter_->config().vocab_size,
                      .sampling = {.temperature = 0.f}},
                     {}, {.depths = depths});
    }
    std::span<const PickedRow> picked;
    OUTRIDER_TRY(drafter_->device()->DraftChains(chains, depths, draws, &picked));
    for (size_t i = 0; i < picked.size(); ++i) {
      drafting[i % drafting.size()]->draft.push_back(picked[i].sampled);
    }
    std::erase_if(drafting, [&](const Session* session) { return left(session) == 0; });
  }
  return Status();
}

Status Rounds::DraftStepByStep(std::vector<Session*> drafting) {
  const auto vocab = static_cast<size_t>(drafter_->config().vocab_size);
  while (!drafting.empty()) {
    std::vector<ForwardSequence> batch;
    std::vector<int32_t> last_rows;
    last_rows.reserve(drafting.size());  // spans point into it
    for (const Session* session : drafting) {
      const std::span<const TokenId> tokens = Unfed(*session);
      last_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
      batch.push_back({session->drafter, tokens, {}, {&last_rows.back(), 1}});
    }
    ForwardOutput output;
    OUTRIDER_TRY(drafter_->Forward(batch, /*want_hidden=*/false, &output));
    for (size_t i = 0; i < drafting.size(); ++i) {
      drafting[i]->draft.push_back(Argmax({output.logits + i * vocab, vocab}));
    }
    std::erase_if(drafting, [](const Session* session) {
      return static_cast<int>(session->draft.size()) == session->depths;
    });
  }
  return Status();
}

Result<std::vector<RoundEnd>> Rounds::Verify(std::span<Session* const> live) {
  std::vector<int32_t> rows;
  for (int i = 0; i <= case_.draft; ++i) rows.push_back(i);
  std::vector<ForwardSequence> batch;
  for (Session* session : live) {
    session->fed = {session->tokens.back()};
    session->fed.insert(session->fed.end(), session->draft.begin(), session->draft.end());
    batch.push_back({.sequence = session->target,
                     .tokens = session->fed,
                     .parents = {},
                     .logit_rows = std::span(rows).first(session->fed.size()),
                     .logits_to_host = false});
  }
  ForwardOutput output;
  OUTRIDER_TRY(target_.Forward(batch, /*want_hidden=*/false, &output));
  // Like the verifier's engine at temperature 0.
  RoundBatch rounds;
  for (const Session* session : live) {
    rounds.Add({}, DraftTree::Chain(session->draft, {}), {.sampling = {.temperature = 0}});
  }
  std::vector<RoundEnd> ends;
  for (const DecidedRound& round : target_.Decide(rounds, target_.config().vocab_size).rounds) {
    ends.push_back({round.verdict.accepted, round.verdict.next});
  }
  return ends;
}

void Rounds::Advance(Session& session, RoundEnd end) {
  const auto drafted = static_cast<int>(session.draft.size());
  if (case_.acceptance.has_value()) {
    const auto index = static_cast<int>(&session - sessions_.data());
    end.accepted = 0;
    while (end.accepted < drafted &&
           IsDraftTokenAccepted(load_.seed, index, Emitted(session) + end.accepted,
                                *case_.acceptance)) {
      ++end.accepted;
    }
  }
  const int kept = static_cast<int>(session.tokens.size()) + end.accepted;
  target_.Truncate(session.target, kept);
  if (drafter_ != nullptr && drafter_->length(session.drafter) > kept) {
    drafter_->Truncate(session.drafter, kept);
  }
  session.tokens.insert(session.tokens.end(), session.draft.begin(),
                        session.draft.begin() + end.accepted);
  session.tokens.push_back(end.next);
  ++figures_.rounds;
  figures_.drafted += drafted;
  figures_.accepted += end.accepted;
}

Result<bool> Rounds::RunRound() {
  std::vector<Session*> live;
  for (Session& session : sessions_) {
    if (Emitted(session) < load_.tokens) live.push_back(&session);
  }
  if (live.empty()) return false;
  if (case_.draft > 0) OUTRIDER_TRY(Draft(live));
  OUTRIDER_ASSIGN(const std::vector<RoundEnd> ends, Verify(live));
  OUTRIDER_CHECK(ends.size() == live.size());
  for (size_t i = 0; i < live.size(); ++i) Advance(*live[i], ends[i]);
  return true;
}

Result<PairFigures> Rounds::Run() {
  const auto bytes = [this] {
    int64_t sum = 0;
    for (Model* model : {&target_, drafter_}) {
      if (model != nullptr && model->device() != nullptr) sum += model->device()->bytes_to_host();
    }
    return sum;
  };
  const int64_t bytes_before = bytes();
  const auto start = SteadyClock::now();
  OUTRIDER_TRY(ReadPrompts());
  OUTRIDER_TRY(RunRound().status());
  figures_.first_seconds = SecondsSince(start);
  int64_t early = 0;
  for (const Session& session : sessions_) early += Emitted(session);

  const auto second = SteadyClock::now();
  for (bool ran = true; ran;) {
    OUTRIDER_ASSIGN(ran, RunRound());
  }
  figures_.seconds = SecondsSince(second);
  figures_.bytes_to_host = bytes() - bytes_before;
  for (const Session& session : sessions_) {
    figures_.tokens += Emitted(session);
    figures_.texts.emplace_back(session.tokens.begin() + load_.prompt_tokens, session.tokens.end());
  }
  figures_.tokens -= early;
  return std::move(figures_);
}

Status Check(const Model& target, const Model* drafter, const PairLoad& load, const PairCase& c) {
  const auto least = [](const char* what, int value, int minimum) {
    return value >= minimum ? Status()
                            : InvalidArgument(std::string(what) + " is " + std::to_string(value) +
                                              ", less than " + std::to_string(minimum));
  };
  OUTRIDER_TRY(least("sessions", c.sessions, 1));
  OUTRIDER_TRY(least("draft", c.draft, 0));
  OUTRIDER_TRY(least("prompt", load.prompt_tokens, 1));
  // So that there are rounds after the first one.
  OUTRIDER_TRY(least("tokens", load.tokens, c.draft + 2));
  if ((c.draft > 0) != (drafter != nullptr)) {
    return InvalidArgument("a drafter goes with drafts, and with nothing else");
  }
  if (drafter != nullptr && drafter->config().vocab_size != target.config().vocab_size) {
    return InvalidArgument("the pair's vocabularies are " +
                           std::to_string(target.config().vocab_size) + " and " +
                           std::to_string(drafter->config().vocab_size));
  }
  return Status();
}

}  // namespace

int PairBatchTokens(const PairCase& c) { return c.sessions * (c.draft + 1); }

int PairKvTokens(const PairLoad& load, const PairCase& c) {
  return load.prompt_tokens + load.tokens + c.draft + 1;
}

Result<PairFigures> RunPair(Model* target, Model* drafter, const PairLoad& load,
                            const PairCase& c) {
  OUTRIDER_TRY(Check(*target, drafter, load, c));
  return Rounds(target, drafter, load, c).Run();
}

}  // namespace outrider
