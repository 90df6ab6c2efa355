#include "strata/base/file_io.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace strata {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

class FileIo : public testing::Test {
 public:
  ~FileIo() override { fs::remove_all(folder_); }

 protected:
  FileIo() {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(testing::TempDir()) / ("strata_io_" + test + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename());
    return found;
  }

  fs::path folder_;
};

void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& call) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST_F(FileIo, WritesReadsAndReplaces) {
  const fs::path path = folder_ / "report.json";
  for (const std::string& text :
       {std::string("first"), std::string(), std::string("a\0b", 3), std::string(1'000'000, 'x')}) {
    write_atomically(path, text);
    EXPECT_EQ(read_text_file(path, kNoLimit), text);
    EXPECT_THAT(names(), testing::ElementsAre("report.json"));
  }
}

TEST_F(FileIo, WritesARelativeNameWithoutAFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_atomically("plain", "text");
  fs::current_path(before);
  EXPECT_EQ(read_text_file(folder_ / "plain", 4), "text");
}

TEST_F(FileIo, KeepsPermissionsAndLinks) {
  const fs::path real = folder_ / "real";
  const fs::path link = folder_ / "link";
  write_atomically(real, "old");
  fs::permissions(real, fs::perms(0640));
  fs::create_symlink("real", link);
  write_atomically(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_text_file(real, kNoLimit), "new");
  EXPECT_EQ(fs::status(real).permissions(), fs::perms(0640));
  const fs::path dangling = folder_ / "dangling";
  fs::create_symlink("later", dangling);
  write_atomically(dangling, "there");
  EXPECT_EQ(read_text_file(folder_ / "later", kNoLimit), "there");
  const fs::path circle = folder_ / "circle";
  fs::create_symlink("circle", circle);
  expect_error(ErrorKind::kIo, "cannot follow the link", [&] { write_atomically(circle, "text"); });
}

TEST_F(FileIo, ANewFileHasTheUsualPermissions) {
  const mode_t mask = ::umask(022);
  write_atomically(folder_ / "new", "text");
  ::umask(mask);
  EXPECT_EQ(fs::status(folder_ / "new").permissions(), fs::perms(0644));
}

TEST_F(FileIo, ALeftOverOfACrashIsNoHindrance) {
  const fs::path path = folder_ / "file";
  const std::string left_over = path.string() + "." + std::to_string(::getpid()) + "-0.tmp";
  write_atomically(left_over, "half");
  write_atomically(path, "whole");
  EXPECT_EQ(read_text_file(path, kNoLimit), "whole");
  EXPECT_EQ(read_text_file(left_over, kNoLimit), "half");
}

// The system refuses to let a file grow: the write fails in its middle.
TEST_F(FileIo, AFailedWriteLeavesTheOldContentAndNothingElse) {
  const fs::path path = folder_ / "file";
  write_atomically(path, "old");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small = {100'000, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error(ErrorKind::kIo, "cannot write",
               [&] { write_atomically(path, std::string(1'000'000, 'x')); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_text_file(path, kNoLimit), "old");
  EXPECT_THAT(names(), testing::ElementsAre("file"));
}

TEST_F(FileIo, AFullDiskIsAShortageOfResources) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  expect_error(ErrorKind::kResource, "/dev/full: cannot write: No space left on device",
               [] { write_atomically("/dev/full", "text"); });
}

TEST_F(FileIo, WritesToWhatIsNoRegularFileAsItIs) {
  write_atomically("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::string text;
  std::thread reader([&] { text = read_text_file(pipe, kNoLimit); });
  write_atomically(pipe, "through a pipe");
  reader.join();
  EXPECT_EQ(text, "through a pipe");
}

TEST_F(FileIo, ErrorsNameThePathAndTheReason) {
  expect_error(ErrorKind::kIo, "missing/file: cannot create a file beside it: No such file",
               [&] { write_atomically(folder_ / "missing/file", "text"); });
  expect_error(ErrorKind::kIo, "is a directory", [&] { write_atomically(folder_, "text"); });
  expect_error(ErrorKind::kIo, "missing: cannot open: No such file",
               [&] { (void)read_text_file(folder_ / "missing", 10); });
  expect_error(ErrorKind::kInput, "is a directory", [&] { (void)read_text_file(folder_, 10); });
}

TEST_F(FileIo, ReadsUpToTheLimitAndNotAByteMore) {
  const fs::path path = folder_ / "file";
  write_atomically(path, "12345");
  EXPECT_EQ(read_text_file(path, 5), "12345");
  expect_error(ErrorKind::kInput, "more than the 4 bytes", [&] { (void)read_text_file(path, 4); });
  if (fs::exists("/dev/zero")) {
    expect_error(ErrorKind::kInput, "more than the 1000 bytes",
                 [] { (void)read_text_file("/dev/zero", 1000); });
  }
}

TEST(Stopwatch, LapsAddUpToTheWhole) {
  const Stopwatch whole;
  Stopwatch laps;
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const double lap = laps.restart();
    EXPECT_GE(lap, 0.002);
    sum += lap;
  }
  EXPECT_LE(sum, whole.seconds());
  EXPECT_LE(laps.seconds(), whole.seconds());
}

}  // namespace
}  // namespace strata
