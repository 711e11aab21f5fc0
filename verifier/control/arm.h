// The controller's choices: an arm is a whole plan for one round.
//
// Thread: any; values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/stop_rule.h"

namespace outrider {

// A set of arms: bit i is arm i.
using ArmMask = uint64_t;
inline constexpr int kMaxArms = 64;
inline constexpr int kMaxArmLength = 64;  // depths

struct Proposer {
  // kGrammar: tokens that a request's grammar forces. It is no arm, since it costs nothing to try.
  enum class Kind { kNone, kModel, kPromptLookup, kSuffixAutomaton, kGrammar };
  Kind kind = Kind::kNone;
  std::string name = {};  // the drafter's model; empty for the others
  friend bool operator==(const Proposer&, const Proposer&) = default;
};

inline constexpr int kProposerKinds = 5;

// The default: plain decoding.
struct Arm {
  std::string name = {};  // unique in its set
  Proposer proposer = {};
  DraftShape shape = {};  // shape.length is the most that a stop rule may draft
  StopRule::Kind stop = StopRule::Kind::kLength;
  Rule rule = Rule::kBlock;

  bool plain() const { return proposer.kind == Proposer::Kind::kNone; }
};

// The controller's arms, with the facts that policies read in each round.
class ArmSet {
 public:
  struct Facts {
    int proposer = 0;  // index; arms share one if they need the same drafts
    // Arms of a family differ in length alone: a round of one tells what a shorter one would have
    // given.
    int family = 0;
    int length = 0;                // depths
    int sequences = 0;             // 0: plain decoding
    bool has_fixed_length = true;  // no stop rule ends its drafts, so they may come early
    double rows = 1;               // to score: all draft tokens and the pending token
  };

  // Adds a plain arm at the end if there is none. kInvalidArgument: more than kMaxArms with it, an
  // empty or repeated name, a length outside 0..kMaxArmLength, a plain arm that drafts.
  static Result<ArmSet> Create(std::vector<Arm> arms);

  int size() const { return static_cast<int>(arms_.size()); }
  const Arm& arm(int i) const { return arms_[static_cast<size_t>(i)]; }
  const Facts& facts(int i) const { return facts_[static_cast<size_t>(i)]; }
  // Returns -1 if no arm has that name.
  int Find(std::string_view name) const;
  // The first plain arm.
  int plain() const { return plain_; }
  // The arms passed to Create, without a plain arm that it added.
  ArmMask given() const { return given_; }
  ArmMask all() const { return MaskOf(size()); }
  int proposers() const { return proposers_; }
  int families() const { return families_; }
  // The longest accepted path of any arm.
  int max_length() const { return max_length_; }

  static ArmMask Bit(int arm) { return ArmMask{1} << arm; }
  static ArmMask MaskOf(int arms) { return arms >= kMaxArms ? ~ArmMask{0} : Bit(arms) - 1; }

 private:
  void AddFacts(int index);

  std::vector<Arm> arms_;
  std::vector<Facts> facts_;
  int plain_ = -1;
  ArmMask given_ = 0;
  int proposers_ = 0;
  int families_ = 0;
  int max_length_ = 0;
};

}  // namespace outrider
