// Counts nesting.
#pragma once

namespace outrider::jinja {

// One level of `count`, during its lifetime.
class Level {
 public:
  explicit Level(int* count) : count_(count) { ++*count_; }
  ~Level() { --*count_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int* const count_;
};

}  // namespace outrider::jinja
