// Passes gRPC's and protobuf's messages for stderr to our log: in its format, escaped and limited.
#pragma once

#include <string>

namespace outrider {

// Applies to the whole process. Thread: main, before gRPC is used.
void TakeLibraryLogs();

// During its lifetime, protobuf's messages on this thread go to `said` and not to the log: they are
// about a message being parsed, and its sender is told. Needs TakeLibraryLogs.
class ProtobufWords {
 public:
  explicit ProtobufWords(std::string* said);
  ~ProtobufWords();
  ProtobufWords(const ProtobufWords&) = delete;
  ProtobufWords& operator=(const ProtobufWords&) = delete;
};

}  // namespace outrider
