#include "verifier/rpc/padding.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

v1::GenerateResponse Text(size_t length) {
  v1::GenerateResponse response;
  response.mutable_chunk()->set_text(std::string(length, 'x'));
  return response;
}

TEST(Padding, RoundsSizesUpToMultiple) {
  for (const int multiple : {1, 2, 3, 4, 16, 128, 129, 130, 131, 512, 16384, 65536}) {
    const auto unit = static_cast<size_t>(multiple);
    for (size_t length = 0; length < 300; ++length) {
      v1::GenerateResponse response = Text(length);
      const size_t plain = response.ByteSizeLong();
      Pad(multiple, &response);
      const size_t padded = response.SerializeAsString().size();
      ASSERT_EQ(padded % unit, 0u) << multiple << " " << length;
      // Some amounts cannot be padded with a field: those below three bytes, and those where the
      // length prefix grows.
      ASSERT_LE(padded, plain + 2 * unit + 2) << multiple << " " << length;
      response.clear_padding();
      ASSERT_EQ(response.SerializeAsString(), Text(length).SerializeAsString());
    }
  }
}

TEST(Padding, HidesHowMuchAMessageSays) {
  for (size_t length = 0; length < 100; ++length) {
    v1::GenerateResponse response = Text(length);
    Pad(256, &response);
    EXPECT_EQ(response.ByteSizeLong(), 256u);
  }
}

TEST(Padding, ZeroIsNone) {
  v1::GenerateResponse response = Text(5);
  Pad(0, &response);
  EXPECT_EQ(response.padding(), "");
}

}  // namespace
}  // namespace outrider
