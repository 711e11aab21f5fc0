#include "verifier/embedded/local_link.h"

#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

namespace outrider {
namespace {

// The inbox of a loop that does not keep up.
class FullInbox final : public LinkEvents {
 public:
  bool Push(LinkEvent) override { return false; }
  void PushUrgent(LinkEvent event) override { taken.push_back(std::move(event)); }

  std::vector<LinkEvent> taken;
};

// A lost opening or verdict is refused later; a lost end would keep the session's place for good.
TEST(LocalDrafterLink, EndsReachAFullInbox) {
  const auto inbox = std::make_shared<FullInbox>();
  LocalDrafterLink link(7, inbox, nullptr);
  link.SendVerdicts({{.session = 3}});
  link.SendClose(3);
  ASSERT_EQ(inbox->taken.size(), 1u);
  EXPECT_EQ(inbox->taken[0].connection, 7u);
  EXPECT_EQ(std::get<CloseEvent>(inbox->taken[0].message).session, 3u);
}

}  // namespace
}  // namespace outrider
