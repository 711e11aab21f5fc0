// Whether working ahead pays: what it saves against what it holds up. A pass made ahead costs
// nothing while nothing else is to be done; a verdict that arrives in the middle of it waits for
// its end. Both sides are measured, and while the second outweighs the first the gate stays shut
// but for a look now and then.
//
// Thread: the drafting loop.
#pragma once

namespace outrider {

class AheadGate {
 public:
  // Asked when there is nothing but work ahead to do.
  bool Open() {
    if (shut_ == 0) return true;
    if (--shut_ == 0) *this = {};
    return false;
  }
  // A pass made ahead; `held_up`: the seconds that what arrived meanwhile waited for its end.
  void OnPass(double held_up) {
    constexpr double kKeep = 1 - 1.0 / 128;
    passes_ = passes_ * kKeep + 1;
    saved_ *= kKeep;
    lost_ = lost_ * kKeep + held_up;
    if (passes_ >= kLook && lost_ > saved_) shut_ = kRest;
  }
  // A verdict was answered with what would have taken this long.
  void OnHit(double saved) { saved_ += saved; }

 private:
  static constexpr double kLook = 48;  // passes, before a judgement
  static constexpr int kRest = 512;

  int shut_ = 0;  // times to say no
  double passes_ = 0;
  double saved_ = 0;
  double lost_ = 0;
};

}  // namespace outrider
