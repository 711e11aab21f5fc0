#include "common/rules/host_rounds.h"

#include "common/base/check.h"
#include "common/math/softmax.h"
#include "common/rules/match.h"
#include "common/rules/philox_coins.h"
#include "common/rules/verify.h"
#include "common/spec/race.h"
#include "common/spec/row_sampling.h"

namespace outrider {
namespace {

// A round with the target distributions target_at(node).
template <class TargetAt>
class TargetedRound : public BatchedRound {
 public:
  using Real = float;

  TargetedRound(const BatchedRound& round, int vocab, TargetAt target_at)
      : BatchedRound(round), vocab_(vocab), target_at_(target_at) {}
  int vocab() const { return vocab_; }
  const float* target(int node) const { return target_at_(node); }

 private:
  int vocab_;
  TargetAt target_at_;
};

// The logits rows of one round, each processed when first needed.
class RoundRows {
 public:
  RoundRows(const BatchedRound& round, const RoundArrays& arrays, const LogitRows& rows)
      : round_(round), arrays_(arrays), rows_(rows) {
    is_broken_.resize(static_cast<size_t>(round.nodes()));
    is_distribution_.resize(is_broken_.size());
  }

  bool is_broken(int node) const { return is_broken_[static_cast<size_t>(node)]; }
  bool is_distribution(int node) const { return is_distribution_[static_cast<size_t>(node)]; }

  // The target distribution after `node`.
  const float* Target(int node) {
    if (!is_distribution(node)) {
      is_distribution_[static_cast<size_t>(node)] = true;
      MakeDistribution(StateAt(node), rows_.allowed, Path(node), Logits(node));
    }
    return Row(node).data();
  }
  // The token that the target itself chooses after `node`. Call once per node.
  TokenId OwnToken(int node) {
    const RoundHeader& header = round_.header();
    const std::vector<TokenId> path = Path(node);
    if (header.kind() == DraftKind::kArgmax) {
      return MostLikely(StateAt(node), rows_.allowed, path, Logits(node));
    }
    const uint32_t position = header.spec.position + static_cast<uint32_t>(round_.depth(node));
    return RaceOrder(StateAt(node), rows_.allowed, path, Logits(node), 1, header.spec.seed,
                     position)[0];
  }

 private:
  std::span<float> Row(int node) const {
    const auto vocab = static_cast<size_t>(rows_.vocab);
    return {rows_.data + static_cast<size_t>(round_.header().first_node + node) * vocab, vocab};
  }
  std::span<float> Logits(int node) {
    const std::span<float> row = Row(node);
    is_broken_[static_cast<size_t>(node)] =
        !IsFinite(row.first(static_cast<size_t>(rows_.allowed)));
    return row;
  }
  std::vector<TokenId> Path(int node) const {
    std::vector<TokenId> path(static_cast<size_t>(round_.depth(node)));
    for (size_t i = path.size(); i > 0; node = round_.parent(node)) path[--i] = round_.token(node);
    return path;
  }
  SamplingState StateAt(int node) const {
    const RoundHeader& h = round_.header();
    return {
        .sampling = h.sampling,
        .seen = {arrays_.seen + h.first_seen, static_cast<size_t>(h.seen)},
        .biases = {arrays_.biases + h.first_bias, static_cast<size_t>(h.biases)},
        .suppressed = {arrays_.suppressed + h.first_suppressed, static_cast<size_t>(h.suppressed)},
        .suppressed_rows = h.suppressed_rows,
        .mask = {arrays_.mask + h.mask_of(node), static_cast<size_t>(h.mask)},
        .bad_words = {arrays_.bad_words + h.first_bad_word, static_cast<size_t>(h.bad_words)},
        .bad_tokens = {arrays_.bad_tokens + h.first_bad_token, static_cast<size_t>(h.bad_tokens)},
        .recent = {arrays_.recent + h.first_recent, static_cast<size_t>(h.recent)}};
  }

