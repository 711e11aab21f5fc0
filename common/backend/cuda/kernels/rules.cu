#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_draw.h"
#include "common/backend/cuda/kernels/rules.h"
#include "common/backend/cuda/kernels/warp_lanes.h"
#include "common/rules/match.h"
#include "common/rules/philox_coins.h"
#include "common/rules/verify.h"

namespace outrider {
namespace {

class DeviceRound : public BatchedRound {
 public:
  using Real = float;

  __device__ DeviceRound(const DeviceRoundArrays& arrays, int round)
      : BatchedRound(arrays.batch, round), a_(arrays) {}

  __device__ float* target(int node) const { return a_.logits + int64_t{at(node)} * a_.vocab; }
  __device__ TokenId match(int node) const { return a_.matches[at(node)]; }
  __device__ bool is_broken(int node) const { return a_.broken[at(node)] != 0; }
  __device__ unsigned char* scratch() const { return a_.scratch + header().scratch; }
  __device__ uint8_t* acceptance() const { return a_.acceptance + at(0); }

 private:
  const DeviceRoundArrays& a_;
};

// One thread per node.
__device__ void WriteAcceptance(const DeviceRound& round, bool samples) {
  for (int node = static_cast<int>(threadIdx.x); node < round.nodes();
       node += static_cast<int>(blockDim.x)) {
    const bool known = samples && node > 0;
    round.acceptance()[node] =
        known ? AcceptanceAt(round, node, round.target(round.parent(node))) : 0;
  }
}

// Where a round ends, in shared memory.
struct SharedStop {
  int node;
  double scale;
  const TokenId* ids;
  const double* weights;
  int size;
};

// The first warp determines where the round ends, and the acceptance probability of its first
// token.
__device__ FirstTokenAcceptance DecideInWarp(DeviceRound& round, const RuleScratch& scratch,
                                             bool samples, SharedStop& shared) {
  Stop stop;
  FirstTokenAcceptance first_token;
  if (samples) {
    const RuleView<DeviceRound, WarpLanes> view(round, scratch, WarpLanes());
    if (view.draws(DraftTree::kRoot) > 1) first_token = WeighFirstToken(view);
    const RoundSpec& spec = round.header().spec;
    const PhiloxCoins coins(spec.seed, spec.round);
    stop = Decide(spec.rule, view, coins);
  } else {
    stop = StopAtLeaf(MatchingPath(
        round, [&](int node) { return round.match(node); }, WarpLanes()));
  }
  if (Lane() == 0) {
    shared = {stop.node, stop.scale, stop.minus.ids, stop.minus.weights, stop.minus.size};
  }
  return first_token;
}

// One block per round: its first warp decides where the round ends, all of them sample the next
// token. A launch with more threads than its registers allow would fail, so the compiler is told
// the maximum, 512 for the widest rows.
__global__ void __launch_bounds__(512) RulesKernel(DeviceRoundArrays a) {
  OUTRIDER_SHARED(DrawShared, draw);
  OUTRIDER_SHARED(SharedStop, stop);
  DeviceRound round(a, static_cast<int>(blockIdx.x));
  const RoundHeader& header = round.header();
  const bool samples = header.kind() == DraftKind::kSampled;
  const RuleScratch scratch(round.scratch(), max(header.max_depth, 1), header.max_entries);
  WriteAcceptance(round, samples);
  FirstTokenAcceptance first_token;  // only in the first warp
  if (Warp() == 0) first_token = DecideInWarp(round, scratch, samples, stop);
  __syncthreads();
  const int node = stop.node;
  const int depth = round.depth(node);
  TokenId next = -1;
  if (samples) {
    const Purpose purpose = round.nodes() == 1 ? Purpose::kPlainToken : Purpose::kNextToken;
    const double coin =
        Coin(header.spec.seed, header.spec.round, static_cast<uint32_t>(depth), purpose);
    const SparseRow<double> minus = {stop.ids, stop.weights, stop.size, 1};
    next = DrawFromResidual(round.target(node), a.allowed, stop.scale, minus, coin,
                            scratch.target_at_entries, draw);
  } else {
    next = round.match(node);
  }
  if (threadIdx.x == 0) {
    DecidedRound decided;
    decided.verdict = {node, depth, next};
    decided.first_token = first_token;
    decided.broken_depth =
        BrokenDepth(round, node, [&](int ancestor) { return round.is_broken(ancestor); });
    decided.known_nodes = samples ? round.nodes() - 1 : 0;
    a.decided[blockIdx.x] = decided;
  }
}

}  // namespace

cudaError_t LaunchRules(const DeviceRoundArrays& arrays, cudaStream_t stream) {
  return Launch(RulesKernel, static_cast<unsigned>(arrays.rounds), ThreadsForRow(arrays.vocab), 0,
                stream, arrays);
}

}  // namespace outrider
