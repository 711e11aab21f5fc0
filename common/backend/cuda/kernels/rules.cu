#include <algorithm>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/round.h"
#include "common/backend/cuda/kernels/row_draw.h"
#include "common/backend/cuda/kernels/rules.h"

namespace outrider {
namespace {

// Each rule as its header in common/rules has it, run by one warp, over entries in parallel.

__device__ Stop DecideToken(const WarpRound& round) {
  int node = 0;
  while (round.draws(node) > 0) {
    const SparseRow<double> law = round.Draft(node, 0);
    const int child = round.draw(node, 0);
    const double accept = round.Accepted(1, node, law, round.token(child));
    if (!round.Flip(Purpose::kAccept, round.depth(node), 0, accept)) {
      return round.StopAt(node, 1, law);
    }
    node = child;
  }
  return round.StopAtLeaf(node);
}

// Block verification of the path scratch.nodes[0 .. g]. law_at(i): of the draws behind nodes[i].
template <class LawAt>
__device__ Stop DecidePath(const WarpRound& round, int g, const LawAt& law_at) {
  const RoundScratch& s = round.scratch;
  double p = 1;
  for (int i = 0; i <= g; ++i) {
    if (i > 0) p = round.Accepted(p, s.nodes[i - 1], law_at(i - 1), round.token(s.nodes[i]));
    if (Lane() == 0) s.p[i] = p;
  }
  __syncwarp();
  for (int i = g; i > 0; --i) {
    const int node = s.nodes[i];
    const double h =
        i == g ? s.p[i] : InnerAcceptance(s.p[i], round.Residual(s.p[i], node, law_at(i)));
    if (!round.Flip(Purpose::kAccept, i - 1, 0, h)) continue;
    return i == g ? round.StopAtLeaf(node) : round.StopAt(node, s.p[i], law_at(i));
  }
  return g == 0 ? round.StopAtLeaf(0) : round.StopAt(0, 1, law_at(0));
}

// The draw that k-SEQ takes, -1 if every trial fails.
__device__ int TryCandidates(const WarpRound& round, int node, const KSeq& kseq,
                             const RatioEntry* entries, int n) {
  for (int i = 0; i < round.draws(node); ++i) {
    const int child = round.draw(node, i);
    const int at = round.FindEntry(entries, n, round.token(child));
    const double accept = at < 0 ? 0 : kseq.Trial(entries[at].p, entries[at].q);
    if (round.Flip(Purpose::kTrial, round.depth(node), i, accept)) return child;
  }
  return -1;
}

// The law at the place of `depth` in the scratch: the entries' tokens, with weights of(i).
template <class Of>
__device__ SparseRow<double> LawOver(const WarpRound& round, int depth, const RatioEntry* entries,
                                     int n, const Of& of) {
  __syncwarp();
  TokenId* ids = round.scratch.ids + depth * round.size_of_laws();
  double* weights = round.scratch.weights + depth * round.size_of_laws();
  for (int i = Lane(); i < n; i += kWarpSize) {
    ids[i] = entries[i].id;
    weights[i] = of(i);
  }
  __syncwarp();
  return {ids, weights, n, 1};
}

__device__ Stop DecideSpecTr(const WarpRound& round) {
  int node = 0;
  while (round.draws(node) > 0) {
    const SparseRow<double> draft = round.Draft(node, 0);
    const RatioEntry* entries = round.Rank(node, draft);
    const KSeq kseq = SolveKSeq(entries, draft.size, round.draws(node));
    const int child = TryCandidates(round, node, kseq, entries, draft.size);
    if (child < 0) {
      return round.StopAt(node, 1, LawOver(round, 0, entries, draft.size, [&](int i) {
                            return kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
                          }));
    }
    node = child;
  }
  return round.StopAtLeaf(node);
}

__device__ Stop DecideMultiRound(const WarpRound& round) {
  int node = 0;
  while (round.draws(node) > 0) {
    const SparseRow<double> draft = round.Draft(node, 0);
    const RatioEntry* entries = round.Rank(node, draft);
    RecursiveRest rest;
    int chosen = -1;
    for (int i = 0; i < round.draws(node) && chosen < 0; ++i) {
      const int child = round.draw(node, i);
      const int at = round.FindEntry(entries, draft.size, round.token(child));
      const double accept = at < 0 ? 0 : rest.Trial(entries[at].p, entries[at].q);
      if (round.Flip(Purpose::kTrial, round.depth(node), i, accept)) {
        chosen = child;
      } else {
        rest.Reject(entries, draft.size);
      }
    }
    if (chosen < 0) {
      return round.StopAt(node, 1, LawOver(round, 0, entries, draft.size, [&](int i) {
                            return rest.d * entries[i].q;
                          }));
    }
    node = chosen;
  }
  return round.StopAtLeaf(node);
}

// ChooseMix and ChooseDraw: the draw taken behind `node`; its law goes to the place of `depth`.
__device__ int ChooseDraw(const WarpRound& round, int node, int depth) {
  static_assert(kShareSteps < kWarpSize);
  const RoundScratch& s = round.scratch;
  const SparseRow<double> draft = round.Draft(node, depth);
  const int n = draft.size, k = round.draws(node);
  const RatioEntry* entries = round.Rank(node, draft);
  const KSeq kseq = SolveKSeq(entries, n, k);
  const double all_but_one_fail = Power(1 - kseq.beta, k - 1);
  for (int i = Lane(); i < n; i += kWarpSize) {
    double below = 0;
    for (int j = n - 1; j > i; --j) below += entries[j].q;
    s.by_kseq[i] = KSeqChoice(kseq, entries[i].p, entries[i].q, all_but_one_fail);
    s.by_ratio[i] = RatioChoice(entries[i].q, below, k);
  }
  __syncwarp();
  double overlap = 0;  // a share each lane
  for (int i = 0; i < n; ++i) {
    const double law = MixedChoice(ShareOfStep(Lane()), s.by_kseq[i], s.by_ratio[i]);
    overlap += entries[i].p < law ? entries[i].p : law;
  }
  double share = 0, best = -1;
  for (int step = 0; step <= kShareSteps; ++step) {
    const double of_step = __shfl_sync(kFullWarp, overlap, step);
    if (of_step > best) best = of_step, share = ShareOfStep(step);
  }
  LawOver(round, depth, entries, n,
          [&](int i) { return MixedChoice(share, s.by_kseq[i], s.by_ratio[i]); });

  if (round.Flip(Purpose::kChoice, round.depth(node), 0, share)) {
    const int child = TryCandidates(round, node, kseq, entries, n);
    return child >= 0 ? child : round.draw(node, 0);
  }
  int first = n, chosen = round.draw(node, 0);
  for (int i = 0; i < k; ++i) {
    const int child = round.draw(node, i);
    const int rank = round.FindEntry(entries, n, round.token(child));
    if (rank >= 0 && rank < first) first = rank, chosen = child;
  }
  return chosen;
}

// Along the draws that are chosen, then as one block. One sequence: a choice of one.
__device__ Stop DecideBlock(const WarpRound& round, bool many_paths) {
  const RoundScratch& s = round.scratch;
  int g = 0;
  int node = 0;
  for (;; ++g) {
    if (Lane() == 0) s.nodes[g] = node;
    const int k = round.draws(node);
    if (k == 0) break;
    if (many_paths && k > 1) {
      node = ChooseDraw(round, node, g);
    } else {
      round.Draft(node, g);
      node = round.draw(node, 0);
    }
  }
  __syncwarp();
  return DecidePath(round, g, [&](int depth) {
    return SparseRow<double>{s.ids + depth * round.size_of_laws(),
                             s.weights + depth * round.size_of_laws(),
                             round.size_of_law(s.nodes[depth]), 1};
  });
}

// The target's own tokens, worked out already, as far as they were drafted.
__device__ Stop DecideMatch(const WarpRound& round) {
  int node = 0;
  for (;;) {
    const TokenId next = round.match(node);
    const int at = round.Find(round.draws(node),
                              [&](int i) { return round.token(round.draw(node, i)) == next; });
    if (at < 0) return round.StopAtLeaf(node);
    node = round.draw(node, at);
  }
}

__device__ Stop Decide(VerifyRule rule, const WarpRound& round) {
  switch (rule) {
    case VerifyRule::kPlain: return round.StopAtLeaf(0);
    case VerifyRule::kToken: return DecideToken(round);
    case VerifyRule::kBlock: return DecideBlock(round, false);
    case VerifyRule::kMultiPathBlock: return DecideBlock(round, true);
    case VerifyRule::kSpecTr: return DecideSpecTr(round);
    case VerifyRule::kMultiRound: return DecideMultiRound(round);
    case VerifyRule::kArgmax:
    case VerifyRule::kRace: break;
  }
  return DecideMatch(round);
}

__device__ bool Samples(VerifyRule rule) {
  return rule != VerifyRule::kArgmax && rule != VerifyRule::kRace;
}

// A thread a node.
__device__ void WriteAcceptance(const WarpRound& round, VerifyRule rule, uint8_t* out) {
  for (int node = static_cast<int>(threadIdx.x); node < round.nodes();
       node += static_cast<int>(blockDim.x)) {
    out[node] = 0;
    if (node == 0 || !Samples(rule)) continue;
    const int parent = round.parent(node);
    const TokenId token = round.token(node);
    out[node] = AcceptanceByte(static_cast<double>(round.target(parent)[token]),
                               round.DraftProbability(parent, token));
  }
}

// AcceptanceOfFirstToken of common/rules/verify.h. A step of the whole warp.
__device__ void WeighFirstToken(const WarpRound& round, float* kseq_acceptance, float* optimal) {
  const int k = round.draws(0);
  const SparseRow<double> draft = round.Draft(0, 0);
  const RatioEntry* entries = round.Rank(0, draft);
  const KSeq kseq = SolveKSeq(entries, draft.size, k);
  *kseq_acceptance = static_cast<float>(kseq.gain * kseq.beta);
  *optimal = static_cast<float>(OptimalAcceptance(entries, draft.size, k));
}

// Depth of the first node on the way to `node` whose row is not finite; -1: none. A step of one
// thread.
__device__ int FirstBroken(const WarpRound& round, int node) {
  int first = -1;
  for (; node >= 0; node = round.parent(node)) {
    if (round.is_broken(node)) first = round.depth(node);
  }
  return first;
}

// A block a session: its first warp decides where the round ends, all of them draw. A launch of
// more threads than its registers allow would fail: the compiler is told of the widest rows' 512.
__global__ void __launch_bounds__(512) RulesKernel(RoundArrays a) {
  __shared__ DrawShared draw;
  __shared__ Stop stop;
  const int session = static_cast<int>(blockIdx.x);
  const BatchedRound& batched = a.rounds[session];
  const VerifyRule rule = batched.spec.rule;
  const WarpRound round(a, batched);
  WriteAcceptance(round, rule, a.acceptance + batched.first_node);
  float kseq_acceptance = 0, optimal_acceptance = 0;  // in the first warp
  if (Warp() == 0) {
    if (Samples(rule) && round.draws(0) > 1) {
      WeighFirstToken(round, &kseq_acceptance, &optimal_acceptance);
    }
    const Stop decided = Decide(rule, round);
    if (Lane() == 0) stop = decided;
  }
  __syncthreads();
  const int node = stop.node;
  const int depth = round.depth(node);
  TokenId next = -1;
  if (!Samples(rule)) {
    next = round.match(node);
  } else {
    const Purpose purpose = rule == VerifyRule::kPlain ? Purpose::kPlainToken : Purpose::kNextToken;
    const SparseRow<double> law = {stop.ids, stop.weights, stop.size, 1};
    next = DrawFromResidual(round.target(node), a.allowed, stop.scale, law,
                            round.Toss(purpose, depth, 0), round.scratch.saved, draw);
  }
  if (threadIdx.x == 0) {
    a.verdicts[session] = {
        node, depth, next, kseq_acceptance, optimal_acceptance, FirstBroken(round, node)};
  }
}

}  // namespace

int64_t RuleScratchBytes(const BatchedRound& round) {
  return RoundScratch::Bytes(std::max(round.max_depth, 1), round.max_entries);
}

cudaError_t LaunchRules(const RoundArrays& arrays, cudaStream_t stream) {
  return Launch(RulesKernel, static_cast<unsigned>(arrays.sessions), ThreadsForRow(arrays.vocab), 0,
                stream, arrays);
}

}  // namespace outrider
