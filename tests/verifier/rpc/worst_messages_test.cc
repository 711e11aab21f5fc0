// The worst known messages, of the maximum size: none takes more memory per byte than the worst
// body of the HTTP front may.
#include <gmock/gmock.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "common/rpc/incoming.h"
#include "outrider/v1/drafting.pb.h"
#include "outrider/v1/generation.pb.h"
#include "tests/support/allocation_watch.h"
#include "verifier/rpc/drafting_service.h"
#include "verifier/rpc/generation_wire.h"

namespace outrider {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Twelve as for a body (96 MiB for 8), one for the message itself, one for rounding up. The worst
// case is a packed array of small numbers: four bytes each, in an array of twice the capacity, next
// to the one of half that size which it outgrew.
constexpr int64_t kBytesPerByte = 12 + 1 + 1;

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value > 0x7f; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
// A bytes, string, message or packed array field.
std::string FieldBytes(uint32_t number, const std::string& content) {
  return Varint(number << 3 | 2) + Varint(content.size()) + content;
}
std::string Repeated(size_t count, const std::string& item) {
  std::string all;
  all.reserve(count * item.size());
  for (size_t i = 0; i < count; ++i) all += item;
  return all;
}
// As many as fit into a message with its other parts.
std::string Many(const MessageLimits& limits, const std::string& item) {
  return Repeated((limits.bytes - 64) / item.size(), item);
}

const std::string kNoBytes(1, '\0');
// Fields with numbers that no message has: a varint, a string, and a group within a group.
const std::string kUnknownNumber = "\x78\x01", kUnknownString = "\x7a" + kNoBytes;
const std::string kUnknownGroups = "\x7b\x7b\x7c\x7c";

template <class Message>
Status Parse(const std::string& bytes, const MessageLimits& limits) {
  grpc::Slice slice(bytes);
  grpc::ByteBuffer buffer(&slice, 1);
  Message message;
  return ParseRequest(&buffer, limits, &message);
}

template <class Message>
void ExpectBounded(const std::string& name, const std::string& bytes, const MessageLimits& limits) {
  SCOPED_TRACE(name);
  (void)Parse<Message>(std::string(), limits);  // makes allocations that happen once and are kept
  const testing::AllocationWatch watch;
  {
    const Status status = Parse<Message>(bytes, limits);
    EXPECT_THAT(status.message(), AnyOf(IsEmpty(), HasSubstr("unknown fields; send fewer")));
  }
  EXPECT_LT(watch.peak(), kBytesPerByte * static_cast<int64_t>(limits.bytes));
  EXPECT_EQ(watch.held(), 0);
}

std::string Biases() {
  std::string all;
  for (uint32_t id = 0; all.size() < kClientMessage.bytes - 64; ++id) {
    all += FieldBytes(8, "\x08" + Varint(id));
  }
  return all;
}

TEST(WorstMessages, ClientMessagesStayWithinMemoryLimit) {
  const auto expect = [](const std::string& name, const std::string& bytes) {
    ExpectBounded<v1::GenerateRequest>(name, bytes, kClientMessage);
  };
  const auto many = [](const std::string& item) { return Many(kClientMessage, item); };
  expect("stop strings", FieldBytes(4, many(FieldBytes(2, ""))));
  expect("biases of one token", FieldBytes(3, many(FieldBytes(8, ""))));
  expect("biases", FieldBytes(3, Biases()));
  expect("unknown numbers", many(kUnknownNumber));
  expect("unknown strings", many(kUnknownString));
  expect("unknown groups", many(kUnknownGroups));
  expect("unknown fields of a part", FieldBytes(6, many(kUnknownNumber)));
  expect("a text or ids, in turns", many(FieldBytes(1, "") + FieldBytes(2, "")));
  expect("packed ids", FieldBytes(2, FieldBytes(1, many("\x01"))));
  expect("ids", FieldBytes(2, many("\x08\x01")));
  ExpectBounded<v1::DetokenizeRequest>("packed ids to be text", FieldBytes(1, many("\x01")),
                                       kClientMessage);
}

TEST(WorstMessages, DrafterMessagesStayWithinMemoryLimit) {
  const auto expect = [](const std::string& name, const std::string& bytes) {
    ExpectBounded<v1::FromDrafter>(name, bytes, kDrafterMessage);
  };
  const auto many = [](const std::string& item) { return Many(kDrafterMessage, item); };
  const std::string draft = FieldBytes(1, ""), row = FieldBytes(5, "");
  expect("drafts", FieldBytes(2, many(draft)));
  expect("as many drafts as may be", FieldBytes(2, Repeated(kDrafterMessage.entries - 1, draft)));
  expect("rows", FieldBytes(2, many(FieldBytes(1, Repeated(1024, row)))));
  expect("as many rows as may be",
         FieldBytes(2, FieldBytes(1, Repeated(kDrafterMessage.entries - 2, row))));
  expect("unknown fields of drafts", FieldBytes(2, many(FieldBytes(1, kUnknownNumber))));
  expect("tokens of drafts",
         FieldBytes(2, many(FieldBytes(1, FieldBytes(3, Repeated(1000, "\x01"))))));
}

// The smallest limit of entries with which a message parses.
template <class Message>
int EntriesOf(const std::string& bytes) {
  for (int entries = 0; entries < 100; ++entries) {
    if (Parse<Message>(bytes, {.bytes = bytes.size(), .entries = entries}).ok()) return entries;
  }
  return -1;
}

TEST(WorstMessages, CountStringsMessagesAndUnknownFields) {
  using Request = v1::GenerateRequest;
  EXPECT_EQ(EntriesOf<Request>(""), 0);
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(1, "abc")), 1);
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(2, FieldBytes(1, "\x01\x02\x03"))), 1)
      << "packed numbers";
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(2, "\x08\x01\x08\x02")), 1) << "numbers one by one";
  EXPECT_EQ(EntriesOf<Request>("\x28\x01\x38\x02"), 0) << "numbers of the message itself";
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(4, Repeated(3, FieldBytes(2, "a")))), 4);
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(3, Repeated(3, FieldBytes(8, "\x08\x01")))), 4);
  EXPECT_EQ(EntriesOf<Request>(kUnknownNumber + kUnknownString), 2);
  EXPECT_EQ(EntriesOf<Request>(kUnknownGroups), 4) << "a group counts twice";
  EXPECT_EQ(EntriesOf<Request>("\x7b\x22" + kNoBytes + "\x7c"), 3) << "what is in it is unknown";
  EXPECT_EQ(EntriesOf<Request>("\x20\x01"), 1) << "a message's number with a number's type";
  EXPECT_EQ(EntriesOf<Request>(FieldBytes(3, "\x08\x01")), 2) << "a float's with a varint's type";

  const std::string four = FieldBytes(4, Repeated(3, FieldBytes(2, "a")));
  const Status status = Parse<Request>(four, {.bytes = 100, .entries = 3});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the outrider.v1.GenerateRequest holds more than 3"));
  EXPECT_EQ(Parse<Request>(four, {.bytes = 10, .entries = 4}).message(),
            "outrider.v1.GenerateRequest: 11 bytes, at most 10");
}

// A request that uses everything allowed is far from both limits.
TEST(WorstMessages, LargestRequestParses) {
  v1::GenerateRequest request;
  request.mutable_token_ids()->mutable_ids()->Resize(1 << 20, 1 << 20);
  auto& bias = *request.mutable_sampling()->mutable_logit_bias();
  for (uint32_t id = 0; id < uint32_t{kMaxLogitBias}; ++id) bias[id] = 1;
  for (int i = 0; i < 16; ++i) request.mutable_stop()->add_stop_strings(std::string(1024, 'a'));
  request.mutable_stop()->mutable_stop_token_ids()->Resize(256, 7);
  request.mutable_speculation()->mutable_tree()->Resize(64, 1);
  const std::string bytes = request.SerializeAsString();
  const MessageLimits half{.bytes = kClientMessage.bytes / 2,
                           .entries = kClientMessage.entries / 2};
  EXPECT_TRUE(Parse<v1::GenerateRequest>(bytes, half).ok());
}

}  // namespace
}  // namespace outrider
