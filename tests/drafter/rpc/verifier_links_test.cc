#include "drafter/rpc/verifier_links.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/drafter/rpc/recorded_link.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using testing::TempDir;

constexpr Duration kSoon = std::chrono::milliseconds(2);
constexpr Duration kNever = std::chrono::hours(1);

// A name whose addresses the test decides. A lookup made while `hangs` returns when that ends.
class FakeDns {
 public:
  void Set(Result<std::vector<std::string>> answer) {
    MutexLock lock(mu_);
    answer_ = std::move(answer);
  }
  void SetHangs(bool hangs) {
    MutexLock lock(mu_);
    hangs_ = hangs;
    changed_.notify_all();
  }
  // Waits for this many more lookups.
  bool AwaitLookups(int more) {
    const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mu_);
    const int until = lookups_ + more;
    while (lookups_ < until) {
      if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) return false;
    }
    return true;
  }

  Result<std::vector<std::string>> Look() {
    MutexLock lock(mu_);
    ++lookups_;
    changed_.notify_all();
    while (hangs_) lock.Wait(changed_);
    return answer_;
  }

 private:
  Mutex mu_;
  std::condition_variable changed_;
  int lookups_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool hangs_ OUTRIDER_GUARDED_BY(mu_) = false;
  Result<std::vector<std::string>> answer_ OUTRIDER_GUARDED_BY(mu_) = std::vector<std::string>();
};

class VerifierLinksTest : public ::testing::Test {
 protected:
  ~VerifierLinksTest() override { dns_->SetHangs(false); }

  std::unique_ptr<VerifierLinks> Links(const std::vector<std::string>& targets,
                                       Duration refresh = kSoon, Duration hasty = kSoon) {
    VerifierLinksOptions options{.subset = subset_};
    for (const std::string& text : targets) {
      options.targets.push_back(ParseVerifierTarget(text).value());
    }
    options.link.dial.hello = {.name = "d0", .model = "small", .vocab_size = 32};
    options.link.max_pause = std::chrono::milliseconds(10);
    options.refresh = refresh;
    options.hasty_refresh = hasty;
    options.longest_drain = longest_drain_;
    // Shared: a lookup may outlive the test.
    options.lookup = [dns = dns_](const std::string& host, const std::string& port) {
      EXPECT_EQ(host + ":" + port, "verifiers:7300");
      return dns->Look();
    };
    options.admit = [](const std::string& address) {
      return address.starts_with("127.") ? Status() : InvalidArgument(address + " is far");
    };
    return std::make_unique<VerifierLinks>(options, &events_, &observer_);
  }

  static bool AwaitHellos(FakeDraftingServer& server, int hellos = 1) {
    return server.Await([hellos](const auto& messages) {
      return std::count_if(messages.begin(), messages.end(),
                           [](const auto& m) { return m.has_hello(); }) >= hellos;
    });
  }

  // What the loop does when a verifier is no longer wanted: closes its link after the last session.
  void CloseUnwanted(int n = 1) {
    const LinkEvent event = events_.Await<WantedEvent>(n);
    EXPECT_FALSE(std::get<WantedEvent>(event.message).wanted);
    for (int i = 1; i <= events_.Count<WelcomeEvent>(); ++i) {
      const LinkEvent welcome = events_.Await<WelcomeEvent>(i);
      if (welcome.connection != event.connection) continue;
      std::get<WelcomeEvent>(welcome.message).link->Close();
    }
  }

  SubsetOptions subset_ = {.drafter = "d0"};
  Duration longest_drain_ = kNever;
  RecordedEvents events_;
  RecordedObserver observer_;
  const std::shared_ptr<FakeDns> dns_ = std::make_shared<FakeDns>();
  const std::string name_ = "dns:///verifiers:7300";
};

TEST_F(VerifierLinksTest, EveryResolvedAddressIsDialled) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(AwaitHellos(one));
  EXPECT_TRUE(two.received().empty());
  dns_->Set(std::vector{one.address(), two.address()});
  EXPECT_TRUE(AwaitHellos(two));
  ASSERT_TRUE(observer_.AwaitVerifiers(2));
  ASSERT_TRUE(dns_->AwaitLookups(3));
  EXPECT_EQ(one.received().size(), 1u) << "one dial, whatever is looked up again";
}

