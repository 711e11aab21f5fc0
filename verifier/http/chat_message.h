// One choice of a chat in OpenAI's format: the message of a whole answer, or the deltas of a
// stream.
//
// Owner: one choice. Thread: not synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "verifier/chat/answer_reader.h"

namespace outrider {

class ChatMessageWriter {
 public:
  // `id_seed`: the ids of its calls are derived from it, so that they are unique over all answers.
  ChatMessageWriter(const AnswerReading& reading, uint64_t id_seed);

  // Takes the next piece of the text, and its end.
  void Add(std::string_view text) { Keep(reader_.Push(text)); }
  void Finish() { Keep(reader_.Finish()); }

  // Returns the deltas since the last call; each has one member.
  std::vector<nlohmann::ordered_json> TakeDeltas();
  // The message so far. REQUIRES: no deltas were taken.
  nlohmann::ordered_json Message() const;
  // See AnswerReader::content_begin.
  std::optional<int64_t> content_begin() const { return reader_.content_begin(); }
  // Whether a tool has been called.
  bool has_calls() const { return num_calls_ > 0; }
  // See AnswerReader::is_cut.
  bool is_cut() const { return reader_.is_cut(); }

 private:
  void Keep(std::vector<AnswerEvent> events);
  // Nine letters and digits, as Mistral's templates require.
  std::string CallId(size_t call) const;

  AnswerReader reader_;
  const uint64_t id_seed_;
  std::vector<AnswerEvent> events_;
  size_t num_calls_ = 0;   // of all events
  size_t told_calls_ = 0;  // in deltas
};

}  // namespace outrider
