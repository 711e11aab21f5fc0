// A Model without weights whose forward passes take a given time. A target and a draft model of the
// same vocabulary continue every text alike, except that the draft model proposes another token
// with probability 1 - acceptance, so that a draft token is accepted with that probability if those
// before it are, independently of all others. Logits make temperature 0 the only useful one.
//
// The simulator spends a pass's time on a simulated clock; tests/support/paced_loader.cc sleeps,
// so that services built with it can be compared with the simulation.
//
// Thread: one owner, as for every Model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/backend/host_picks.h"
#include "common/kv/page_pool.h"
#include "common/kv/page_table.h"
#include "common/model/model.h"
#include "common/rules/host_rounds.h"

namespace outrider {

// The time of a forward pass, linear in its rows as in docs/scaling.md: V(r) = first + (r - 1)
// more.
struct PassCost {
  double first_row = 0;    // seconds
  double further_row = 0;  // seconds
  double Seconds(double rows) const { return first_row + further_row * (rows - 1); }
};

// What a model says after a text.
struct PacedNext {
  TokenId token = 0;
  float logit = 20;  // beside zeros: a probability of 1 - 1e-7 of 32 tokens
};

struct PacedModelOptions {
  std::string name = "paced";
  int vocab_size = 32;
  PassCost cost;
  // For a draft model, the probability that a draft token is accepted, by class of text. A text's
  // class is its first token modulo the number of classes. Empty: this is the target.
  std::vector<double> acceptance = {};
  // By PacedModel::HashOf, what follows recorded texts; all others continue as above.
  std::unordered_map<uint64_t, PacedNext> recorded = {};
  std::vector<int32_t> eos_token_ids = {};
  int page_tokens = 16;
  int total_pages = 4096;
  int max_batch_tokens = 512;
  int max_position_embeddings = 1 << 17;
};

class PacedModel final : public Model {
 public:
  // Spends the time of a pass, in seconds.
  using SpendFn = std::function<void(double seconds)>;

  PacedModel(PacedModelOptions options, SpendFn spend);

  // Of a text; `before` is that of the tokens in front of `token`.
  static uint64_t HashOf(uint64_t before, TokenId token);
  static uint64_t HashOfNothing();

  const ModelConfig& config() const override { return config_; }
  int page_tokens() const override { return options_.page_tokens; }
  int total_pages() const override { return options_.total_pages; }
  int free_pages() const override { return pool_.free_pages(); }
  SequenceId NewSequence() override;
  int PagesNeeded(SequenceId sequence, int tokens) const override {
    return Get(sequence).table.PagesNeeded(tokens);
  }
  Status Reserve(SequenceId sequence, int tokens) override;
  Result<SequenceId> Fork(SequenceId sequence, int length) override;
  std::span<const int32_t> Pages(SequenceId sequence) const override {
    return Get(sequence).table.pages();
  }
  std::span<const int32_t> page_holders() const override { return pool_.references(); }
  int length(SequenceId sequence) const override;
  Status Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                 ForwardOutput* output) override;
  int max_batch_tokens() const override { return options_.max_batch_tokens; }
  int64_t logit_rows() const { return logit_rows_; }  // wanted, of all passes
  Decisions Decide(const RoundBatch& batch, int allowed) override;
  std::span<const PickedRow> Draft(const PickBatch& batch) override;
  void KeepPath(SequenceId sequence, std::span<const int32_t> path) override;
  void Truncate(SequenceId sequence, int length) override;
  void Release(SequenceId sequence) override;

 private:
  struct Sequence {
    TokenId first = 0;             // its first token, which names its class
    std::vector<uint64_t> hashes;  // of the text up to each token
    PageTable table;
    int last_begin = 0;  // where the tokens of the last pass begin
  };

  Sequence& Get(SequenceId id);
  const Sequence& Get(SequenceId id) const;
  // Of the sequence, after a pass.
  int TokensAfter(const ForwardSequence& share) const {
    return length(share.sequence) + static_cast<int>(share.tokens.size());
  }
  // The most likely token after a text with this hash.
  PacedNext Next(uint64_t hash, TokenId first) const;
  void AddRow(const PacedNext& next);
  // Appends a sequence's tokens, and the logits rows that it wants.
  void Append(const ForwardSequence& share);

  const PacedModelOptions options_;
  const SpendFn spend_;
  ModelConfig config_;
  PagePool pool_;
  SequenceId next_id_ = 0;
  std::unordered_map<SequenceId, Sequence> sequences_;
  int64_t logit_rows_ = 0;
  std::vector<float> logits_;
  std::vector<float> hidden_;
  HostRounds host_rounds_;
  HostPicks host_picks_;
};

}  // namespace outrider
