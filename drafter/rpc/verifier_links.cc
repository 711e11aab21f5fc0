#include "drafter/rpc/verifier_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"

namespace outrider {
namespace {

// How long a verifier may take to end a stream that we have closed.
constexpr Duration kEndGrace = std::chrono::seconds(1);

}  // namespace

class VerifierLinks::Tracker final : public LinkObserver {
 public:
  using Event = std::function<void(VerifierSubset&)>;

  Tracker(LinksObserver* observer, std::shared_ptr<Bell> bell)
      : observer_(observer), bell_(std::move(bell)) {}

  void OnAttached(const std::string& address, const DrafterWelcome& welcome) override {
    {
      MutexLock lock(mu_);
      attached_.insert(address);
      Note([address, zone = welcome.zone](VerifierSubset& subset) {
        subset.OnAttached(address, zone);
      });
    }
    observer_->OnAttached(address, welcome);
    bell_->Ring();
  }
  void OnDetached(const std::string& address) override {
    {
      MutexLock lock(mu_);
      attached_.erase(address);
      Note([address, now = std::chrono::steady_clock::now()](VerifierSubset& subset) {
        subset.OnDetached(address, now);
      });
    }
    observer_->OnDetached(address);
    bell_->Ring();  // its address may have changed
  }
  void OnLost(const std::string& address) override { observer_->OnLost(address); }
  // Demand alone changes nothing: a visit compares it. So it does not wake the thread, and however
  // many come, only the last one of each verifier is kept.
  void OnDemand(const std::string& address, const DrafterDemand& demand) override {
    {
      MutexLock lock(mu_);
      demands_[address] = demand;
    }
    observer_->OnDemand(address, demand);
  }
  void OnRefused(const std::string& address, const Status& why) override {
    {
      MutexLock lock(mu_);
      Note([address, now = std::chrono::steady_clock::now()](VerifierSubset& subset) {
        subset.OnRefused(address, now);
      });
    }
    observer_->OnRefused(address, why);
    bell_->Ring();
  }

  void OnVisited(const std::string& address, const VisitResult& result) {
    {
      MutexLock lock(mu_);
      NoteDemands();
      Note([address, result, now = std::chrono::steady_clock::now()](VerifierSubset& subset) {
        if (!result.welcome.has_value()) return subset.OnFailed(address, now);
        subset.OnVisited(address, result.welcome->zone, result.demand, now);
      });
    }
    Log(LogLevel::kDebug, "visited a verifier",
        {{"verifier", address},
         {"end", result.end.ToString()},
         {"wanted", result.demand.has_value() ? result.demand->wanted : -1},
         {"attached", result.demand.has_value() ? result.demand->attached : -1}});
    bell_->Ring();
  }

  bool attached(const std::string& address) {
    MutexLock lock(mu_);
    return attached_.contains(address);
  }
  // What happened since the last call, in order.
  std::vector<Event> TakeEvents() {
    MutexLock lock(mu_);
    NoteDemands();
    return std::exchange(events_, {});
  }

 private:
  void Note(Event event) OUTRIDER_REQUIRES(mu_) { events_.push_back(std::move(event)); }
  void NoteDemands() OUTRIDER_REQUIRES(mu_) {
    for (const auto& told : std::exchange(demands_, {})) {
      Note([told](VerifierSubset& subset) { subset.OnDemand(told.first, told.second); });
    }
  }

