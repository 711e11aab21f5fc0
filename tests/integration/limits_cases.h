// The cases that limits_test.cc tries, one for each row of the tables of docs/limits.md.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "common/base/status.h"
#include "tests/support/http_client.h"
#include "tests/support/services.h"

namespace outrider::limits {

inline constexpr char kTokenize[] = "/outrider.v1.Generation/Tokenize";

// The processes under test, and helpers to call them.
struct Target {
  std::string model;
  testing::VerifierProcess verifier;  // logs JSON
  testing::TempDir dir;

  std::string CodeOf(const std::string& method, const std::string& request,
                     const std::map<std::string, std::string>& metadata = {}) const {
    const grpc::Status status = testing::CallByBytes(verifier.address(), method, request, metadata);
    return CodeName(static_cast<Code>(status.error_code()));
  }
};

using Ask = std::function<std::string(Target&, int64_t size)>;
struct Try {
  Ask ask;
};
struct Only {
  Ask ask;
};
struct HeldBy {
  std::string file;
  std::string test;
};
using Case = std::variant<Try, Only, HeldBy>;
using Cases = std::map<std::string, Case>;

inline std::string CodeText(const std::optional<testing::HttpResponse>& response) {
  return response.has_value() ? std::to_string(response->code) : "closed";
}

// The code for a request whose head has `above` bytes, the limit and one more.
std::string HeadAbove(int port, const std::string& path, int64_t above);
// What happens to a connection that sends nothing.
std::string SilentConnection(int port);

// By the first column of the table.
const Cases& CollectorCases();
const Cases& ConnectionCases();
const Cases& GrpcCases();
const Cases& HttpCases();
const Cases& LogCases();
const Cases& MetricsCases();

}  // namespace outrider::limits
