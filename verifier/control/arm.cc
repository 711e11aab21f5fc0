#include "verifier/control/arm.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr int64_t kMaxArmDraws = 4096;

// See ArmSet::Facts::family.
bool SameFamily(const Arm& a, const Arm& b) {
  return a.proposer == b.proposer && a.rule == b.rule && a.stop == b.stop &&
         a.shape.branching == b.shape.branching;
}

Status Check(const Arm& arm) {
  const std::string what = "arm \"" + arm.name + "\": ";
  if (arm.name.empty()) return InvalidArgument("an arm has no name");
  if (arm.shape.length < 0 || arm.shape.length > kMaxArmLength) {
    return InvalidArgument(what + "length is " + std::to_string(arm.shape.length) +
                           ", must be from 0 to " + std::to_string(kMaxArmLength));
  }
  if (arm.plain() && arm.shape.length > 0) {
    return InvalidArgument(what + "plain decoding drafts nothing");
  }
  if (std::any_of(arm.shape.branching.begin(), arm.shape.branching.end(),
                  [](int draws) { return draws < 1; }) ||
      arm.shape.total_draws() > kMaxArmDraws) {
    return InvalidArgument(what + "branching must be at least 1, with at most " +
                           std::to_string(kMaxArmDraws) + " draws in all");
  }
  return Status();
}

}  // namespace

Result<ArmSet> ArmSet::Create(std::vector<Arm> arms) {
  ArmSet set;
  set.arms_ = std::move(arms);
  if (set.arms_.size() > static_cast<size_t>(kMaxArms)) {
    return InvalidArgument("there are " + std::to_string(set.arms_.size()) +
                           " arms, at most 64 are taken, plain decoding with them");
  }
  set.given_ = MaskOf(set.size());
  for (int i = 0; i < set.size(); ++i) {
    OUTRIDER_TRY(Check(set.arm(i)));
    if (set.Find(set.arm(i).name) != i) {
      return InvalidArgument("two arms are named \"" + set.arm(i).name + "\"");
    }
    if (set.arm(i).plain() && set.plain_ < 0) set.plain_ = i;
  }
  if (set.plain_ < 0) {
    if (set.size() == kMaxArms) return InvalidArgument("64 arms leave no place for plain decoding");
    set.plain_ = set.size();
    Arm plain{.name = "none"};
    while (set.Find(plain.name) >= 0) plain.name += "_";
    set.arms_.push_back(std::move(plain));
  }
  for (int i = 0; i < set.size(); ++i) set.AddFacts(i);
  return set;
}

void ArmSet::AddFacts(int index) {
  const Arm& added = arm(index);
  Facts facts{.proposer = proposers_,
              .family = families_,
              .length = added.shape.length,
              .has_fixed_length = added.stop == StopRule::Kind::kLength};
  if (!added.plain()) {
    facts.sequences = static_cast<int>(added.shape.leaves());
    facts.rows = 1 + static_cast<double>(added.shape.total_draws());
  }
  for (int i = 0; i < index; ++i) {
    const Facts& other = facts_[static_cast<size_t>(i)];
    if (arm(i).proposer == added.proposer) facts.proposer = other.proposer;
    if (SameFamily(arm(i), added)) facts.family = other.family;
  }
  proposers_ = std::max(proposers_, facts.proposer + 1);
  families_ = std::max(families_, facts.family + 1);
  max_length_ = std::max(max_length_, facts.length);
  facts_.push_back(facts);
}

int ArmSet::Find(std::string_view name) const {
  const auto at =
      std::find_if(arms_.begin(), arms_.end(), [&](const Arm& a) { return a.name == name; });
  return at == arms_.end() ? -1 : static_cast<int>(at - arms_.begin());
}

}  // namespace outrider