TEST_F(VerifierLinksTest, RemovedAddressFinishesItsSessions) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(observer_.AwaitAttached(2));
  dns_->Set(std::vector{two.address()});
  ASSERT_TRUE(observer_.AwaitVerifiers(1));
  EXPECT_EQ(observer_.detached(), 0) << "its sessions go on";
  CloseUnwanted();
  EXPECT_TRUE(one.AwaitHalfClosed(1));
  ASSERT_TRUE(observer_.AwaitDetached(1));
  EXPECT_EQ(observer_.lost(), 0);
  ASSERT_TRUE(dns_->AwaitLookups(5));
  EXPECT_EQ(one.received().size(), 1u) << "not dialled again";
  EXPECT_EQ(two.received().size(), 1u);
}

TEST_F(VerifierLinksTest, ClosesStreamThatDrainsTooLong) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  FakeDraftingServer mute(&FakeDraftingServer::Welcomer, 0, /*reads=*/false);
  longest_drain_ = kSoon;
  dns_->Set(std::vector{one.address(), two.address(), mute.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(observer_.AwaitAttached(3));
  dns_->Set(std::vector{two.address()});
  EXPECT_TRUE(observer_.AwaitMostLeaving(1));
  EXPECT_TRUE(observer_.AwaitDetached(2)) << "though one does not read that its stream is closed";
  EXPECT_TRUE(observer_.AwaitLeaving(0));
  dns_->Set(std::vector{one.address(), two.address()});
  EXPECT_TRUE(AwaitHellos(one, 2));
}

TEST_F(VerifierLinksTest, ReturningAddressIsKeptWhileDraining) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(observer_.AwaitAttached(2));
  dns_->Set(std::vector{two.address()});
  EXPECT_FALSE(std::get<WantedEvent>(events_.Await<WantedEvent>().message).wanted);
  dns_->Set(std::vector{one.address(), two.address()});
  EXPECT_TRUE(std::get<WantedEvent>(events_.Await<WantedEvent>(2).message).wanted);
  EXPECT_EQ(observer_.detached(), 0);
  EXPECT_EQ(one.received().size(), 1u);
}

TEST_F(VerifierLinksTest, ReturningAddressIsDialledAgain) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(observer_.AwaitAttached(2));
  dns_->Set(std::vector{two.address()});
  CloseUnwanted();
  ASSERT_TRUE(observer_.AwaitDetached(1));
  dns_->Set(std::vector{one.address(), two.address()});
  EXPECT_TRUE(AwaitHellos(one, 2));
}

TEST_F(VerifierLinksTest, LostRemovedAddressIsNotDialled) {
  auto one = std::make_unique<FakeDraftingServer>(&FakeDraftingServer::Welcomer);
  FakeDraftingServer two(&FakeDraftingServer::Welcomer);
  const int port = one->port();
  dns_->Set(std::vector{one->address(), two.address()});
  const auto links = Links({name_});
  (void)events_.Await<WelcomeEvent>(2);
  one.reset();
  ASSERT_TRUE(observer_.AwaitDetached(1));
  dns_->Set(std::vector{two.address()});
  ASSERT_TRUE(observer_.AwaitVerifiers(1));
  FakeDraftingServer stranger(&FakeDraftingServer::Welcomer, port);
  ASSERT_TRUE(dns_->AwaitLookups(20));
  EXPECT_TRUE(stranger.received().empty());
}

TEST_F(VerifierLinksTest, FailedLookupChangesNothing) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address()});
  const auto links = Links({name_});
  ASSERT_TRUE(AwaitHellos(one));
  dns_->Set(Unavailable("no answer"));
  ASSERT_TRUE(observer_.AwaitLookupsFailed(3));
  EXPECT_EQ(events_.Count<WantedEvent>(), 0);
  FakeDraftingServer two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address()});
  EXPECT_TRUE(AwaitHellos(two));
}

TEST_F(VerifierLinksTest, LooksUpLostVerifierAtOnce) {
  auto one = std::make_unique<FakeDraftingServer>(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one->address()});
  const auto links = Links({name_}, kNever, kSoon);
  (void)events_.Await<WelcomeEvent>();
  FakeDraftingServer next(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{next.address()});
  one.reset();
  EXPECT_TRUE(AwaitHellos(next));
}

