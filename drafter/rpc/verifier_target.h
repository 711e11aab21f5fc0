// Parses --verifier and finds the addresses that it names.
//
//   host:port               one verifier, however gRPC finds it
//   dns:///host:port        every address of the name, one verifier each
//   file:PATH               every line of the file that is not empty and not a comment (#), a
//                           host:port
//
// Thread: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct VerifierTarget {
  enum class Kind { kAddress, kDns, kFile };

  Kind kind = Kind::kAddress;
  std::string text;       // as given
  std::string host;       // kDns
  std::string port;       // kDns
  std::string authority;  // kDns: "host:port" as given
  std::string path;       // kFile
};

// kInvalidArgument with the reason.
Result<VerifierTarget> ParseVerifierTarget(const std::string& text);

// Resolves a name to "a.b.c.d:port" or "[a:b::c]:port". May block for a long time.
using Lookup = std::function<Result<std::vector<std::string>>(const std::string& host,
                                                              const std::string& port)>;

// The system's resolver (getaddrinfo). If a name has IPv4 addresses only these are used, so that a
// verifier with both kinds counts once. kUnavailable if there are none.
Result<std::vector<std::string>> SystemLookup(const std::string& host, const std::string& port);

// The addresses in a file; kNotFound if it cannot be read, kInvalidArgument for a line that is not
// a host:port.
Result<std::vector<std::string>> ReadAddresses(const std::string& path);

}  // namespace outrider
