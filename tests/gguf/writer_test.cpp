#include "strata/gguf/writer.hpp"

#include "strata/base/error.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace strata::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// `count` bytes that differ from tensor to tensor.
std::vector<std::byte> pattern(std::size_t count, int seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  return bytes;
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Call>
std::pair<ErrorKind, std::string> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::kInternal, "no error"};
}

template <class Call>
std::string usage_error(Call call) {
  const auto [kind, text] = error_of(call);
  EXPECT_EQ(kind, ErrorKind::kUsage) << text;
  return text;
}

class WriterTest : public testing::Test {
 protected:
  test::TempFolder folder_;
};

// The least and the greatest value of every number type, alone and in arrays.
template <class T>
void add_limits(Writer& writer, const std::string& name) {
  writer.add(name + ".least", std::numeric_limits<T>::lowest());
  writer.add(name + ".most", std::numeric_limits<T>::max());
  writer.add_array(name + ".both", std::array<T, 2>{std::numeric_limits<T>::lowest(),
                                                    std::numeric_limits<T>::max()});
}

void add_everything(Writer& writer) {
  add_limits<bool>(writer, "bool");
  add_limits<std::uint8_t>(writer, "u8");
  add_limits<std::int8_t>(writer, "i8");
  add_limits<std::uint16_t>(writer, "u16");
  add_limits<std::int16_t>(writer, "i16");
  add_limits<std::uint32_t>(writer, "u32");
  add_limits<std::int32_t>(writer, "i32");
  add_limits<std::uint64_t>(writer, "u64");
  add_limits<std::int64_t>(writer, "i64");
  add_limits<float>(writer, "f32");
  add_limits<double>(writer, "f64");
  writer.add("text", "a literal");
  writer.add("empty", std::string_view{});
  writer.add_array("texts", std::vector<std::string>{"one", "", "three"});
  writer.add_array("views", std::array<std::string_view, 1>{"\xE2\x82\xAC"});
  writer.add_array("nothing", std::vector<float>{});
}

template <class T, class Wide, class WideArray>
void expect_limits(const File& file, const std::string& name) {
  const Wide least = std::numeric_limits<T>::lowest();
  const Wide most = std::numeric_limits<T>::max();
  EXPECT_EQ(std::get<Wide>(*file.find(name + ".least")), least) << name;
  EXPECT_EQ(std::get<Wide>(*file.find(name + ".most")), most) << name;
  using Element = typename WideArray::value_type;
  EXPECT_THAT(std::get<WideArray>(*file.find(name + ".both")),
              ElementsAre(static_cast<Element>(least), static_cast<Element>(most)))
      << name;
  for (const KeyValue& entry : file.metadata()) {
    if (entry.key == name + ".both") {
      EXPECT_EQ(entry.type_name, "arr[" + name + "]");
    } else if (entry.key.starts_with(name + ".")) {
      EXPECT_EQ(entry.type_name, name);
    }
  }
}

void expect_everything(const File& file) {
  expect_limits<bool, bool, IntArray>(file, "bool");
  expect_limits<std::uint8_t, std::uint64_t, IntArray>(file, "u8");
  expect_limits<std::int8_t, std::int64_t, IntArray>(file, "i8");
  expect_limits<std::uint16_t, std::uint64_t, IntArray>(file, "u16");
  expect_limits<std::int16_t, std::int64_t, IntArray>(file, "i16");
  expect_limits<std::uint32_t, std::uint64_t, IntArray>(file, "u32");
  expect_limits<std::int32_t, std::int64_t, IntArray>(file, "i32");
  expect_limits<std::uint64_t, std::uint64_t, IntArray>(file, "u64");
  expect_limits<std::int64_t, std::int64_t, IntArray>(file, "i64");
  expect_limits<float, double, FloatArray>(file, "f32");
  expect_limits<double, double, FloatArray>(file, "f64");
  EXPECT_EQ(file.get_string("text"), "a literal");
  EXPECT_EQ(file.get_string("empty"), "");
  EXPECT_THAT(*file.get_strings("texts"), ElementsAre("one", "", "three"));
  EXPECT_THAT(*file.get_strings("views"), ElementsAre("\xE2\x82\xAC"));
  EXPECT_THAT(*file.get_floats("nothing"), IsEmpty());
}

