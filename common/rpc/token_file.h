// Bearer tokens in a file: one per line, `token` or `name token`; empty lines and lines that begin
// with # are ignored. Tokens are visible ASCII. No token is ever logged or put into an error.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file_stamp.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

struct NamedToken {
  std::string name;  // "": none
  std::string token;
};

// kInvalidArgument, with the line number, for an invalid line or a repeated token, and if there is
// no token at all.
Result<std::vector<NamedToken>> ParseTokens(std::string_view text);

// The first token of a file, for one's own use.
Result<std::string> ReadToken(const std::string& path);

// The tokens that a service accepts; the file is read again when it changes.
//
// Thread: any.
class TokenFile {
 public:
  static Result<std::unique_ptr<TokenFile>> Open(const std::string& path);

  // The name of the token (may be empty); nullopt if it is not in the file. The time does not
  // depend on how similar a token is. An invalid file is logged, and the previous tokens stay.
  std::optional<std::string> Find(std::string_view token) OUTRIDER_EXCLUDES(mu_);

 private:
  // Digests, so that comparing reveals nothing about a token's length and no token is in memory.
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    std::string name;
    Digest digest;
  };

  explicit TokenFile(const std::string& path) : path_(path) {}

  static Digest DigestOf(std::string_view token);
  Status Read() OUTRIDER_REQUIRES(mu_);

  const std::string path_;
  Mutex mu_;
  FileStamp stamp_ OUTRIDER_GUARDED_BY(mu_);  // of the last attempt to read
  std::vector<Entry> entries_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
