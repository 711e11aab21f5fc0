#include "verifier/status/status_page.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusPage, IsTheFileOfTheTree) {
  std::ifstream file(OUTRIDER_SOURCE_DIR "/verifier/status/status.html");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(StatusPageHtml(), text);
}

TEST(StatusPage, NeverTurnsTextIntoMarkup) {
  const std::string html(StatusPageHtml());
  EXPECT_EQ(html.find("<script"), html.rfind("<script"));
  for (const char* sink : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                           "eval(", "srcdoc", "onclick=", "style=\""}) {
    EXPECT_THAT(html, Not(HasSubstr(sink)));
  }
}

TEST(StatusPage, PolicyHasScriptAndStyleDigests) {
  // Of "alert(1)" and "b{}", as computed by openssl dgst -sha256 -binary | base64.
  const std::string policy = ContentSecurityPolicy("<style>b{}</style><script>alert(1)</script>");
  EXPECT_THAT(policy,
              HasSubstr("script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"));
  EXPECT_THAT(policy, HasSubstr("style-src 'sha256-7yqHVAesot11p6HczDsgKRipvI5UPgs97z80zNXlans='"));
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, Not(HasSubstr("unsafe")));
}

}  // namespace
}  // namespace outrider
