// A temporary folder that is removed with its test. Tests run concurrently with others, even of
// other checkouts, which would share a file with a fixed name in /tmp.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace outrider::testing {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "outrider-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace outrider::testing
