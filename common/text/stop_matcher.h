// Stop strings over streamed text. Holds back the longest suffix that may still become a stop
// string; what it gives out does not depend on how the text is cut.
//
// The stop string that ends first stops the text; of several that end there, the longest.
// Aho and Corasick 1975: O(1) per byte, however many stop strings there are.
//
// Owner: one per generation. Thread: not synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

class StopMatcher {
 public:
  struct Step {
    std::string text;       // safe to send
    bool stopped;           // a stop string is complete; the text ends before it
    std::string stop = {};  // that stop string
  };

  // Empty stop strings are ignored: they would stop every text at once.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // After a stop: no text, stopped. `may_stop` false: a stop string that this text completes is
  // text like any other.
  Step Push(std::string_view text, bool may_stop = true);

  // The text ends without a stop string: what was held back. "" after a stop.
  std::string Finish();

 private:
  struct Node {
    std::map<uint8_t, int> next;
    int fallback = 0;      // the node of the longest proper suffix that starts a stop string
    size_t depth = 0;      // bytes from the root
    size_t stop_size = 0;  // of the longest stop string that ends here; 0: none
  };

  void AddStop(std::string_view stop);
  void LinkFallbacks();
  int Advance(int node, uint8_t byte) const;

  std::vector<Node> nodes_;  // 0 is the root
  int node_ = 0;             // its path is what is held back
  std::string held_;
  bool stopped_ = false;
};

}  // namespace outrider
