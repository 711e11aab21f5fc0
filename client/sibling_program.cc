#include "client/sibling_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace outrider {

Status ExecSibling(const std::string& name, const std::vector<std::string>& arguments) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Unavailable("/proc/self/exe: " + error.message());
  const std::string path = self.parent_path() / name;
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  if (errno == ENOENT) {
    return NotFound(path + " is not there; install " + name + " beside " +
                    self.filename().string());
  }
  return Unavailable(path + " does not start: " + std::strerror(errno));
}

}  // namespace outrider
