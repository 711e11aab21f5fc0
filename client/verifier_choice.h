// Which of several verifiers gets each request of `outrider bench`, and what each of them got.
//
// A verifier that does not answer, or drains, gets no requests for kAwayTime, unless all are away.
//
// Thread: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/options.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/routing/prefix_router.h"

namespace outrider {

class VerifierChoice {
 public:
  static constexpr Duration kAwayTime = std::chrono::seconds(1);
  // Prompts are cut in pages of so many bytes for the prefix policy: about a verifier's page of 16
  // tokens. After the most pages, prompts are not compared.
  static constexpr size_t kPageBytes = 64;
  static constexpr size_t kMostPages = 1024;

  // Requests of one verifier.
  struct Counts {
    int requests = 0;
    int most_in_flight = 0;
  };

  // `names`: at least one. `clock` must outlive it.
  VerifierChoice(const std::vector<std::string>& names, RoutePolicy policy, const Clock* clock);

  // The index of a verifier for a request, which is in flight there until End. `asked`: those that
  // it asked before, fewer than all, which are not asked again.
  int Begin(std::string_view prompt, std::span<const int> asked = {});
  // `unavailable`: it did not answer, or takes no requests.
  void End(int verifier, bool unavailable);

  std::vector<Counts> counts() const;
  // The most requests that a chosen verifier had in flight above ceil(1.25 * mean) of those that
  // serve: 0 under the prefix policy.
  int most_above_bound() const;

 private:
  int Choose(std::span<const uint64_t> pages) OUTRIDER_REQUIRES(mu_);
  int ChooseLeastLoaded() OUTRIDER_REQUIRES(mu_);
  int ChooseNext() OUTRIDER_REQUIRES(mu_);
  // Lets those take requests that are not away; all are if none is left beside `asked`.
  void ReturnFromAway(std::span<const int> asked) OUTRIDER_REQUIRES(mu_);

  const RoutePolicy policy_;
  const Clock& clock_;
  mutable Mutex mu_;
  PrefixRouter router_ OUTRIDER_GUARDED_BY(mu_);  // counts requests in flight for all policies
  std::vector<Time> away_until_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<Counts> counts_ OUTRIDER_GUARDED_BY(mu_);
  int last_ OUTRIDER_GUARDED_BY(mu_) = -1;  // chosen
  int most_above_bound_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

}  // namespace outrider
