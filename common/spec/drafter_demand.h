// How many drafters a verifier asks for: it tells its drafters, and they move between verifiers by
// it (drafter/subset).
#pragma once

namespace outrider {

struct DrafterDemand {
  // Drafters that its present load needs; at least 1.
  int wanted = 1;
  // Drafters that help it now: neither suspended nor about to leave.
  int attached = 0;
  friend bool operator==(const DrafterDemand&, const DrafterDemand&) = default;
};

}  // namespace outrider