  LinksObserver* const observer_;
  const std::shared_ptr<Bell> bell_;
  Mutex mu_;
  std::set<std::string> attached_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<Event> events_ OUTRIDER_GUARDED_BY(mu_);
  std::map<std::string, DrafterDemand> demands_ OUTRIDER_GUARDED_BY(mu_);
};

VerifierLinks::VerifierLinks(const VerifierLinksOptions& options, LinkEvents* events,
                             LinksObserver* observer)
    : options_(options),
      events_(events),
      observer_(observer),
      tracker_(std::make_unique<Tracker>(observer, bell_)),
      subset_(options.subset, std::chrono::steady_clock::now()) {
  for (const VerifierTarget& what : options_.targets) {
    Target& target = targets_.emplace_back(Target{.what = what});
    if (what.kind == VerifierTarget::Kind::kAddress) target.addresses = {what.text};
  }
  thread_ = std::thread([this] { Run(); });
}

VerifierLinks::~VerifierLinks() { Stop(); }

void VerifierLinks::Stop() {
  stopping_ = true;
  bell_->Ring();
  if (thread_.joinable()) thread_.join();
  // All at once, so that a verifier that hangs does not delay the others.
  for (auto& [address, link] : links_) link->Close();
  for (auto& [address, left] : leaving_) left.link->Close();
  visit_.reset();
  links_.clear();
  leaving_.clear();
}

Duration VerifierLinks::Period(const Target& target) {
  const bool all_attached =
      std::all_of(target.addresses.begin(), target.addresses.end(), [this](const auto& address) {
        return !subset_.holds(address) || tracker_->attached(address);
      });
  const bool hasty =
      target.what.kind == VerifierTarget::Kind::kFile || target.addresses.empty() || !all_attached;
  return hasty ? std::min(options_.hasty_refresh, options_.refresh) : options_.refresh;
}

void VerifierLinks::Run() {
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    Time next = Time::max();
    for (Target& target : targets_) {
      if (target.what.kind == VerifierTarget::Kind::kAddress) continue;
      UpdateLookup(target, now);
      // An answer rings the bell.
      if (target.asked == nullptr) next = std::min({next, target.due, now + Period(target)});
    }
    UpdateAddresses();
    FollowSubset(now);
    next = std::min(next, subset_.next());
    if (!leaving_.empty()) next = std::min(next, now + options_.hasty_refresh);

    MutexLock lock(bell_->mu);
    while (!bell_->ringing) {
      if (next == Time::max()) {
        lock.Wait(bell_->rung);
      } else if (lock.WaitUntil(bell_->rung, next) == std::cv_status::timeout) {
        break;
      }
    }
    bell_->ringing = false;
  }
}

void VerifierLinks::UpdateLookup(Target& target, Time now) {
  if (target.asked != nullptr) {
    std::optional<Result<std::vector<std::string>>> result;
    {
      MutexLock lock(target.asked->mu);
      result = std::exchange(target.asked->result, std::nullopt);
    }
    if (!result.has_value()) return;
    target.asked = nullptr;
    ApplyLookup(target, *std::move(result));
    target.due = now + options_.refresh;
    return;
  }
  // An attachment may have been lost meanwhile, which makes the lookup due sooner.
  target.due = std::min(target.due, now + Period(target));
  if (now < target.due) return;
  target.due = now + Period(target);
  if (target.what.kind == VerifierTarget::Kind::kFile) {
    const FileStamp stamp = StampOf(target.what.path);
    if (stamp == target.stamp) return;
    target.stamp = stamp;
    ApplyLookup(target, ReadAddresses(target.what.path));
    return;
  }
  target.asked = std::make_shared<Answer>();
  std::thread([answer = target.asked, bell = bell_, lookup = options_.lookup,
               host = target.what.host, port = target.what.port] {
    Result<std::vector<std::string>> result = lookup(host, port);
    {
      MutexLock lock(answer->mu);
      answer->result = std::move(result);
    }
    bell->Ring();
  }).detach();
}

void VerifierLinks::ApplyLookup(Target& target, Result<std::vector<std::string>> result) {
  if (!result.ok()) {
    observer_->OnLookupFailed(target.what.text, result.status());
    const std::string words = result.status().ToString();
    Log(words == target.last_words ? LogLevel::kDebug : LogLevel::kWarning,
        "verifiers not found; those known before are served",
        {{"target", target.what.text}, {"known", target.addresses.size()}, {"reason", words}});
    target.last_words = words;
    return;
  }
  target.last_words.clear();
  std::vector<std::string> addresses;
  for (std::string& address : result.value()) {
    if (target.what.kind == VerifierTarget::Kind::kFile) {
      if (const Status admitted = options_.admit(address); !admitted.ok()) {
        Log(LogLevel::kError, "verifier left out",
            {{"target", target.what.text}, {"reason", admitted.message()}});
        continue;
      }
    }
    addresses.push_back(std::move(address));
  }
  if (addresses != target.addresses) {
    Log(LogLevel::kInfo, "verifiers found",
        {{"target", target.what.text}, {"count", addresses.size()}});
  }
  target.addresses = std::move(addresses);
}

