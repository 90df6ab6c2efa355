#include "src/serve/slot_file.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/base/mapped_file.hpp"
#include "strata/runtime/sequence_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "STRASLOT";
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t cell_bytes;
  std::uint64_t fingerprint;
  std::uint64_t tokens;
};
static_assert(sizeof(Header) == 32);

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) noexcept {
    for (const std::byte b : bytes) value_ = (value_ ^ static_cast<std::uint64_t>(b)) * kPrime;
  }
  void add(std::uint64_t value) noexcept { add(std::as_bytes(std::span(&value, 1))); }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t value_ = 0xCBF29CE484222325;
};

std::uint32_t cell_bytes(const Slot& slot) {
  return static_cast<std::uint32_t>(device::cell_bytes(slot.session->state().cache().type));
}

}  // namespace

std::uint64_t model_fingerprint(const std::filesystem::path& model, const Engine& engine) {
  constexpr std::size_t kPage = 4096, kPages = 256;
  const MappedFile file = MappedFile::open(model);
  const std::span<const std::byte> bytes = file.bytes();
  Hash hash;
  hash.add(bytes.size());
  // The metadata are in front; pages from all over tell models of one shape apart.
  hash.add(bytes.first(std::min<std::size_t>(bytes.size(), 64 * kPage)));
  for (std::size_t i = 0; i < kPages; ++i) {
    const std::size_t at = bytes.size() / kPages * i;
    hash.add(bytes.subspan(at, std::min(kPage, bytes.size() - at)));
  }
  // What else decides on bits: neither threads nor kernels do, nor what is cached.
  const LoadReport& report = engine.report();
  hash.add(static_cast<std::uint64_t>(report.activations));
  const std::string& replay = report.replay.native();
  hash.add(std::as_bytes(std::span(replay)));
  return hash.value();
}

std::size_t save_slot(const Slot& slot, Engine& engine, std::uint64_t fingerprint,
                      const std::filesystem::path& path) {
  Header header{{}, kVersion, cell_bytes(slot), fingerprint, slot.tokens.size()};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  const runtime::SequenceState& state = slot.session->state();
  const auto positions = static_cast<int>(slot.tokens.size());
  const std::span ids = std::as_bytes(std::span(slot.tokens));
  const std::size_t front = sizeof(header) + ids.size();
  std::vector<std::byte> bytes(front + runtime::prefix_bytes(state, engine.hparams(), positions));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::ranges::copy(ids, bytes.begin() + sizeof(header));
  runtime::read_prefix(state, engine.hparams(), positions, engine.main_device(),
                       std::span(bytes).subspan(front));
  write_atomically(path, std::span<const std::byte>(bytes));
  return bytes.size();
}

std::size_t restore_slot(Slot& slot, Engine& engine, std::uint64_t fingerprint,
                         const std::filesystem::path& path) {
  const MappedFile file = MappedFile::open(path);
  std::span<const std::byte> bytes = file.bytes();
  const auto broken = [&](std::string_view why) {
    fail(ErrorKind::kInput, "{}: {}", path.filename().string(), why);
  };
  Header header{};
  if (bytes.size() < sizeof(header)) broken("this is no saved slot");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::string_view(header.magic, 8) != kMagic) broken("this is no saved slot");
  if (header.version != kVersion) broken("saved by another version of this program");
  if (header.fingerprint != fingerprint || header.cell_bytes != cell_bytes(slot)) {
    broken("saved with another model or other options");
  }
  if (header.tokens > static_cast<std::uint64_t>(engine.context())) {
    broken(fmt::format("it has {} tokens, the context holds {}", header.tokens, engine.context()));
  }
  bytes = bytes.subspan(sizeof(header));
  const runtime::SequenceState& state = slot.session->state();
  const auto positions = static_cast<int>(header.tokens);
  if (bytes.size() != header.tokens * sizeof(std::int32_t) +
                          runtime::prefix_bytes(state, engine.hparams(), positions)) {
    broken("it is cut off or has something behind it");
  }
  std::vector<std::int32_t> tokens(header.tokens);
  std::memcpy(tokens.data(), bytes.data(), tokens.size() * sizeof(std::int32_t));
  for (const std::int32_t id : tokens) {
    if (id < 0 || id >= engine.hparams().vocab) broken("a token that the vocabulary lacks");
  }
  runtime::write_prefix(state, engine.hparams(), positions, engine.main_device(),
                        bytes.subspan(tokens.size() * sizeof(std::int32_t)));
  slot.tokens = std::move(tokens);
  return file.bytes().size();
}

}  // namespace strata::serve