TEST_F(WriterTest, RoundTripsEveryValueTypeInBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    Writer writer({.version = version});
    add_everything(writer);
    const auto paths = writer.write(folder_ / "m.gguf");
    EXPECT_THAT(paths, ElementsAre(folder_ / "m.gguf"));
    const File file = File::open(paths[0]);
    EXPECT_EQ(file.version(), version);
    expect_everything(file);
  }
}

TEST_F(WriterTest, CopiesWhatWasRead) {
  Writer writer;
  add_everything(writer);
  writer.write(folder_ / "a.gguf");
  const File read = File::open(folder_ / "a.gguf");
  Writer again;
  for (const KeyValue& entry : read.metadata()) again.add(entry);
  again.write(folder_ / "b.gguf");
  EXPECT_EQ(content(folder_ / "a.gguf"), content(folder_ / "b.gguf"));
  EXPECT_THAT(usage_error([] {
                Writer().add({"k", "u24", std::uint64_t{1}});
              }),
              HasSubstr("no type is called u24"));
}

TEST_F(WriterTest, RoundTripsTensorsOfEveryType) {
  Writer writer;
  std::map<std::string, std::vector<std::byte>> tensors;
  for (std::uint32_t id = 0; id < 64; ++id) {
    const TypeTraits* type = find_type(id);
    if (type == nullptr) continue;
    std::vector<std::byte>& data = tensors[std::string(type->name)];
    data = pattern(type->block_bytes * std::size_t{6}, static_cast<int>(id));
    writer.add_tensor(type->name, type->type, {type->block_elems * 2, 3}, data);
  }
  writer.write(folder_ / "m.gguf");
  const File file = File::open(folder_ / "m.gguf");
  ASSERT_EQ(file.tensors().size(), 33u);
  for (const auto& [name, data] : tensors) {
    const TensorInfo* tensor = file.find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(traits(tensor->type).name, name);
    EXPECT_EQ(tensor->row_bytes * 3, data.size()) << name;
    EXPECT_TRUE(same_bytes(tensor->data, data)) << name;
  }
}

TEST_F(WriterTest, KeepsTheAlignment) {
  const auto data = pattern(5, 1);
  Writer writer({.alignment = 256});
  for (const char* name : {"a", "b", "c"}) writer.add_tensor(name, Type::kI8, {5, 1, 1, 1}, data);
  writer.write(folder_ / "m.gguf");
  const File file = File::open(folder_ / "m.gguf");
  EXPECT_EQ(file.get_int("general.alignment"), 256);
  EXPECT_EQ(file.find_tensor("a")->n_dims, 4);
  EXPECT_EQ(file.find_tensor("b")->data.data() - file.find_tensor("a")->data.data(), 256);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.find_tensor("c")->data.data()) % 256, 0u);
  EXPECT_EQ(file.total_bytes() % 256, 0u);
}

TEST_F(WriterTest, CallsFillForWholeRowsInOrder) {
  // Rows of 12,000 bytes: a chunk of 4 MiB holds 349 of them.
  constexpr std::int64_t kRows = 800;
  std::vector<std::pair<std::uint64_t, std::size_t>> calls;
  Writer writer;
  writer.add_tensor("t", Type::kF32, {3000, kRows},
                    [&](std::uint64_t offset, std::span<std::byte> out) {
                      calls.emplace_back(offset, out.size());
                      for (std::size_t i = 0; i < out.size(); ++i)
                        out[i] = static_cast<std::byte>((offset + i) / 12000);
                    });
  writer.write(folder_ / "m.gguf");
  EXPECT_THAT(calls, ElementsAre(std::pair{0, 349 * 12000}, std::pair{349 * 12000, 349 * 12000},
                                 std::pair{698 * 12000, 102 * 12000}));
  const File file = File::open(folder_ / "m.gguf");
  const auto data = file.find_tensor("t")->data;
  for (std::size_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(data[row * 12000], static_cast<std::byte>(row));
    ASSERT_EQ(data[row * 12000 + 11999], static_cast<std::byte>(row));
  }
}

