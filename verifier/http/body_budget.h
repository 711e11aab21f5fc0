// Counts the bytes of request bodies that a server holds, over all connections and by peer, so that
// many half-sent bodies cannot fill its memory. A peer is an IPv4 address or an IPv6 network of 64
// bits. After a flood the freed memory is returned to the system, but seldom, because that takes
// milliseconds on a thread that serves connections.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

class BodyBudget {
 public:
  struct Limits {
    size_t total = 256 << 20;                        // bytes
    size_t per_peer = 64 << 20;                      // bytes
    Duration trim_pause = std::chrono::seconds(10);  // before memory is returned again
  };
  enum class Full { kNo, kPeer, kServer };

  explicit BodyBudget(Limits limits) : limits_(limits) {}

  // Takes nothing unless the answer is kNo.
  Full Take(const std::string& peer, size_t bytes) OUTRIDER_EXCLUDES(mu_);
  // Returns bytes that have been freed.
  void Return(const std::string& peer, size_t bytes) OUTRIDER_EXCLUDES(mu_);
  size_t held() const OUTRIDER_EXCLUDES(mu_);
  // How often memory was returned to the system.
  int trims() const OUTRIDER_EXCLUDES(mu_);

 private:
  const Limits limits_;
  mutable Mutex mu_;
  std::map<std::string, size_t> by_peer_ OUTRIDER_GUARDED_BY(mu_);
  size_t held_ OUTRIDER_GUARDED_BY(mu_) = 0;
  size_t peak_ OUTRIDER_GUARDED_BY(mu_) = 0;  // of `held_` since memory was returned
  int trims_ OUTRIDER_GUARDED_BY(mu_) = 0;
  Time next_trim_ OUTRIDER_GUARDED_BY(mu_);  // not before
};

// The bytes of a budget that one body holds. The destructor returns them, so declare it before the
// body.
//
// Thread: the owner.
class BodyShare {
 public:
  BodyShare() = default;
  BodyShare(std::shared_ptr<BodyBudget> budget, std::string peer)
      : budget_(std::move(budget)), peer_(std::move(peer)) {}
  BodyShare(BodyShare&& other) noexcept { *this = std::move(other); }
  BodyShare& operator=(BodyShare&& other) noexcept;
  ~BodyShare() { Clear(); }

  // The body now has `bytes`. Changes nothing unless the answer is kNo.
  BodyBudget::Full GrowTo(size_t bytes);

 private:
  void Clear();

  std::shared_ptr<BodyBudget> budget_;
  std::string peer_;
  size_t bytes_ = 0;
};

}  // namespace outrider
