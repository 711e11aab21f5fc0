// Subsetting at full size: 1,000 verifiers and 5,000 drafters, each with the production subset
// code, in seconds of simulated time. What travels takes as long as it does in a real fleet: an
// attachment or a visit a second, a verifier's demand up to a second, and a stream that is left is
// counted until its verifier has heard so and stays open until its sessions have ended.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "drafter/subset/verifier_subset.h"

namespace outrider {
namespace {

constexpr int kVerifiers = 1000;
constexpr int kDrafters = 5000;
constexpr int kSubset = 8;
constexpr int kMostStreams = 64;  // of any process

struct Verifier {
  std::string address;
  std::string zone;
  bool alive = true;
  int wanted = 1;
  std::map<int, bool> streams;  // by drafter; true: it leaves
  int leaving = 0;
  DrafterDemand told = {.wanted = 0, .attached = 0};
  DrafterDemand demand() const {
    return {.wanted = wanted, .attached = static_cast<int>(streams.size()) - leaving};
  }
};

struct Drafter {
  std::unique_ptr<VerifierSubset> subset;
  bool alive = true;
  bool due = true;
  int streams = 0;  // open ones, with those that drain and visits
};

class Fleet {
 public:
  explicit Fleet(int zones = 1, int verifiers = kVerifiers) : zones_(zones) {
    AddVerifiers(verifiers);
    for (int d = 0; d < kDrafters; ++d) {
      drafters_.push_back(
          {.subset = std::make_unique<VerifierSubset>(
               SubsetOptions{.drafter = "drafter-" + std::to_string(d),
                             .size = kSubset,
                             .zone = zones == 1 ? "" : "zone-" + std::to_string(d % zones)},
               now_)});
    }
    Publish();
  }

  void AddVerifiers(int count) {
    for (int i = 0; i < count; ++i) {
      const int v = static_cast<int>(verifiers_.size());
      verifiers_.push_back(
          {.address = "10.0." + std::to_string(v / 250) + "." + std::to_string(v % 250) + ":7300",
           .zone = "zone-" + std::to_string(v % zones_)});
      index_[verifiers_.back().address] = v;
    }
  }

  // Every drafter's next lookup finds the verifiers that live now.
  void Publish() {
    auto addresses = std::make_shared<std::vector<std::string>>();
    for (const Verifier& v : verifiers_) {
      if (v.alive) addresses->push_back(v.address);
    }
    std::sort(addresses->begin(), addresses->end());
    for (Drafter& d : drafters_) {
      if (!d.alive) continue;
      d.subset->SetAddresses(addresses);
      d.due = true;
    }
  }

  void KillVerifiers(int first, int count) {
    for (int v = first; v < first + count; ++v) {
      Verifier& verifier = verifiers_[v];
      verifier.alive = false;
      for (const auto& [d, leaves] : verifier.streams) Detach(d, verifier, leaves);
      verifier.streams.clear();
      verifier.leaving = 0;
    }
  }

  void KillDrafters(int first, int count) {
    for (int d = first; d < first + count; ++d) drafters_[d].alive = false;
    for (Verifier& v : verifiers_) {
      std::erase_if(v.streams, [this](const auto& s) { return !drafters_[s.first].alive; });
      v.leaving = static_cast<int>(std::count_if(v.streams.begin(), v.streams.end(),
                                                 [](const auto& s) { return s.second; }));
    }
  }

  void SetWanted(int first, int count, int wanted) {
    for (int v = first; v < first + count; ++v) verifiers_[v].wanted = wanted;
  }

  void Run(Duration duration) {
    const Time end = now_ + duration;
    while (now_ < end) {
      now_ += std::chrono::seconds(1);
      std::vector<std::function<void()>> arrived;
      for (; !travelling_.empty() && travelling_.begin()->first <= now_;
           travelling_.erase(travelling_.begin())) {
        arrived.push_back(std::move(travelling_.begin()->second));
      }
      for (const auto& event : arrived) event();
      TellDemand();
      for (int d = 0; d < kDrafters; ++d) {
        Drafter& drafter = drafters_[d];
        if (!drafter.alive || (!drafter.due && drafter.subset->next() > now_)) continue;
        drafter.due = false;
        for (const SubsetChange& change : drafter.subset->Advance(now_)) Carry(d, change);
      }
    }
  }

