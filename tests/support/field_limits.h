// Lists the fields of a message whose length the sender chooses: a test that has a limit for each
// fails when a new field has none.
#pragma once

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/base/status.h"

namespace outrider::testing {

// Adds the paths ("stop.stop_strings") of the repeated, string and bytes fields of a message and of
// its submessages.
inline void AddUnboundedFields(const google::protobuf::Descriptor* message, const std::string& path,
                               std::set<std::string>* out) {
  using google::protobuf::FieldDescriptor;
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (field->is_repeated() || is_text) out->insert(path + field->name());
    if (field->message_type() != nullptr && !field->is_map()) {
      AddUnboundedFields(field->message_type(), path + field->name() + ".", out);
    }
  }
}

struct FieldLimit {
  int64_t limit = 0;
  std::string named;  // the error's name for the field
  // Receives a message whose field has this many entries or bytes.
  std::function<Status(int64_t count)> receive;
  Code code = Code::kInvalidArgument;  // for one more than the limit
};

// For each field, by path: accepts the limit, and rejects one more with an error that has its name,
// the count and the limit.
inline void ExpectLimits(const google::protobuf::Descriptor* message,
                         const std::map<std::string, FieldLimit>& limits) {
  std::set<std::string> fields;
  AddUnboundedFields(message, "", &fields);
  for (const std::string& field : fields) {
    EXPECT_TRUE(limits.contains(field)) << message->name() << "." << field << " has no limit";
  }
  for (const auto& [field, limit] : limits) {
    SCOPED_TRACE(field);
    EXPECT_TRUE(fields.contains(field)) << "there is no such field";
    EXPECT_THAT(limit.receive(limit.limit).message(),
                ::testing::Not(::testing::HasSubstr("at most")));
    const Status status = limit.receive(limit.limit + 1);
    EXPECT_EQ(status.code(), limit.code);
    EXPECT_THAT(status.message(), ::testing::StartsWith(limit.named + ":"));
    EXPECT_THAT(status.message(), ::testing::HasSubstr(std::to_string(limit.limit + 1)));
    EXPECT_THAT(status.message(), ::testing::HasSubstr("at most " + std::to_string(limit.limit)));
  }
}

}  // namespace outrider::testing