TEST_F(VerifierLinksTest, HangingLookupBlocksNothing) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer);
  dns_->SetHangs(true);
  auto links = Links({name_, one.address()});
  EXPECT_TRUE(AwaitHellos(one));
  ASSERT_TRUE(observer_.AwaitVerifiers(1));
  links->Stop();
  EXPECT_TRUE(one.AwaitHalfClosed(1));
}

TEST_F(VerifierLinksTest, FollowsLinesOfFile) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  TempDir dir;
  const std::string path = dir / "verifiers";
  const auto write = [&](const std::string& text) {
    std::ofstream(path + ".next") << text;
    ASSERT_EQ(rename((path + ".next").c_str(), path.c_str()), 0);
  };
  write(one.address() + "\n");
  const auto links = Links({"file:" + path}, kNever, kSoon);
  ASSERT_TRUE(AwaitHellos(one));
  write(one.address() + "\n" + two.address() + "\n10.0.0.1:7300\n");
  ASSERT_TRUE(observer_.AwaitAttached(2));
  ASSERT_TRUE(observer_.AwaitVerifiers(2)) << "one may not be dialled";
  write("nonsense\n");
  ASSERT_TRUE(observer_.AwaitLookupsFailed(1));
  EXPECT_EQ(events_.Count<WantedEvent>(), 0) << "a mistake loses nobody";
  write("\n");
  ASSERT_TRUE(observer_.AwaitVerifiers(0));
  EXPECT_FALSE(std::get<WantedEvent>(events_.Await<WantedEvent>(2).message).wanted);
}

TEST_F(VerifierLinksTest, AddressNamedTwiceIsOneVerifier) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address()});
  const auto links = Links({name_, one.address()});
  ASSERT_TRUE(AwaitHellos(one));
  ASSERT_TRUE(dns_->AwaitLookups(3));
  EXPECT_EQ(one.received().size(), 1u);
}

TEST_F(VerifierLinksTest, OnlyTheSubsetIsDialled) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer),
      three(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address(), three.address()});
  subset_.size = 2;
  const auto links = Links({name_});
  (void)events_.Await<WelcomeEvent>(2);
  ASSERT_TRUE(observer_.AwaitVerifiers(3));
  ASSERT_TRUE(observer_.AwaitHeld(2));
  ASSERT_TRUE(dns_->AwaitLookups(5));
  EXPECT_EQ(events_.Count<WelcomeEvent>(), 2);
  EXPECT_EQ(one.received().size() + two.received().size() + three.received().size(), 2u);
}

TEST_F(VerifierLinksTest, ReplacesVerifierThatLeavesName) {
  FakeDraftingServer one(&FakeDraftingServer::Welcomer), two(&FakeDraftingServer::Welcomer);
  dns_->Set(std::vector{one.address(), two.address()});
  subset_.size = 1;
  const auto links = Links({name_});
  ASSERT_TRUE(observer_.AwaitAttached(1));
  const bool first = !one.received().empty();
  dns_->Set(std::vector{first ? two.address() : one.address()});
  EXPECT_TRUE(AwaitHellos(first ? two : one));
  ASSERT_TRUE(observer_.AwaitLeaving(1)) << "its sessions go on";
  EXPECT_EQ(observer_.left(), std::vector{SubsetReason::kGone});
  CloseUnwanted();
  EXPECT_TRUE((first ? one : two).AwaitHalfClosed(1));
  EXPECT_TRUE(observer_.AwaitLeaving(0));
}

TEST_F(VerifierLinksTest, FullVerifierGivesWayToAnother) {
  FakeDraftingServer full([](const v1::FromDrafter&, FakeDraftingServer::Sink& sink) {
    sink.Close({grpc::StatusCode::RESOURCE_EXHAUSTED, "the verifier has 64 drafters"});
  });
  FakeDraftingServer free(&FakeDraftingServer::Welcomer);
  // Whichever ranks first, for one of these drafters it is the full one.
  subset_.size = 1;
  for (int i = 0; full.received().empty(); ++i) {
    subset_.drafter = "d" + std::to_string(i);
    const auto links = Links({full.address(), free.address()});
    EXPECT_TRUE(AwaitHellos(free, i + 1));
  }
  EXPECT_EQ(observer_.left().back(), SubsetReason::kRefused);
}