  const BatchedRound& round_;
  const RoundArrays& arrays_;
  const LogitRows& rows_;
  std::vector<bool> is_broken_, is_distribution_;
};

// Decides by a rule over distributions. Without a draft: one token of the target.
template <class Round>
Verdict VerdictOf(Round& round, HostScratch& scratch) {
  const RoundSpec& spec = round.header().spec;
  if (round.nodes() > 1) {
    const PhiloxCoins coins(spec.seed, spec.round);
    return Verify(spec.rule, round, coins, scratch);
  }
  const std::span<const float> target(round.target(DraftTree::kRoot),
                                      static_cast<size_t>(round.vocab()));
  const double coin = Coin(spec.seed, spec.round, 0, Purpose::kPlainToken);
  return {.node = DraftTree::kRoot, .accepted = 0, .next = SampleRow(target, coin)};
}

// Decides by the tokens that the target itself chooses: own_token(node).
template <class OwnToken>
Verdict MatchVerdict(const BatchedRound& round, OwnToken own_token) {
  TokenId next = -1;
  const int node = MatchingPath(
      round, [&](int tree_node) { return next = own_token(tree_node); }, OneLane());
  return {.node = node, .accepted = round.depth(node), .next = next};
}

template <class Round>
FirstTokenAcceptance FirstTokenOf(Round& round, HostScratch& scratch) {
  return WeighFirstToken(
      RuleView(round, scratch.For(round.max_depth(), round.max_entries()), OneLane()));
}

}  // namespace

Decisions HostRounds::Decide(const RoundBatch& batch, const LogitRows& rows) {
  const RoundArrays arrays = batch.arrays();
  rounds_.clear();
  acceptance_.assign(static_cast<size_t>(batch.nodes()), 0);
  for (int i = 0; i < batch.size(); ++i) {
    const BatchedRound batched(arrays, i);
    RoundRows round_rows(batched, arrays, rows);
    DecidedRound& decided = rounds_.emplace_back();
    const auto is_broken = [&](int node) { return round_rows.is_broken(node); };
    if (batched.header().kind() != DraftKind::kSampled) {
      decided.verdict = MatchVerdict(batched, [&](int node) { return round_rows.OwnToken(node); });
      decided.broken_depth = BrokenDepth(batched, decided.verdict.node, is_broken);
      continue;
    }
    TargetedRound round(batched, rows.vocab, [&](int node) { return round_rows.Target(node); });
    decided.verdict = VerdictOf(round, scratch_);
    decided.broken_depth = BrokenDepth(batched, decided.verdict.node, is_broken);
    if (round.draws(DraftTree::kRoot).size() > 1) {
      decided.first_token = FirstTokenOf(round, scratch_);
    }
    if (!batched.header().spec.wants_acceptance) continue;
    for (int node = 1; node < round.nodes(); ++node) {
      const int parent = round.parent(node);
      if (!round_rows.is_distribution(parent)) break;
      acceptance_[static_cast<size_t>(batched.header().first_node + node)] =
          AcceptanceAt(round, node, round.target(parent));
      decided.known_nodes = node;
    }
  }
  return {.rounds = rounds_, .acceptance = acceptance_};
}

Verdict VerifyRound(Rule rule, const DraftTree& draft, const TargetRowFn& target_row, int vocab,
                    uint64_t seed, uint32_t round, uint32_t position) {
  RoundBatch batch;
  batch.Add({.rule = rule, .seed = seed, .round = round, .position = position}, draft, {});
  const RoundArrays arrays = batch.arrays();
  const BatchedRound batched(arrays, 0);
  if (rule == Rule::kGumbel) {
    return MatchVerdict(batched, [&](int node) {
      return RaceWinner(target_row(node), seed,
                        position + static_cast<uint32_t>(draft.depth(node)));
    });
  }
  TargetedRound targeted(batched, vocab, [&](int node) {
    const std::span<const float> row = target_row(node);
    OUTRIDER_CHECK(row.size() == static_cast<size_t>(vocab));
    return row.data();
  });
  const PhiloxCoins coins(seed, round);
  return Verify(rule, targeted, coins);
}

FirstTokenAcceptance AcceptanceOfFirstToken(const DraftTree& draft,
                                            std::span<const float> target_row) {
  if (draft.draws(DraftTree::kRoot).empty()) return {};
  RoundBatch batch;
  batch.Add({}, draft, {});
  const RoundArrays arrays = batch.arrays();
  TargetedRound round(BatchedRound(arrays, 0), static_cast<int>(target_row.size()),
                      [&](int) { return target_row.data(); });
  HostScratch scratch;
  return FirstTokenOf(round, scratch);
}

}  // namespace outrider
