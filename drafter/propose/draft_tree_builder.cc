#include "drafter/propose/draft_tree_builder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/math/coins.h"

namespace outrider {
namespace {

RowMeasure MeasureFor(StopRule::Kind stop) {
  if (stop == StopRule::Kind::kConfidence) return RowMeasure::kLargest;
  return stop == StopRule::Kind::kEntropy ? RowMeasure::kEntropy : RowMeasure::kNone;
}

}  // namespace

std::vector<TokenId> TokensOf(const PickedRow& row) {
  std::vector<TokenId> tokens;
  for (const RowEntry& entry : row.entries) tokens.push_back(entry.id);
  return tokens;
}

DraftTreeBuilder::DraftTreeBuilder(DraftTask task) : task_(std::move(task)) {
  live_ = {{.index = 0, .slot = 0}};
  frontier_ = {DraftTree::kRoot};
}

PickSpec DraftTreeBuilder::RowSpec(const RowSampling& sampling, int allowed) const {
  PickSpec spec{.allowed = allowed,
                .sampling = sampling,
                .seed = task_.seed,
                .position = static_cast<uint32_t>(task_.position + depths_)};
  if (task_.kind == DraftKind::kSampled) {
    spec.count = task_.distribution_limits.max_entries;
    return spec;
  }
  if (races_translated()) {
    spec.count = kRaceEntries;
    return spec;
  }
  spec.pick = task_.kind == DraftKind::kRace ? RowPick::kRace : RowPick::kTop;
  spec.count = task_.shape.draws(depths_) + 1;
  spec.measure = MeasureFor(task_.stop.kind);
  return spec;
}

bool DraftTreeBuilder::draws_chain() const {
  return task_.stop.kind == StopRule::Kind::kLength && task_.shape.leaves() == 1 &&
         !races_translated() &&
         (task_.kind != DraftKind::kSampled ||
          task_.distribution_limits.max_entries <= kMaxChainEntries);
}

ChainSampling DraftTreeBuilder::ChainSpec(int depths) const {
  return {.depths = depths,
          .round = task_.round,
          .first_depth = static_cast<uint32_t>(depths_),
          .mass = task_.distribution_limits.mass};
}

DraftTreeBuilder::Source DraftTreeBuilder::SourceOf(const PickedRow& row) const {
  // This depends on the path before the draft tokens alone, as a stop rule does, so it changes no
  // distribution.
  if (row.broken) return {.broken = true};
  // Masks may leave no token, or none that both vocabularies have.
  if (row.entries.empty() ||
      (task_.vocabulary != nullptr && task_.vocabulary->ToVerifier(row.entries[0].id) < 0)) {
    return {};
  }
  if (races_translated()) return RaceSourceOf(row);
  if (task_.kind != DraftKind::kSampled) {
    return {.tokens = TokensOf(row), .last = StopsAtMeasure(task_.stop, row.measure)};
  }
  Source source{.distribution = MakeDraftDistribution({row.entries.begin(), row.entries.end()},
                                                      task_.distribution_limits)};
  source.last = Stops(task_.stop, source.distribution);
  return source;
}

DraftTreeBuilder::Source DraftTreeBuilder::RaceSourceOf(const PickedRow& row) const {
  Source source{.tokens = task_.vocabulary->RaceWinners(
                    row.entries, task_.shape.draws(depths_) + 1, task_.seed,
                    static_cast<uint32_t>(task_.position + depths_))};
  source.last = Stops(task_.stop, MakeDraftDistribution({row.entries.begin(), row.entries.end()},
                                                        task_.distribution_limits));
  return source;
}

DraftTreeBuilder::Source DraftTreeBuilder::Certain(TokenId token) const {
  if (task_.kind != DraftKind::kSampled) return {.tokens = {token}};
  const std::vector<RowEntry> entry = {{.id = token, .value = 1.f}};
  return {.distribution = MakeDraftDistribution(entry, task_.distribution_limits)};
}

TokenId DraftTreeBuilder::LikelyStop(const Source& source, int node) const {
  if (task_.kind != DraftKind::kSampled) {
    const size_t drawn = tree_.draws(node).size();
    return drawn < source.tokens.size() ? source.tokens[drawn] : -1;
  }
  for (const TokenId token : source.distribution.ids) {  // descending weights
    if (tree_.Child(node, token) < 0) return token;
  }
  return -1;
}

std::vector<DraftTreeBuilder::Source> DraftTreeBuilder::SourcesOf(std::span<const PickedRow> rows,
                                                                  std::span<const float> accepted) {
  const bool by_head = task_.stop.kind == StopRule::Kind::kHead;
  OUTRIDER_CHECK(accepted.size() == (by_head ? frontier_.size() : 0));
  std::vector<Source> sources;
  for (size_t slot = 0; slot < frontier_.size(); ++slot) {
    Source& source = sources.emplace_back(SourceOf(rows[slot]));
    broken_rows_ += source.broken ? 1 : 0;
    if (frontier_[slot] == DraftTree::kRoot) continue;
    if (!source.has_draws()) {
      source = Certain(tree_.token(frontier_[slot]));
      source.last = task_.stop.kind != StopRule::Kind::kLength;
    }
    if (!by_head) continue;
    predicted_.resize(static_cast<size_t>(frontier_[slot]) + 1, -1.f);
    predicted_.back() = accepted[slot];
    log_accepted_[slot] += std::log(static_cast<double>(accepted[slot]));
    // 1 - product > h, without rounding near 1. NaN stops the draft.
    source.last = !(log_accepted_[slot] >= std::log1p(-static_cast<double>(task_.stop.threshold)));
  }
  return sources;
}

void DraftTreeBuilder::DrawDepth(std::span<const PickedRow> rows, std::span<const float> accepted) {
  OUTRIDER_CHECK(!frontier().empty() && rows.size() == frontier_.size());
  std::vector<Source> sources = SourcesOf(rows, accepted);
  const auto draws = static_cast<uint32_t>(task_.shape.draws(depths_));
  const auto depth = static_cast<uint32_t>(depths_);
  std::vector<Draw> live;
  std::vector<int32_t> frontier;
  std::vector<double> log_accepted;  // [frontier]: as far as known
  for (const Draw& draw : live_) {
    const int parent = frontier_[draw.slot];
    const Source& source = sources[draw.slot];
    if (!source.has_draws()) continue;
    for (uint32_t i = 0; i < draws; ++i) {
      const uint32_t index = draw.index * draws + i;
      TokenId token;
      if (task_.kind == DraftKind::kSampled) {
        token = SampleDraftDistribution(
            source.distribution, Coin(task_.seed, task_.round, depth, Purpose::kDraftToken, index));
      } else {
        if (i == source.tokens.size()) break;
        token = source.tokens[i];
      }
      untaken_is_chain_ = untaken_is_chain_ && parent == tree_.size();
      const int node = tree_.AddDraw(parent, token);
      untaken_.tokens.push_back(token);
      untaken_.parents.push_back(parent);
      if (source.last) continue;
      // Nodes are numbered in the order of their first draft token, so the frontier ascends.
      auto it = std::lower_bound(frontier.begin(), frontier.end(), node);
      if (it == frontier.end()) {
        it = frontier.insert(it, node);
        log_accepted.push_back(log_accepted_[draw.slot]);
      }
      live.push_back({.index = index, .slot = static_cast<size_t>(it - frontier.begin())});
    }
  }
  for (size_t slot = 0; slot < frontier_.size(); ++slot) {
    const TokenId token = LikelyStop(sources[slot], frontier_[slot]);
    if (token >= 0) likely_stops_.push_back({.node = frontier_[slot], .next = token});
  }
  if (task_.kind == DraftKind::kSampled) {
    // Frontier nodes had this order at the depth before.
    for (Source& source : sources) {
      if (source.has_draws()) untaken_.distributions.push_back(std::move(source.distribution));
    }
  }
  live_ = std::move(live);
  frontier_ = std::move(frontier);
  log_accepted_ = std::move(log_accepted);
  ++depths_;
}

void DraftTreeBuilder::SetShape(const DraftShape& shape) {
  task_.shape = shape;
  if (shape.length >= depths_) return;
  OUTRIDER_CHECK(untaken_.tokens.size() == static_cast<size_t>(tree_.total_draws()));
  DraftTree tree;
  size_t kept = 0;
  // The deepest draft tokens come last. There are none this deep if rows were broken.
  while (kept < untaken_.tokens.size() && tree.depth(untaken_.parents[kept]) < shape.length) {
    tree.AddDraw(untaken_.parents[kept], untaken_.tokens[kept]);
    ++kept;
  }
  untaken_.tokens.resize(kept);
  untaken_.parents.resize(kept);
  size_t drawn = 0;
  for (int node = 0; node <= tree.size(); ++node) drawn += tree.draws(node).empty() ? 0 : 1;
  if (!untaken_.distributions.empty()) untaken_.distributions.resize(drawn);
  std::erase_if(likely_stops_, [&](const RoundEnd& stop) {
    return stop.node > tree.size() || tree.draws(stop.node).empty();
  });
  tree_ = std::move(tree);
  depths_ = shape.length;
}

DraftChunk DraftTreeBuilder::TakeChunk() {
  DraftChunk chunk = AsSent(std::exchange(untaken_, {}));
  untaken_is_chain_ = true;
  return chunk;
}

DraftChunk DraftTreeBuilder::AsSent(DraftChunk chunk) const {
  if (untaken_is_chain_) chunk.parents.clear();
  chunk.more = !frontier().empty();
  return chunk;
}

}  // namespace outrider
