// Errors as values. Our functions that can fail at run time return Status or Result<T>;
// OUTRIDER_CHECK (check.h) is for bugs. Codes have gRPC's numbers, so that the edge converts them
// by a cast (common/rpc/status_map.h) and nothing below it needs gRPC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace outrider {

enum class Code {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,     // never retry: the caller must change the request
  kDeadlineExceeded = 4,    // the caller's time is over
  kNotFound = 5,            // a file or an entity that does not exist
  kPermissionDenied = 7,    // authenticated, but not allowed
  kResourceExhausted = 8,   // no room now (queue, pages, memory)
  kFailedPrecondition = 9,  // session unknown, out of order, mismatched pair
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,         // a bug or a broken device
  kUnavailable = 14,      // peer gone, draining
  kDataLoss = 15,         // a truncated or corrupt file
  kUnauthenticated = 16,  // no known token
};

const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "INVALID_ARGUMENT: max_tokens is 0"
  std::string ToString() const;
  // The same code, with "context: " before the message.
  Status Annotate(const std::string& context) const;

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status PermissionDenied(std::string message);
Status ResourceExhausted(std::string message);
Status FailedPrecondition(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status Unavailable(std::string message);
Status DataLoss(std::string message);
Status Unauthenticated(std::string message);

// kInvalidArgument "<field>: <count> <unit>, at most <limit>" for a count above the limit.
Status CheckAtMost(const std::string& field, int64_t count, int64_t limit,
                   const char* unit = "entries");

// A value, or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    OUTRIDER_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return Checked(*this); }
  const T& value() const& { return Checked(*this); }
  T&& value() && { return std::move(Checked(*this)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  template <class Self>
  static auto& Checked(Self& self) {
    OUTRIDER_CHECK(self.value_.has_value());
    return *self.value_;
  }

  Status status_;
  std::optional<T> value_;
};

}  // namespace outrider

#define OUTRIDER_CONCAT_INNER(a, b) a##b
#define OUTRIDER_CONCAT(a, b) OUTRIDER_CONCAT_INNER(a, b)

// Returns the error of `expression` (a Status) from the calling function.
#define OUTRIDER_TRY(expression)                                                  \
  do {                                                                            \
    if (::outrider::Status outrider_status = (expression); !outrider_status.ok()) \
      return outrider_status;                                                     \
  } while (false)

// OUTRIDER_ASSIGN(auto x, MakeX()): the value of a Result, or return its error.
#define OUTRIDER_ASSIGN(declaration, expression) \
  OUTRIDER_ASSIGN_INNER(OUTRIDER_CONCAT(outrider_result_, __LINE__), declaration, expression)
#define OUTRIDER_ASSIGN_INNER(name, declaration, expression) \
  auto name = (expression);                                  \
  if (!name.ok()) return name.status();                      \
  declaration = std::move(name).value()
