#include "verifier/status/status_page.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

#include "common/base/check.h"

namespace outrider {
namespace {

// 'sha256-...' of the exact bytes between the tags.
std::string DigestOf(std::string_view html, std::string_view open, std::string_view close) {
  const size_t begin = html.find(open);
  const size_t end = html.find(close, begin);
  OUTRIDER_CHECK(begin != std::string_view::npos && end != std::string_view::npos);
  const std::string_view text = html.substr(begin + open.size(), end - begin - open.size());
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  std::array<unsigned char, 4 * ((SHA256_DIGEST_LENGTH + 2) / 3) + 1> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), SHA256_DIGEST_LENGTH);
  return "'sha256-" + std::string(base64.begin(), base64.begin() + length) + "'";
}

}  // namespace

std::string ContentSecurityPolicy(std::string_view html) {
  return "default-src 'none'; script-src " + DigestOf(html, "<script>", "</script>") +
         "; style-src " + DigestOf(html, "<style>", "</style>") +
         "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'; require-trusted-types-for 'script'";
}

}  // namespace outrider
