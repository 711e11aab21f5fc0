// Finds stop strings in streamed text. Holds back the longest suffix that may still become a stop
// string; the result does not depend on how the text is split.
//
// The stop string that ends first stops the text; of several that end there, the longest. Knuth,
// Morris and Pratt 1977, for each stop string: O(1) per byte and string, and five bytes of memory
// per byte of a stop string.
//
//   StopMatcher stops({"\n\n"});
//   for (const std::string& piece : pieces) {
//     const StopMatcher::Step step = stops.Push(piece);
//     Send(step.text);
//     if (step.stopped) return;
//   }
//   Send(stops.Finish());
//
// Owner: one per generation. Thread: not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

class StopMatcher {
 public:
  struct Step {
    std::string text;       // safe to send
    bool stopped;           // a stop string is complete; the text ends before it
    std::string stop = {};  // the stop string that was found
  };

  // Ignores empty stop strings, which would stop every text at once.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // After a stop it returns no text, and stopped. `may_stop` false: a stop string that this text
  // completes is ordinary text.
  Step Push(std::string_view text, bool may_stop = true);

  // Ends the text and returns what was held back; "" after a stop.
  std::string Finish();

 private:
  struct Pattern {
    std::string text;
    // For each prefix length, the length of the longest shorter prefix that is a suffix of it.
    std::vector<uint32_t> borders;
    size_t matched = 0;  // bytes of `text` at the end of the pushed text
  };

  // Returns whether the byte completes the pattern.
  static bool Advance(Pattern* pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace outrider
