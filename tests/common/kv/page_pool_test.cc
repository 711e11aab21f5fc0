#include "common/kv/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace outrider {
namespace {

TEST(PagePool, HandsOutEveryPageOnce) {
  PagePool pool(5);
  std::set<int32_t> taken;
  while (pool.free_pages() > 0) taken.insert(pool.Take());
  EXPECT_EQ(taken, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.total_pages(), 5);
}

TEST(PagePool, FreesPageWithLastHolder) {
  PagePool pool(1);
  const int32_t page = pool.Take();
  pool.Share(page);
  EXPECT_EQ(pool.references(page), 2);
  pool.Drop(page);
  EXPECT_EQ(pool.free_pages(), 0);
  pool.Drop(page);
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_EQ(pool.Take(), page);
}

TEST(PagePoolDeathTest, DroppingFreePageDies) {
  PagePool pool(1);
  EXPECT_DEATH(pool.Drop(0), "references");
}

}  // namespace
}  // namespace outrider