TEST_F(WriterTest, FillsARowLargerThanAChunk) {
  Writer writer;
  int calls = 0;
  writer.add_tensor("t", Type::kI8, {5 << 20, 2}, [&](std::uint64_t, std::span<std::byte> out) {
    EXPECT_EQ(out.size(), std::size_t{5} << 20);
    std::fill(out.begin(), out.end(), static_cast<std::byte>(++calls));
  });
  writer.write(folder_ / "m.gguf");
  const File file = File::open(folder_ / "m.gguf");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(file.find_tensor("t")->data.back(), std::byte{2});
}

TEST_F(WriterTest, RefusesWhatTheReaderWould) {
  const auto data = pattern(64, 1);
  Writer writer;
  writer.add("k", true);
  writer.add_tensor("t", Type::kI8, {64}, data);
  const auto key_error = [&](const std::string& key) {
    return usage_error([&] { writer.add(key, true); });
  };
  EXPECT_EQ(key_error("k"), "the metadata key 'k' was added before");
  EXPECT_EQ(key_error(""), "the metadata key '' is not 1 to 65535 bytes of UTF-8");
  EXPECT_THAT(key_error("\xFF"), HasSubstr("is not 1 to 65535 bytes of UTF-8"));
  EXPECT_THAT(key_error(std::string(65536, 'k')), HasSubstr("(65536 bytes) is not 1 to 65535"));
  EXPECT_THAT(key_error("general.alignment"), HasSubstr("is written from the WriterOptions"));
  EXPECT_THAT(key_error("split.no"), HasSubstr("is written from the WriterOptions"));

  const auto tensor_error = [&](const std::string& name, Type type, std::vector<std::int64_t> ne) {
    return usage_error([&] { writer.add_tensor(name, type, std::move(ne), data); });
  };
  EXPECT_EQ(tensor_error("t", Type::kI8, {64}), "tensor 't' was added before");
  EXPECT_THAT(tensor_error(std::string(65, 'n'), Type::kI8, {64}),
              HasSubstr("is not 1 to 64 bytes of UTF-8"));
  EXPECT_THAT(tensor_error("", Type::kI8, {64}), HasSubstr("the tensor name ''"));
  EXPECT_EQ(tensor_error("u", Type::kI8, {}), "tensor 'u' has 0 dimensions, expected 1 to 4");
  EXPECT_EQ(tensor_error("u", Type::kI8, {2, 2, 2, 2, 4}),
            "tensor 'u' has 5 dimensions, expected 1 to 4");
  EXPECT_THAT(tensor_error("u", Type::kQ4_0, {33}),
              HasSubstr("tensor 'u': a row of 33 elements is no whole number of Q4_0 blocks"));
  EXPECT_THAT(tensor_error("u", Type::kI8, {64, 0}),
              HasSubstr("a dimension is no positive number"));
  EXPECT_EQ(tensor_error("u", Type::kI8, {63}), "tensor 'u' has 64 bytes of data, expected 63");
  const std::vector<std::int64_t> giant = {std::int64_t{1} << 61};
  const Writer::Fill none = [](std::uint64_t, std::span<std::byte>) {};
  writer.add_tensor("giant", Type::kI8, giant, none);
  writer.add_tensor("giant2", Type::kI8, {(std::int64_t{1} << 61) - 64}, none);
  EXPECT_THAT(usage_error([&] { writer.add_tensor("one more", Type::kI8, {1}, none); }),
              HasSubstr("more than 2^62 bytes"));

  EXPECT_THAT(usage_error([] { Writer({.version = 1}); }),
              HasSubstr("GGUF version 1 cannot be written"));
  EXPECT_THAT(usage_error([] { Writer({.alignment = 48}); }),
              HasSubstr("the alignment 48 is no power of two"));
}