TEST_F(VerifierLinksTest, DropsVerifierThatNeverWelcomes) {
  FakeDraftingServer mute([](const v1::FromDrafter&, FakeDraftingServer::Sink&) {});
  FakeDraftingServer free(&FakeDraftingServer::Welcomer);
  subset_.size = 1;
  subset_.lost = std::chrono::milliseconds(200);
  // Whichever ranks first, for one of these drafters it is the mute one.
  for (int i = 0; mute.received().empty(); ++i) {
    subset_.drafter = "d" + std::to_string(i);
    const auto links = Links({mute.address(), free.address()});
    EXPECT_TRUE(AwaitHellos(free, i + 1));
    if (mute.received().empty()) continue;
    EXPECT_TRUE(observer_.AwaitMostLeaving(1));
    EXPECT_TRUE(observer_.AwaitLeaving(0)) << "its stream is cancelled";
  }
  EXPECT_THAT(observer_.left(), ::testing::Contains(SubsetReason::kLost));
}

// A verifier that wants what it is told to say, and ends visits as the service does.
FakeDraftingServer::Behaviour Wanting(int wanted, int attached) {
  return [wanted, attached](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
    if (!message.has_hello()) return;
    sink.Send(FakeDraftingServer::Welcome());
    v1::FromVerifier demand;
    demand.mutable_demand()->set_wanted(static_cast<uint32_t>(wanted));
    demand.mutable_demand()->set_attached(static_cast<uint32_t>(attached));
    sink.Send(std::move(demand));
    if (message.hello().visit()) sink.Close(grpc::Status::OK);
  };
}

TEST_F(VerifierLinksTest, MovesToVerifierInNeed) {
  FakeDraftingServer rich(Wanting(1, 30)), poor(Wanting(30, 0));
  // Whichever ranks first, it ends where it is wanted.
  subset_.size = 1;
  subset_.rebalance = std::chrono::milliseconds(5);
  const auto links = Links({rich.address(), poor.address()});
  ASSERT_TRUE(poor.Await([](const auto& messages) {
    return std::any_of(messages.begin(), messages.end(),
                       [](const auto& m) { return m.has_hello() && !m.hello().visit(); });
  }));
  EXPECT_TRUE(observer_.AwaitHeld(1));
  for (const SubsetReason why : observer_.left()) EXPECT_EQ(why, SubsetReason::kDemand);
}

TEST_F(VerifierLinksTest, DrafterEndsVisitOfOldVerifier) {
  const auto old = [](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
    if (!message.has_hello()) return;
    v1::FromVerifier welcome = FakeDraftingServer::Welcome();
    welcome.mutable_welcome()->set_protocol_version(3);
    sink.Send(std::move(welcome));
  };
  FakeDraftingServer one(old), two(old);
  subset_.size = 1;
  subset_.rebalance = std::chrono::milliseconds(5);
  const auto links = Links({one.address(), two.address()});
  const auto visited = [](const auto& messages) {
    return std::any_of(messages.begin(), messages.end(),
                       [](const auto& m) { return m.hello().visit(); });
  };
  (void)events_.Await<WelcomeEvent>();
  const auto first = one.received();
  const bool holds_one = std::any_of(first.begin(), first.end(), [](const auto& m) {
    return m.has_hello() && !m.hello().visit();
  });
  FakeDraftingServer& other = holds_one ? two : one;
  EXPECT_TRUE(other.Await(visited));
  EXPECT_TRUE(other.AwaitHalfClosed(1));
  EXPECT_TRUE(observer_.left().empty());
  ASSERT_TRUE(observer_.AwaitAttached(1));
  EXPECT_EQ(observer_.attached(), 1) << "a visit is not an attachment";
}

TEST_F(VerifierLinksTest, ZoneOfVerifierIsLearned) {
  FakeDraftingServer far([](const v1::FromDrafter& message, FakeDraftingServer::Sink& sink) {
    if (!message.has_hello()) return;
    v1::FromVerifier welcome = FakeDraftingServer::Welcome();
    welcome.mutable_welcome()->set_zone("far");
    sink.Send(std::move(welcome));
  });
  FakeDraftingServer near(&FakeDraftingServer::Welcomer);
  subset_.zone = "here";
  const auto links = Links({far.address(), near.address()});
  EXPECT_TRUE(observer_.AwaitOtherZone(1));
  EXPECT_TRUE(observer_.AwaitHeld(2));
}

}  // namespace
}  // namespace outrider
