// Files split in shards: put together right, and every way in which shards fail to belong together.
#include "strata/gguf/file.hpp"

#include "tests/gguf/raw_file.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace strata::gguf {
namespace {

using test::RawFile;
using testing::HasSubstr;

struct ShardSpec {
  std::uint16_t no;
  std::uint16_t count = 3;
  std::int32_t total = 3;
  std::string tensor;        // one tensor of this name, four bytes of value `no`
  std::string architecture;  // empty: the key is left out
};

RawFile shard(const ShardSpec& spec) {
  RawFile file;
  file.begin(3, 1, spec.architecture.empty() ? 3 : 4);
  if (!spec.architecture.empty()) file.key("general.architecture", 8).text(spec.architecture);
  file.key("split.no", 2).put(spec.no).key("split.count", 2).put(spec.count);
  file.key("split.tensors.count", 5).put(spec.total);
  file.tensor(spec.tensor, {4}, 24, 0).pad(32);
  for (int i = 0; i < 4; ++i) file.put(static_cast<std::uint8_t>(spec.no));
  return file;
}

std::vector<ShardSpec> three() {
  return {{.no = 0, .tensor = "a", .architecture = "x"},
          {.no = 1, .tensor = "b", .architecture = ""},
          {.no = 2, .tensor = "c", .architecture = ""}};
}

std::string open_error(const std::filesystem::path& path) {
  try {
    (void)File::open(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

class SplitFile : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const ShardSpec& spec) const {
    const RawFile raw = shard(spec);
    std::ofstream out(folder_ / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(raw.bytes().data()),
              static_cast<std::streamsize>(raw.bytes().size()));
    return folder_ / name;
  }
  // Under their right names; the path of the first.
  std::filesystem::path write_all(const std::vector<ShardSpec>& specs) const {
    for (std::size_t i = specs.size(); i-- > 0;) {
      write("m-0000" + std::to_string(i + 1) + "-of-00003.gguf", specs[i]);
    }
    return folder_ / "m-00001-of-00003.gguf";
  }
  std::string error_of(const std::vector<ShardSpec>& specs) const {
    return open_error(write_all(specs));
  }

  test::TempFolder folder_;
};

TEST_F(SplitFile, IsPutTogether) {
  const std::filesystem::path first = write_all(three());
  const File file = File::open(first);
  EXPECT_EQ(file.path(), first);
  EXPECT_EQ(file.shard_count(), 3u);
  EXPECT_EQ(file.get_string("general.architecture"), "x");
  EXPECT_EQ(file.get_int("split.no"), 0);
  EXPECT_EQ(file.metadata().size(), 4u);
  ASSERT_EQ(file.tensors().size(), 3u);
  std::uint64_t bytes = 0;
  for (int i = 0; i < 3; ++i) {
    const TensorInfo* tensor = file.find_tensor(std::string(1, static_cast<char>('a' + i)));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shard, i);
    EXPECT_EQ(tensor->data[0], static_cast<std::byte>(i)) << "data of its own shard";
    file.release(*tensor, 0, tensor->data.size());
    EXPECT_EQ(tensor->data[3], static_cast<std::byte>(i));
    bytes +=
        std::filesystem::file_size(folder_ / ("m-0000" + std::to_string(i + 1) + "-of-00003.gguf"));
  }
  EXPECT_EQ(file.total_bytes(), bytes);
}

TEST_F(SplitFile, OpensFromItsOwnFolderByABareName) {
  write_all(three());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const std::size_t shards = File::open("m-00001-of-00003.gguf").shard_count();
  std::filesystem::current_path(before);
  EXPECT_EQ(shards, 3u);
}

TEST_F(SplitFile, KeepsMetadataThatLaterShardsRepeatOrAdd) {
  std::vector<ShardSpec> specs = three();
  specs[2].architecture = "x";
  EXPECT_EQ(File::open(write_all(specs)).metadata().size(), 4u);
  specs[0].architecture = "";
  specs[2].architecture = "y";
  EXPECT_EQ(File::open(write_all(specs)).get_string("general.architecture"), "y");
}

TEST_F(SplitFile, NeedsTheFirstShard) {
  write_all(three());
  EXPECT_THAT(
      open_error(folder_ / "m-00002-of-00003.gguf"),
      HasSubstr(
          "m-00002-of-00003.gguf: it is shard 2 of 3; give the first one, m-00001-of-00003.gguf"));
}

TEST_F(SplitFile, NeedsAllShards) {
  const std::filesystem::path first = write_all(three());
  std::filesystem::remove(folder_ / "m-00003-of-00003.gguf");
  EXPECT_THAT(open_error(first), HasSubstr("1 of its 3 shards are missing from its folder, the "
                                           "first of them m-00003-of-00003.gguf"));
  std::filesystem::remove(folder_ / "m-00002-of-00003.gguf");
  EXPECT_THAT(open_error(first), HasSubstr("2 of its 3 shards are missing"));
}

TEST_F(SplitFile, NeedsTheNamesOfAllShards) {
  for (const std::string name : {"model.gguf", "m-00001-of-00004.gguf", "m-00002-of-00003.gguf"}) {
    const std::string error = open_error(write(name, three()[0]));
    EXPECT_THAT(error, HasSubstr(name + ": it is shard 1 of 3 and must be named ")) << name;
    EXPECT_THAT(error, HasSubstr("-00001-of-00003.gguf, as must its siblings"));
  }
}

TEST_F(SplitFile, RefusesShardsOfAnotherSplit) {
  std::vector<ShardSpec> specs = three();
  specs[1].count = 4;
  EXPECT_THAT(
      error_of(specs),
      HasSubstr("m-00002-of-00003.gguf: its metadata says split.no 1 of split.count 4, expected 1 "
                "of 3: shards of different files?"));
  specs = three();
  specs[1].no = 2;
  EXPECT_THAT(error_of(specs),
              HasSubstr("m-00002-of-00003.gguf: its metadata says split.no 2 of split.count 3"));
}

TEST_F(SplitFile, RefusesAWrongTotalOfTensors) {
  std::vector<ShardSpec> specs = three();
  specs[2].total = 4;
  EXPECT_THAT(
      error_of(specs),
      HasSubstr(
          "m-00003-of-00003.gguf: split.tensors.count is 4, but the 3 shards have 3 tensors"));
}

TEST_F(SplitFile, RefusesATensorInTwoShards) {
  std::vector<ShardSpec> specs = three();
  specs[2].tensor = "a";
  const std::string error = error_of(specs);
  EXPECT_THAT(error, HasSubstr("m-00003-of-00003.gguf: byte "));
  EXPECT_THAT(error, HasSubstr("tensor 0 'a': the name is taken by another tensor of "));
  EXPECT_THAT(error, HasSubstr("m-00001-of-00003.gguf"));
}

TEST_F(SplitFile, RefusesMetadataThatContradictsTheFirstShard) {
  std::vector<ShardSpec> specs = three();
  specs[1].architecture = "y";
  EXPECT_THAT(error_of(specs),
              HasSubstr("m-00002-of-00003.gguf: byte 24: metadata entry 0: the value of "
                        "'general.architecture' differs from that of the shards before"));
}

TEST_F(SplitFile, NamesTheBrokenShard) {
  const std::filesystem::path first = write_all(three());
  std::filesystem::resize_file(folder_ / "m-00002-of-00003.gguf", 40);
  EXPECT_THAT(open_error(first), HasSubstr("m-00002-of-00003.gguf: byte "));
}

std::string single_error(const RawFile& raw) {
  return test::parse_error(raw.bytes()).value_or("no error");
}

TEST(SplitKeys, OfAWholeFile) {
  const auto with = [](std::uint16_t no, std::uint16_t count) {
    RawFile raw;
    raw.begin(3, 0, 2).key("split.no", 2).put(no).key("split.count", 2).put(count);
    return single_error(raw);
  };
  EXPECT_EQ(with(0, 1), "no error");
  EXPECT_EQ(with(0, 0), "no error") << "some tools write this into files they did not split";
  EXPECT_EQ(
      with(1, 1),
      "test.gguf: split.no 1 of split.count 1 makes no sense, expected 0 <= no < count <= 99999");
  EXPECT_THAT(with(7, 5), HasSubstr("split.no 7 of split.count 5 makes no sense"));
  EXPECT_THAT(with(0, 2),
              HasSubstr("its metadata says split.no 0 of split.count 2, expected 0 of 1"));
}

TEST(SplitKeys, OfAnyIntegerTypeAndNoOther) {
  RawFile wide;
  wide.begin(3, 0, 2)
      .key("split.no", 11)
      .put(std::int64_t{0})
      .key("split.count", 10)
      .put(std::uint64_t{1});
  EXPECT_EQ(single_error(wide), "no error");
  RawFile text;
  text.begin(3, 0, 1).key("split.count", 8).text("3");
  EXPECT_EQ(single_error(text), "test.gguf: byte 24: split.count is no 64-bit integer but str");
  RawFile huge;
  huge.begin(3, 0, 1).key("split.count", 10).put(~std::uint64_t{0});
  EXPECT_EQ(single_error(huge), "test.gguf: byte 24: split.count is no 64-bit integer but u64");
  RawFile negative;
  negative.begin(3, 0, 1).key("split.count", 5).put(std::int32_t{-1});
  EXPECT_THAT(single_error(negative), HasSubstr("split.count -1 makes no sense"));
}

TEST(SplitKeys, ShardsInMemory) {
  std::vector<RawFile> raws;
  std::vector<ShardBytes> shards;
  for (const ShardSpec& spec : three()) raws.push_back(shard(spec));
  for (std::size_t i = 0; i < raws.size(); ++i)
    shards.push_back({"part" + std::to_string(i), raws[i].bytes()});
  const File file = File::from_bytes(shards);
  EXPECT_EQ(file.shard_count(), 3u);
  EXPECT_EQ(file.find_tensor("c")->data.data(),
            raws[2].bytes().data() + raws[2].bytes().size() - 4);
  file.release(*file.find_tensor("c"), 0, 4);  // must leave memory that is not mapped alone
  EXPECT_EQ(file.find_tensor("c")->data[0], std::byte{2});
}

}  // namespace
}  // namespace strata::gguf