TEST_F(WriterTest, RefusesAHeaderTooLargeForTheReader) {
  Writer writer;
  const std::vector<std::uint8_t> values(std::size_t{64} << 20);
  for (const char* key : {"a", "b", "c", "d"}) writer.add_array(key, values);
  EXPECT_THAT(usage_error([&] { writer.write(folder_ / "m.gguf"); }),
              HasSubstr("the metadata and tensor list take 268435580 bytes, expected at most"));
}

// ---- shards ----

TEST_F(WriterTest, SplitsByTheSizeOfFiles) {
  std::vector<std::vector<std::byte>> data;
  for (int i = 0; i < 7; ++i) data.push_back(pattern(1000, i));
  for (const std::uint32_t alignment : {32u, 64u}) {
    Writer writer({.alignment = alignment, .max_shard_bytes = 3600});
    writer.add("general.architecture", "x");
    for (int i = 0; i < 7; ++i) {
      writer.add_tensor("t" + std::to_string(i), Type::kI8, {1000},
                        data[static_cast<std::size_t>(i)]);
    }
    const auto paths = writer.write(folder_ / "m.gguf");
    EXPECT_THAT(paths,
                ElementsAre(folder_ / "m-00001-of-00003.gguf", folder_ / "m-00002-of-00003.gguf",
                            folder_ / "m-00003-of-00003.gguf"));
    for (const auto& path : paths) EXPECT_LE(std::filesystem::file_size(path), 3600u);
    const File file = File::open(paths[0]);
    EXPECT_EQ(file.shard_count(), 3u);
    EXPECT_EQ(file.get_int("split.tensors.count"), 7);
    EXPECT_EQ(file.get_string("general.architecture"), "x");
    ASSERT_EQ(file.tensors().size(), 7u);
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(file.tensors()[i].name, "t" + std::to_string(i));
      EXPECT_EQ(file.tensors()[i].shard, static_cast<int>(i / 3));
      EXPECT_TRUE(same_bytes(file.tensors()[i].data, data[i]));
    }
  }
}

TEST_F(WriterTest, DoesNotSplitWhatFits) {
  const auto data = pattern(1000, 1);
  Writer unlimited;
  unlimited.add_tensor("t", Type::kI8, {1000}, data);
  unlimited.write(folder_ / "a.gguf");
  const std::uint64_t size = std::filesystem::file_size(folder_ / "a.gguf");
  Writer exact({.max_shard_bytes = size});
  exact.add_tensor("t", Type::kI8, {1000}, data);
  EXPECT_THAT(exact.write(folder_ / "b.gguf"), ElementsAre(folder_ / "b.gguf"));
  EXPECT_EQ(content(folder_ / "a.gguf"), content(folder_ / "b.gguf")) << "no split.* keys either";
}

TEST_F(WriterTest, RefusesASplitThatCannotBe) {
  const auto data = pattern(1000, 1);
  Writer writer({.max_shard_bytes = 1100});
  writer.add_tensor("a", Type::kI8, {1000}, data);
  writer.add_tensor("b", Type::kI8, {1000}, data);
  EXPECT_THAT(usage_error([&] { writer.write(folder_ / "m.gguf"); }),
              HasSubstr("a file of at most 1100 bytes has no room for"));
  Writer named({.max_shard_bytes = 1500});
  named.add_tensor("a", Type::kI8, {1000}, data);
  named.add_tensor("b", Type::kI8, {1000}, data);
  EXPECT_THAT(usage_error([&] { named.write(folder_ / "m.bin"); }),
              HasSubstr("m.bin: the name of a file to be split"));
  Writer only_metadata({.max_shard_bytes = 10});
  EXPECT_THAT(usage_error([&] { only_metadata.write(folder_ / "m.gguf"); }),
              HasSubstr("would make 0 shards"));
  EXPECT_THAT(folder_.names(), IsEmpty());
}

