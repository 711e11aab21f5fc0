#include "drafter/rpc/verifier_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/log.h"

namespace outrider {

class VerifierLinks::Tracker final : public LinkObserver {
 public:
  Tracker(LinksObserver* observer, std::shared_ptr<Bell> bell)
      : observer_(observer), bell_(std::move(bell)) {}

  void OnAttached(const std::string& address) override {
    {
      MutexLock lock(mu_);
      attached_.insert(address);
    }
    observer_->OnAttached(address);
  }
  void OnDetached(const std::string& address) override {
    {
      MutexLock lock(mu_);
      attached_.erase(address);
    }
    observer_->OnDetached(address);
    bell_->Ring();  // its address may have changed
  }
  void OnRefused(const std::string& address, const Status& why) override {
    observer_->OnRefused(address, why);
  }

  bool attached(const std::string& address) {
    MutexLock lock(mu_);
    return attached_.contains(address);
  }

 private:
  LinksObserver* const observer_;
  const std::shared_ptr<Bell> bell_;
  Mutex mu_;
  std::set<std::string> attached_ OUTRIDER_GUARDED_BY(mu_);
};

VerifierLinks::VerifierLinks(const VerifierLinksOptions& options, LinkEvents* events,
                             LinksObserver* observer)
    : options_(options),
      events_(events),
      observer_(observer),
      tracker_(std::make_unique<Tracker>(observer, bell_)) {
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
  for (auto* links : {&links_, &leaving_}) {
    for (auto& [address, link] : *links) link->Close();
  }
  links_.clear();
  leaving_.clear();
}

Duration VerifierLinks::Period(const Target& target) {
  const bool hasty = target.what.kind == VerifierTarget::Kind::kFile || target.addresses.empty() ||
                     !std::all_of(target.addresses.begin(), target.addresses.end(),
                                  [this](const auto& a) { return tracker_->attached(a); });
  return hasty ? std::min(options_.hasty_refresh, options_.refresh) : options_.refresh;
}

void VerifierLinks::Run() {
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    Time next = Time::max();
    for (Target& target : targets_) {
      if (target.what.kind == VerifierTarget::Kind::kAddress) continue;
      Look(target, now);
      // An answer rings the bell.
      if (target.asked == nullptr) next = std::min({next, target.due, now + Period(target)});
    }
    Update();
    std::erase_if(leaving_, [](const auto& entry) { return entry.second->over(); });
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

void VerifierLinks::Look(Target& target, Time now) {
  if (target.asked != nullptr) {
    std::optional<Result<std::vector<std::string>>> result;
    {
      MutexLock lock(target.asked->mu);
      result = std::exchange(target.asked->result, std::nullopt);
    }
    if (!result.has_value()) return;
    target.asked = nullptr;
    Settle(target, *std::move(result));
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
    Settle(target, ReadAddresses(target.what.path));
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

void VerifierLinks::Settle(Target& target, Result<std::vector<std::string>> result) {
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

void VerifierLinks::Update() {
  std::map<std::string, std::string> wanted;  // address to authority
  for (const Target& target : targets_) {
    for (const std::string& address : target.addresses) {
      wanted.emplace(address, target.what.authority);
    }
  }
  for (auto it = links_.begin(); it != links_.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    Log(LogLevel::kInfo, "verifier gone from the list; its sessions may finish",
        {{"verifier", it->first}});
    if (it->second->SetWanted(false)) leaving_[it->first] = std::move(it->second);
    it = links_.erase(it);
  }
  for (const auto& [address, authority] : wanted) {
    if (links_.contains(address)) continue;
    if (const auto back = leaving_.find(address); back != leaving_.end()) {
      if (back->second->SetWanted(true)) links_[address] = std::move(back->second);
      leaving_.erase(back);
      if (links_.contains(address)) continue;
    }
    VerifierLinkOptions link = options_.link;
    link.address = address;
    link.authority = authority;
    links_[address] = std::make_unique<GrpcVerifierLink>(link, events_, tracker_.get());
  }
  const int count = static_cast<int>(links_.size());
  if (std::exchange(told_, count) != count) observer_->OnVerifiers(count);
}

}  // namespace outrider
