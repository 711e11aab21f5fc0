// What --verifier says, and which addresses it stands for.
//
//   host:port               one verifier, however gRPC finds it
//   dns:///host:port        every address behind the name, one verifier each
//   file:PATH               every line of the file that is not empty and no comment (#), a
//   host:port
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
  std::string text;       // as it was given
  std::string host;       // kDns
  std::string port;       // kDns
  std::string authority;  // kDns: "host:port", as it was written
  std::string path;       // kFile
};

// kInvalidArgument with words on what is wrong.
Result<VerifierTarget> ParseVerifierTarget(const std::string& text);

// The addresses behind a name, "a.b.c.d:port" or "[a:b::c]:port". Takes as long as it takes.
using Lookup = std::function<Result<std::vector<std::string>>(const std::string& host,
                                                              const std::string& port)>;

// The system's (getaddrinfo). A name with IPv4 addresses is taken by these alone, so that a
// verifier with an address of either kind counts once. kUnavailable when there are none.
Result<std::vector<std::string>> SystemLookup(const std::string& host, const std::string& port);

// The addresses that a file lists; kNotFound when it cannot be read, kInvalidArgument for a line
// that is no host:port.
Result<std::vector<std::string>> ReadAddresses(const std::string& path);

}  // namespace outrider