// ---- errors of the file system ----

TEST_F(WriterTest, ReplacesAFileOnlyWhenComplete) {
  std::ofstream(folder_ / "m.gguf") << "old";
  Writer writer;
  writer.add_tensor("t", Type::kI8, {4},
                    [](std::uint64_t, std::span<std::byte>) { throw std::runtime_error("stop"); });
  EXPECT_THROW(writer.write(folder_ / "m.gguf"), std::runtime_error);
  EXPECT_THAT(folder_.names(), ElementsAre("m.gguf"));
  EXPECT_EQ(content(folder_ / "m.gguf"), "old");
  Writer good;
  good.write(folder_ / "m.gguf");
  EXPECT_THAT(folder_.names(), ElementsAre("m.gguf"));
  EXPECT_EQ(content(folder_ / "m.gguf").substr(0, 4), "GGUF");
}

TEST_F(WriterTest, LeavesNoShardWhenOneFails) {
  const auto data = pattern(1000, 1);
  Writer writer({.max_shard_bytes = 1500});
  writer.add_tensor("a", Type::kI8, {1000}, data);
  writer.add_tensor("b", Type::kI8, {1000},
                    [](std::uint64_t, std::span<std::byte>) { throw std::runtime_error("stop"); });
  EXPECT_THROW(writer.write(folder_ / "m.gguf"), std::runtime_error);
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(WriterTest, ReportsWhereItCannotWrite) {
  const auto [kind, text] = error_of([&] { Writer().write(folder_ / "none/m.gguf"); });
  EXPECT_EQ(kind, ErrorKind::kIo);
  EXPECT_THAT(text, HasSubstr("none/m.gguf"));
  EXPECT_THAT(text, HasSubstr("cannot create it: No such file or directory"));
  std::filesystem::create_directory(folder_ / "folder.gguf");
  const auto [over_kind, over] = error_of([&] { Writer().write(folder_ / "folder.gguf"); });
  EXPECT_EQ(over_kind, ErrorKind::kIo);
  EXPECT_THAT(over, HasSubstr("folder.gguf: cannot rename the finished file"));
  EXPECT_THAT(folder_.names(), ElementsAre("folder.gguf"));
}

// A limit on the size of files stands in for a full disk: both end in the same kind of error. It
// holds for the whole process, hence the child.
TEST_F(WriterTest, ReportsAFullDisk) {
  const auto write_with_limit = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(1);
    Writer writer;
    writer.add_tensor("t", Type::kI8, {1000, 1000}, [](std::uint64_t, std::span<std::byte> out) {
      std::fill(out.begin(), out.end(), std::byte{1});
    });
    const auto [kind, text] = error_of([&] { writer.write(folder_ / "m.gguf"); });
    std::fputs(text.c_str(), stderr);
    std::_Exit(kind == ErrorKind::kResource && folder_.names().empty() ? 0 : 1);
  };
  EXPECT_EXIT(write_with_limit(), testing::ExitedWithCode(0),
              "m.gguf: cannot .*: File too large after .* free space");
}

TEST_F(WriterTest, GivesFilesTheUsualPermissions) {
  Writer().write(folder_ / "m.gguf");
  std::ofstream(folder_ / "other").close();
  struct stat ours {};
  struct stat other {};
  ASSERT_EQ(::stat((folder_ / "m.gguf").c_str(), &ours), 0);
  ASSERT_EQ(::stat((folder_ / "other").c_str(), &other), 0);
  EXPECT_EQ(ours.st_mode, other.st_mode);
}

}  // namespace
}  // namespace strata::gguf
