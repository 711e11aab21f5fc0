// std::mutex with annotations for clang's -Wthread-safety (the lint preset). Members guarded by a
// mutex have OUTRIDER_GUARDED_BY.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define OUTRIDER_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define OUTRIDER_THREAD_ANNOTATION(x)
#endif

#define OUTRIDER_GUARDED_BY(m) OUTRIDER_THREAD_ANNOTATION(guarded_by(m))
#define OUTRIDER_REQUIRES(m) OUTRIDER_THREAD_ANNOTATION(requires_capability(m))
#define OUTRIDER_EXCLUDES(m) OUTRIDER_THREAD_ANNOTATION(locks_excluded(m))

namespace outrider {

class OUTRIDER_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void Lock() OUTRIDER_THREAD_ANNOTATION(acquire_capability()) { mu_.lock(); }
  void Unlock() OUTRIDER_THREAD_ANNOTATION(release_capability()) { mu_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mu_;
};

// Holds a Mutex for a scope, and can wait on a condition variable.
class OUTRIDER_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mu) OUTRIDER_THREAD_ANNOTATION(acquire_capability(mu))
      : lock_(mu.mu_) {}
  ~MutexLock() OUTRIDER_THREAD_ANNOTATION(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Wait(std::condition_variable& cv) { cv.wait(lock_); }
  template <class Time>
  std::cv_status WaitUntil(std::condition_variable& cv, const Time& until) {
    return cv.wait_until(lock_, until);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace outrider
