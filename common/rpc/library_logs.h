// What gRPC and protobuf would write on stderr goes through our log: in its format, escaped and
// limited.
#pragma once

#include <string>

namespace outrider {

// For the whole process. Thread: main, before gRPC is used.
void TakeLibraryLogs();

// While it lives, what protobuf says on this thread goes to `said` and not into the log: it is
// about a message that is being parsed, and its sender is told. Needs TakeLibraryLogs.
class ProtobufWords {
 public:
  explicit ProtobufWords(std::string* said);
  ~ProtobufWords();
  ProtobufWords(const ProtobufWords&) = delete;
  ProtobufWords& operator=(const ProtobufWords&) = delete;
};

}  // namespace outrider