  // Streams of the subsets, as pairs of drafter and verifier.
  std::set<std::pair<int, int>> Streams() const {
    std::set<std::pair<int, int>> streams;
    for (int v = 0; v < static_cast<int>(verifiers_.size()); ++v) {
      for (const auto& [d, leaves] : verifiers_[v].streams) {
        if (!leaves) streams.insert({d, v});
      }
    }
    return streams;
  }
  // Of verifiers `first` to `first + count` that live: the fewest drafters, and the mean.
  int Least(int first, int count) const {
    int least = kDrafters;
    for (int v = first; v < first + count; ++v) {
      if (verifiers_[v].alive) least = std::min(least, verifiers_[v].demand().attached);
    }
    return least;
  }
  double Mean() const {
    const auto alive = std::count_if(verifiers_.begin(), verifiers_.end(),
                                     [](const Verifier& v) { return v.alive; });
    return static_cast<double>(Streams().size()) / static_cast<double>(alive);
  }
  double ShareInZone() const {
    const auto streams = Streams();
    const auto in = std::count_if(streams.begin(), streams.end(), [this](const auto& s) {
      return s.first % zones_ == s.second % zones_;
    });
    return static_cast<double>(in) / static_cast<double>(streams.size());
  }
  int most_streams() const { return most_streams_; }
  const Verifier& verifier(int v) const { return verifiers_[v]; }
  const Drafter& drafter(int d) const { return drafters_[d]; }

 private:
  void After(int seconds, std::function<void()> event) {
    travelling_.emplace(now_ + std::chrono::seconds(seconds), std::move(event));
  }

  void Count(int streams) { most_streams_ = std::max(most_streams_, streams); }

  void Detach(int d, const Verifier& verifier, bool leaves) {
    Drafter& drafter = drafters_[d];
    --drafter.streams;
    drafter.due = true;
    if (leaves) return drafter.subset->OnLeft(verifier.address);
    drafter.subset->OnDetached(verifier.address, now_);
  }

  void TellDemand() {
    for (Verifier& v : verifiers_) {
      if (!v.alive || v.demand() == v.told) continue;
      v.told = v.demand();
      for (const auto& [d, leaves] : v.streams) drafters_[d].subset->OnDemand(v.address, v.told);
    }
  }

  void Carry(int d, const SubsetChange& change) {
    const int v = index_.at(change.address);
    switch (change.kind) {
      case SubsetChange::Kind::kAttach: return After(1, [this, d, v] { Attach(d, v); });
      case SubsetChange::Kind::kVisit: return After(1, [this, d, v] { Visit(d, v); });
      case SubsetChange::Kind::kLeave: return After(1, [this, d, v] { Leave(d, v); });
    }
  }

  void Attach(int d, int v) {
    Verifier& verifier = verifiers_[v];
    Drafter& drafter = drafters_[d];
    if (!drafter.alive || !drafter.subset->holds(verifier.address)) return;
    if (!verifier.alive) return After(2, [this, d, v] { Attach(d, v); });
    if (const auto it = verifier.streams.find(d); it != verifier.streams.end()) {
      verifier.leaving -= std::exchange(it->second, false) ? 1 : 0;
    } else if (static_cast<int>(verifier.streams.size()) >= kMostStreams) {
      drafter.subset->OnRefused(verifier.address, now_);
      drafter.due = true;
      return;
    } else {
      verifier.streams[d] = false;
      Count(++drafter.streams);
      Count(static_cast<int>(verifier.streams.size()));
    }
    drafter.subset->OnAttached(verifier.address, verifier.zone);
    drafter.subset->OnDemand(verifier.address, verifier.demand());
    drafter.due = true;
  }

  void Visit(int d, int v) {
    const Verifier& verifier = verifiers_[v];
    Drafter& drafter = drafters_[d];
    if (!drafter.alive) return;
    Count(drafter.streams + 1);
    drafter.due = true;
    if (!verifier.alive) return drafter.subset->OnFailed(verifier.address, now_);
    drafter.subset->OnVisited(verifier.address, verifier.zone, verifier.demand(), now_);
  }

  void Leave(int d, int v) {
    Verifier& verifier = verifiers_[v];
    const auto it = verifier.streams.find(d);
    if (it == verifier.streams.end()) {  // it was being dialled
      drafters_[d].subset->OnLeft(verifier.address);
      return;
    }
    verifier.leaving += std::exchange(it->second, true) ? 0 : 1;
    // Its sessions end within half a minute.
    const int drain = std::uniform_int_distribution(0, 30)(random_);
    After(drain, [this, d, v] {
      Verifier& from = verifiers_[v];
      const auto stream = from.streams.find(d);
      if (stream == from.streams.end() || !stream->second) return;
      from.streams.erase(stream);
      --from.leaving;
      Detach(d, from, /*leaves=*/true);
    });
  }

