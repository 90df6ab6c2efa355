#include "strata/core/profile.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/base/sha256.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <string>

namespace strata::core {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is the memory's layout");

constexpr std::array<char, 4> kMagic = {'S', 'T', 'R', 'P'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMaxSide = 65536;                    // a pair's numbers have 16 bits
constexpr std::uint64_t kMaxPairs = std::uint64_t{1} << 26;  // 1,000 layers of 65,536 experts

struct Header {
  std::array<char, 4> magic;
  std::uint32_t version;
  std::uint32_t layers;
  std::uint32_t experts;
  std::uint32_t slots;
  std::uint32_t ranked;
};
static_assert(sizeof(Header) == 24 && sizeof(RankedExpert) == 4);

constexpr std::int32_t kUnranked = -1;

Header checked_header(std::span<const std::byte> bytes, std::string_view name,
                      std::optional<ExpertGeometry> model) {
  Header h{};
  if (bytes.size() < sizeof h) {
    fail(ErrorKind::kInput, "{}: {} bytes are too few for a profile's header of {}", name,
         bytes.size(), sizeof h);
  }
  std::memcpy(&h, bytes.data(), sizeof h);
  if (h.magic != kMagic) {
    fail(ErrorKind::kInput, "{}: is no expert profile: it does not start with 'STRP'", name);
  }
  if (h.version != kVersion) {
    fail(ErrorKind::kInput, "{}: has profile version {}; this program reads version {}", name,
         h.version, kVersion);
  }
  const std::uint64_t pairs = std::uint64_t{h.layers} * h.experts;
  if (h.layers == 0 || h.experts == 0 || h.layers > kMaxSide || h.experts > kMaxSide ||
      pairs > kMaxPairs) {
    fail(ErrorKind::kInput, "{}: says it has {} layers of {} experts; no model has", name, h.layers,
         h.experts);
  }
  if (model && (h.layers != static_cast<std::uint32_t>(model->layers) ||
                h.experts != static_cast<std::uint32_t>(model->experts))) {
    fail(ErrorKind::kInput,
         "{}: is for a model of {} layers x {} experts, but this one has {} x {}; make a profile "
         "from this model's own routing trace (strata profile)",
         name, h.layers, h.experts, model->layers, model->experts);
  }
  if (h.ranked > pairs) {
    fail(ErrorKind::kInput, "{}: says it ranks {} experts, but {} layers x {} have only {}", name,
         h.ranked, h.layers, h.experts, pairs);
  }
  const std::uint64_t size = sizeof h + std::uint64_t{h.ranked} * sizeof(RankedExpert) + pairs * 4;
  if (bytes.size() != size) {
    fail(ErrorKind::kInput, "{}: has {} bytes where its header asks for {}: it is {}", name,
         bytes.size(), size, bytes.size() < size ? "cut off" : "followed by something else");
  }
  return h;
}

// The ranks that `ranked` gives, [layers][experts].
std::vector<std::int32_t> rank_table(const Profile& profile) {
  std::vector<std::int32_t> ranks(profile.geometry.pairs(), kUnranked);
  for (std::size_t i = 0; i < profile.ranked.size(); ++i) {
    const RankedExpert id = profile.ranked[i];
    ranks[profile.geometry.index(id.layer, id.expert)] = static_cast<std::int32_t>(i);
  }
  return ranks;
}

void check_pairs(const Profile& profile, std::string_view name) {
  std::vector<bool> seen(profile.geometry.pairs());
  for (std::size_t i = 0; i < profile.ranked.size(); ++i) {
    const RankedExpert id = profile.ranked[i];
    if (id.layer >= profile.geometry.layers || id.expert >= profile.geometry.experts) {
      fail(ErrorKind::kInput, "{}: rank {} is expert {} of layer {}, outside its {} layers x {}",
           name, i, id.expert, id.layer, profile.geometry.layers, profile.geometry.experts);
    }
    const std::size_t at = profile.geometry.index(id.layer, id.expert);
    if (seen[at]) {
      fail(ErrorKind::kInput, "{}: expert {} of layer {} is ranked twice, the second time {}", name,
           id.expert, id.layer, i);
    }
    seen[at] = true;
  }
}

void check_ranks(const Profile& profile, std::span<const std::byte> table, std::string_view name) {
  const std::vector<std::int32_t> expected = rank_table(profile);
  std::vector<std::int32_t> ranks(expected.size());
  std::memcpy(ranks.data(), table.data(), table.size());
  const auto [found, wanted] = std::mismatch(ranks.begin(), ranks.end(), expected.begin());
  if (found == ranks.end()) return;
  const auto at = found - ranks.begin();
  fail(ErrorKind::kInput,
       "{}: its table gives expert {} of layer {} the rank {}, its list {}: the file is damaged",
       name, at % profile.geometry.experts, at / profile.geometry.experts, *found, *wanted);
}

}  // namespace

Profile parse_profile(std::span<const std::byte> bytes, std::string_view name,
                      std::optional<ExpertGeometry> model) {
  const Header h = checked_header(bytes, name, model);
  Profile profile{{static_cast<std::int32_t>(h.layers), static_cast<std::int32_t>(h.experts)},
                  h.slots,
                  std::vector<RankedExpert>(h.ranked)};
  const std::size_t list = profile.ranked.size() * sizeof(RankedExpert);
  if (list > 0) std::memcpy(profile.ranked.data(), bytes.data() + sizeof h, list);
  check_pairs(profile, name);
  check_ranks(profile, bytes.subspan(sizeof h + list), name);
  return profile;
}

Profile read_profile(const std::filesystem::path& path, std::optional<ExpertGeometry> model) {
  const std::uint64_t pairs = model ? model->pairs() : kMaxPairs;
  // Twice what is right, so that "too long" is said by the check that knows the header.
  const std::string text = read_text_file(path, 2 * (sizeof(Header) + pairs * 8) + 65536);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  Profile profile = parse_profile(bytes, path.string(), model);
  profile.sha256 = sha256_hex(bytes);
  return profile;
}

std::vector<std::byte> serialise_profile(const Profile& profile) {
  const Header h{kMagic,
                 kVersion,
                 static_cast<std::uint32_t>(profile.geometry.layers),
                 static_cast<std::uint32_t>(profile.geometry.experts),
                 profile.slots,
                 static_cast<std::uint32_t>(profile.ranked.size())};
  const std::vector<std::int32_t> ranks = rank_table(profile);
  std::vector<std::byte> bytes;
  for (const auto part : {std::as_bytes(std::span(&h, 1)), std::as_bytes(std::span(profile.ranked)),
                          std::as_bytes(std::span(ranks))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

void write_profile(const std::filesystem::path& path, const Profile& profile) {
  write_atomically(path, serialise_profile(profile));
}

Profile profile_from_counts(std::span<const double> counts, ExpertGeometry geometry,
                            std::uint32_t slots) {
  assert(counts.size() == geometry.pairs());
  Profile profile{geometry, slots, {}};
  for (std::int32_t layer = 0; layer < geometry.layers; ++layer) {
    const auto row = counts.subspan(geometry.index(layer, 0), geometry.experts);
    if (std::all_of(row.begin(), row.end(), [](double count) { return count == 0; })) continue;
    for (std::int32_t expert = 0; expert < geometry.experts; ++expert) {
      profile.ranked.push_back(
          {static_cast<std::uint16_t>(layer), static_cast<std::uint16_t>(expert)});
    }
  }
  std::sort(profile.ranked.begin(), profile.ranked.end(), [&](RankedExpert a, RankedExpert b) {
    const double count_a = counts[geometry.index(a.layer, a.expert)];
    const double count_b = counts[geometry.index(b.layer, b.expert)];
    if (count_a != count_b) return count_a > count_b;
    if (a.expert != b.expert) return a.expert < b.expert;
    return a.layer < b.layer;
  });
  return profile;
}

}  // namespace strata::core