void VerifierLinks::UpdateAddresses() {
  std::map<std::string, std::string> authorities;
  for (const Target& target : targets_) {
    for (const std::string& address : target.addresses) {
      authorities.emplace(address, target.what.authority);
    }
  }
  if (authorities == authorities_) return;
  authorities_ = std::move(authorities);
  auto addresses = std::make_shared<std::vector<std::string>>();
  for (const auto& [address, authority] : authorities_) addresses->push_back(address);
  subset_.SetAddresses(std::move(addresses));
}

void VerifierLinks::FollowSubset(Time now) {
  DropLeft(now);
  for (const auto& event : tracker_->TakeEvents()) event(subset_);
  for (const SubsetChange& change : subset_.Advance(now)) {
    switch (change.kind) {
      case SubsetChange::Kind::kAttach: Attach(change.address); break;
      case SubsetChange::Kind::kLeave: Leave(change.address, change.reason, now); break;
      case SubsetChange::Kind::kVisit: Visit(change.address); break;
    }
  }
  ReportSubset();
}

VerifierLinkOptions VerifierLinks::OptionsFor(const std::string& address) const {
  VerifierLinkOptions link = options_.link;
  link.dial.address = address;
  link.dial.authority = authorities_.at(address);
  return link;
}

void VerifierLinks::Visit(const std::string& address) {
  visit_ = std::make_unique<VerifierVisit>(
      OptionsFor(address).dial,
      [tracker = tracker_.get()](const std::string& visited, const VisitResult& result) {
        tracker->OnVisited(visited, result);
      });
}

void VerifierLinks::Attach(const std::string& address) {
  if (const auto back = leaving_.find(address); back != leaving_.end()) {
    std::unique_ptr<GrpcVerifierLink> link = std::move(back->second.link);
    leaving_.erase(back);
    if (link->SetWanted(true)) {
      links_[address] = std::move(link);
      if (tracker_->attached(address)) subset_.OnAttached(address, "");
      bell_->Ring();  // the subset may have waited for it
      return;
    }
  }
  links_[address] =
      std::make_unique<GrpcVerifierLink>(OptionsFor(address), events_, tracker_.get());
}

void VerifierLinks::Leave(const std::string& address, SubsetReason why, Time now) {
  Log(LogLevel::kInfo, "verifier left; its sessions may finish",
      {{"verifier", address}, {"reason", ToString(why)}});
  observer_->OnStreamLeft(why);
  const auto it = links_.find(address);
  it->second->SetWanted(false);
  leaving_[address] = {.link = std::move(it->second), .until = now + options_.longest_drain};
  links_.erase(it);
}

void VerifierLinks::DropLeft(Time now) {
  if (visit_ != nullptr && visit_->over()) visit_.reset();
  std::erase_if(leaving_, [this, now](const auto& entry) {
    const Leaving& left = entry.second;
    if (now >= left.until) left.link->Close();
    // One that does not end its stream is cancelled.
    if (!left.link->over() && now < left.until + kEndGrace) return false;
    subset_.OnLeft(entry.first);
    return true;
  });
}

void VerifierLinks::ReportSubset() {
  const int verifiers = static_cast<int>(authorities_.size());
  if (std::exchange(told_verifiers_, verifiers) != verifiers) observer_->OnVerifiers(verifiers);
  const std::array<int, 3> counts = {subset_.held(), subset_.leaving(), subset_.in_other_zone()};
  if (std::exchange(told_subset_, counts) == counts) return;
  observer_->OnSubset(counts[0], counts[1], counts[2]);
}

}  // namespace outrider
