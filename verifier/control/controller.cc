#include "verifier/control/controller.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "common/base/check.h"
#include "verifier/control/adaptive.h"
#include "verifier/control/exp3_spec.h"
#include "verifier/control/fixed.h"
#include "verifier/control/ucb_spec.h"

namespace outrider {
namespace {

constexpr std::string_view kFixedPrefix = "fixed:";
// A tenth of the published radius: 4 % instead of 40 % more rounds than the best of four arms over
// 512 tokens (docs/control.md).
constexpr double kTunedScale = 0.1;

// Parses names separated by commas.
Result<std::vector<int>> FindArms(const ArmSet& arms, const std::string& names) {
  std::vector<int> found;
  std::stringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    found.push_back(arms.Find(name));
    if (found.back() < 0) return InvalidArgument("policy fixed: no arm is named \"" + name + "\"");
  }
  if (found.empty()) return InvalidArgument("policy fixed: no arm is named");
  return found;
}

}  // namespace

const std::vector<std::string>& PolicyNames() {
  static const std::vector<std::string> kNames = {"adaptive", "ucbspec", "exp3spec", "ucb-tuned",
                                                  "fixed"};
  return kNames;
}

ControlSession::ControlSession(std::shared_ptr<Policy> policy)
    : policy_(std::move(policy)), session_(policy_->Open()) {}

ControlSession::~ControlSession() {
  if (pending()) Observe({.aborted = true});
}

Choice ControlSession::Choose(const Context& context) {
  OUTRIDER_CHECK(!pending());
  pending_ = session_->Choose(context);
  if (last_arm_ >= 0 && pending_->arm != last_arm_) ++switches_;
  last_arm_ = pending_->arm;
  return *pending_;
}

void ControlSession::Observe(const Outcome& outcome) {
  OUTRIDER_CHECK(pending());
  session_->Observe(*std::exchange(pending_, std::nullopt), outcome);
}

Result<std::unique_ptr<Controller>> Controller::Create(ControllerOptions options,
                                                       std::vector<Arm> arms) {
  OUTRIDER_ASSIGN(ArmSet set, ArmSet::Create(std::move(arms)));
  std::vector<int> fixed_arms = {0};
  if (options.policy.starts_with(kFixedPrefix)) {
    OUTRIDER_ASSIGN(fixed_arms, FindArms(set, options.policy.substr(kFixedPrefix.size())));
    options.policy = "fixed";
  }
  const std::vector<std::string>& names = PolicyNames();
  if (std::find(names.begin(), names.end(), options.policy) == names.end()) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return InvalidArgument("policy \"" + options.policy + "\" is none of " + list +
                           ", fixed:ARM,..");
  }
  if (options.max_tables < 1) return InvalidArgument("max_tables must be at least 1");
  return std::unique_ptr<Controller>(
      new Controller(std::move(options), std::move(set), std::move(fixed_arms)));
}

Controller::Controller(ControllerOptions options, ArmSet arms, std::vector<int> fixed_arms)
    : options_(std::move(options)),
      arms_(std::move(arms)),
      fixed_arms_(std::move(fixed_arms)),
      costs_(arms_.proposers()) {}

std::shared_ptr<Policy> Controller::MakePolicy() {
  const uint64_t number = policies_made_++;
  if (options_.policy == "fixed") return std::make_shared<FixedPolicy>(arms_, fixed_arms_);
  if (options_.policy == "ucbspec") return std::make_shared<UcbSpec>(arms_);
  if (options_.policy == "ucb-tuned") return std::make_shared<UcbSpec>(arms_, kTunedScale);
  if (options_.policy == "exp3spec") {
    return std::make_shared<Exp3Spec>(arms_, options_.seed + 0x9E3779B97F4A7C15u * number);
  }
  return std::make_shared<Adaptive>(arms_, costs_, options_.shared);
}

std::unique_ptr<ControlSession> Controller::Open(std::string_view pair,
                                                 std::string_view client_key) {
  if (!options_.shared) return std::make_unique<ControlSession>(MakePolicy());
  Key key(pair, client_key);
  const auto known = tables_.find(key);
  if (known != tables_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second);
  } else {
    recent_.push_front({.key = key, .policy = MakePolicy()});
    tables_.emplace(std::move(key), recent_.begin());
    if (tables_.size() > static_cast<size_t>(options_.max_tables)) {
      // Its sessions keep the policy alive until they end.
      tables_.erase(recent_.back().key);
      recent_.pop_back();
    }
  }
  return std::make_unique<ControlSession>(recent_.front().policy);
}

}  // namespace outrider