  const int zones_;
  Time now_{};
  std::vector<Verifier> verifiers_;
  std::vector<Drafter> drafters_;
  std::map<std::string, int> index_;
  std::multimap<Time, std::function<void()>> travelling_;
  std::mt19937 random_{11};
  int most_streams_ = 0;
};

void ExpectFairShares(const Fleet& fleet) {
  EXPECT_LE(fleet.most_streams(), kMostStreams);
  EXPECT_GE(fleet.Least(0, kVerifiers), fleet.Mean() / 2);
}

// Prints a measured figure for docs/scaling.md.
void Report(const char* what, double value) { std::printf("[ FIGURE   ] %s: %.4g\n", what, value); }

TEST(FleetSubset, GivesEveryVerifierItsShare) {
  Fleet fleet;
  fleet.Run(std::chrono::seconds(5));
  EXPECT_GT(fleet.Least(0, kVerifiers), 0);
  Report("least served after 5 s, of a mean of 40", fleet.Least(0, kVerifiers));
  fleet.Run(std::chrono::minutes(10));
  ExpectFairShares(fleet);
  Report("least served after 10 min", fleet.Least(0, kVerifiers));
  Report("most streams of a process", fleet.most_streams());
  EXPECT_DOUBLE_EQ(fleet.Mean(), 1. * kDrafters * kSubset / kVerifiers);
  const auto before = fleet.Streams();
  fleet.Run(std::chrono::minutes(10));
  const auto after = fleet.Streams();
  const auto moved = std::count_if(before.begin(), before.end(),
                                   [&after](const auto& s) { return !after.contains(s); });
  Report("share of streams moved in the next 10 min", static_cast<double>(moved) / 40000);
  EXPECT_LT(static_cast<double>(moved), 0.02 * static_cast<double>(before.size()));
}

TEST(FleetSubset, DeathMovesFewOtherStreams) {
  Fleet fleet;
  fleet.Run(std::chrono::minutes(10));
  auto rest = fleet.Streams();
  std::erase_if(
      rest, [](const auto& s) { return s.first < kDrafters / 10 || s.second < kVerifiers / 10; });
  fleet.KillVerifiers(0, kVerifiers / 10);
  fleet.KillDrafters(0, kDrafters / 10);
  fleet.Run(std::chrono::seconds(30));
  fleet.Publish();
  fleet.Run(std::chrono::minutes(20));
  const auto after = fleet.Streams();
  const auto moved = std::count_if(rest.begin(), rest.end(),
                                   [&after](const auto& s) { return !after.contains(s); });
  Report("share of the rest's streams moved",
         static_cast<double>(moved) / static_cast<double>(rest.size()));
  Report("least served", fleet.Least(0, kVerifiers));
  EXPECT_LT(static_cast<double>(moved), 0.15 * static_cast<double>(rest.size()));
  EXPECT_EQ(after.size(), static_cast<size_t>(kSubset * kDrafters * 9 / 10));
  ExpectFairShares(fleet);
}

TEST(FleetSubset, NewVerifiersGetTheirShare) {
  Fleet fleet(/*zones=*/1, kVerifiers * 9 / 10);
  fleet.Run(std::chrono::minutes(10));
  const auto before = fleet.Streams();
  fleet.AddVerifiers(kVerifiers / 10);
  fleet.Publish();
  fleet.Run(std::chrono::minutes(10));
  ExpectFairShares(fleet);
  const auto after = fleet.Streams();
  const auto moved = std::count_if(before.begin(), before.end(),
                                   [&after](const auto& s) { return !after.contains(s); });
  Report("share of streams moved", static_cast<double>(moved) / static_cast<double>(before.size()));
  Report("least served", fleet.Least(0, kVerifiers));
  EXPECT_LT(static_cast<double>(moved), 0.15 * static_cast<double>(before.size()));
}

TEST(FleetSubset, LoadedVerifiersGetMoreDrafters) {
  Fleet fleet;
  fleet.Run(std::chrono::minutes(5));
  fleet.SetWanted(0, kVerifiers / 10, 55);
  fleet.SetWanted(kVerifiers / 10, kVerifiers * 9 / 10, 10);
  fleet.Run(std::chrono::minutes(10));
  Report("least served of those that want 55", fleet.Least(0, kVerifiers / 10));
  Report("least served of those that want 10", fleet.Least(kVerifiers / 10, kVerifiers * 9 / 10));
  EXPECT_GE(fleet.Least(0, kVerifiers / 10), 50);
  EXPECT_GE(fleet.Least(kVerifiers / 10, kVerifiers * 9 / 10), 10);
  EXPECT_LE(fleet.most_streams(), kMostStreams);
}

TEST(FleetSubset, DraftersFindTheirZone) {
  Fleet fleet(/*zones=*/3);
  fleet.Run(std::chrono::minutes(5));
  EXPECT_LT(fleet.ShareInZone(), 0.6);
  fleet.Run(std::chrono::minutes(40));
  Report("share of streams in the own zone after 45 min", fleet.ShareInZone());
  EXPECT_GT(fleet.ShareInZone(), 0.9);
  ExpectFairShares(fleet);
}

}  // namespace
}  // namespace outrider
