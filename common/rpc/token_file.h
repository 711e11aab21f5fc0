// Bearer tokens in a file: one a line, `token` or `name token`; empty lines and lines that begin
// with # say nothing. Tokens are visible ASCII. No token is ever logged or put into an error.
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

// kInvalidArgument, with the line's number, for a line of another form and for a token that is
// there twice; kInvalidArgument for no token at all.
Result<std::vector<NamedToken>> ParseTokens(std::string_view text);

// The first token of a file, for one's own use.
Result<std::string> ReadToken(const std::string& path);

// The tokens that a service takes; the file is read again when it changes.
//
// Thread: any.
class TokenFile {
 public:
  static Result<std::unique_ptr<TokenFile>> Open(const std::string& path);

  // Whose token it is (the name may be empty); nullopt for one that is not in the file. Takes the
  // same time whichever token is close to it. A file that is not right is logged and leaves the
  // tokens that were there.
  std::optional<std::string> Find(std::string_view token) OUTRIDER_EXCLUDES(mu_);

 private:
  // Digests, so that comparing tells nothing of a token's length and memory holds no token.
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
