#include "common/rpc/token_file.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "common/base/input_file.h"
#include "common/base/log.h"

namespace outrider {
namespace {

Result<std::vector<NamedToken>> ReadTokens(const std::string& path) {
  OUTRIDER_ASSIGN(const std::string text, ReadFile(path, kMaxTextFileBytes));
  Result<std::vector<NamedToken>> tokens = ParseTokens(text);
  if (!tokens.ok()) return tokens.status().Annotate(path);
  return tokens;
}

}  // namespace

Result<std::vector<NamedToken>> ParseTokens(std::string_view text) {
  std::vector<NamedToken> tokens;
  std::set<std::string> seen;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = "line " + std::to_string(++number) + ": ";
    std::istringstream words(line);
    std::vector<std::string> parts(std::istream_iterator<std::string>(words), {});
    if (parts.empty() || parts[0].starts_with('#')) continue;
    if (parts.size() > 2) return InvalidArgument(where + "expected `token` or `name token`");
    std::string& token = parts.back();
    // Other characters do not survive in an HTTP header.
    if (!std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; })) {
      return InvalidArgument(where + "a token must be visible ASCII");
    }
    if (!seen.insert(token).second) return InvalidArgument(where + "the token is there twice");
    tokens.push_back({.name = parts.size() == 2 ? parts[0] : "", .token = std::move(token)});
  }
  if (tokens.empty()) return InvalidArgument("holds no token");
  return tokens;
}

Result<std::string> ReadToken(const std::string& path) {
  OUTRIDER_ASSIGN(std::vector<NamedToken> tokens, ReadTokens(path));
  return std::move(tokens.front().token);
}

Result<std::unique_ptr<TokenFile>> TokenFile::Open(const std::string& path) {
  std::unique_ptr<TokenFile> file(new TokenFile(path));
  MutexLock lock(file->mu_);
  file->stamp_ = StampOf(path);
  OUTRIDER_TRY(file->Read());
  return file;
}

TokenFile::Digest TokenFile::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

Status TokenFile::Read() {
  OUTRIDER_ASSIGN(const std::vector<NamedToken> tokens, ReadTokens(path_));
  entries_.clear();
  for (const NamedToken& t : tokens) {
    entries_.push_back({.name = t.name, .digest = DigestOf(t.token)});
  }
  return Status();
}

std::optional<std::string> TokenFile::Find(std::string_view token) {
  const Digest digest = DigestOf(token);
  MutexLock lock(mu_);
  if (const FileStamp stamp = StampOf(path_); stamp != stamp_) {
    stamp_ = stamp;
    if (const Status status = Read(); status.ok()) {
      Log(LogLevel::kInfo, "tokens read again", {{"file", path_}});
    } else {
      Log(LogLevel::kError, "the token file is not right; the tokens read before stay valid",
          {{"reason", status.message()}});
    }
  }
  const Entry* found = nullptr;
  // always all of them, so that the time does not depend on the match
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace outrider
