#include "strata/text/tokenizer.hpp"

#include "src/text/bpe.hpp"
#include "src/text/byte_alphabet.hpp"
#include "src/text/special_tokens.hpp"
#include "src/text/spm.hpp"
#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <variant>

namespace strata::text {
namespace {

// Ids, ranks and byte offsets are 32 bits wide inside.
constexpr std::size_t kMaxTokens = std::size_t{1} << 28;
constexpr std::size_t kMaxText = (std::size_t{1} << 31) - 1;

// Tokens that end a generation whatever the file's eos is (converters often name only one of
// several).
constexpr std::string_view kEndTexts[] = {
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>",
    "<|calls|>", "<|flush|>", "<end_of_turn>", "<|end_of_text|>", "</s>", "<EOT>", "[EOT]", "[EOS]",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>", "[e~[",
    // Fill in the middle: padding, repository and file separators.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
    "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};

// gpt-oss and its kin end a message, not the answer, with <|end|>, and structure the answer with
// the others.
constexpr std::string_view kHarmonyVisible[] = {"<|end|>", "<|channel|>", "<|message|>",
                                                "<|start|>", "<|constrain|>"};

bool is_special(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

// "<0x0A>"
std::string byte_piece(const Vocab& vocab, std::size_t id) {
  const std::string& text = vocab.tokens[id];
  unsigned value = 0;
  if (text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
      std::from_chars(text.data() + 3, text.data() + 5, value, 16).ptr == text.data() + 5) {
    return std::string(1, static_cast<char>(value));
  }
  fail(ErrorKind::kInput,
       "tokenizer.ggml.tokens[{}] is '{}' and of type byte; expected '<0x00>' to '<0xFF>'", id,
       text);
}

std::string piece_of(const Vocab& vocab, std::size_t id) {
  const std::string& text = vocab.tokens[id];
  const TokenType type = vocab.type(id);
  if (type == TokenType::kControl || type == TokenType::kUnknown) return text;
  if (type == TokenType::kByte && (vocab.model == VocabModel::kSpm || text.starts_with("<0x"))) {
    return byte_piece(vocab, id);
  }
  if (vocab.model == VocabModel::kSpm) return spaces_restored(text);
  if (type == TokenType::kUserDefined) return text;
  return bytes_of_alphabet(text).value_or(text);
}

void check(const Vocab& vocab) {
  const std::size_t count = vocab.tokens.size();
  if (count == 0 || count > kMaxTokens || vocab.merges.size() > kMaxTokens) {
    fail(ErrorKind::kInput, "the vocabulary has {} tokens and {} merges; 1 to {} are possible",
         count, vocab.merges.size(), kMaxTokens);
  }
  if (!vocab.types.empty() && vocab.types.size() != count) {
    fail(ErrorKind::kInput, "the vocabulary has {} tokens but {} types", count, vocab.types.size());
  }
  if (vocab.model == VocabModel::kSpm && vocab.scores.size() != count) {
    fail(ErrorKind::kInput, "the vocabulary has {} tokens but {} scores", count,
         vocab.scores.size());
  }
}

Pieces build_pieces(const Vocab& vocab) {
  check(vocab);
  Pieces pieces;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) pieces.push_back(piece_of(vocab, id));
  return pieces;
}

SpecialTokens build_specials(const Vocab& vocab, const Pieces& pieces) {
  std::vector<SpecialTokens::Entry> entries;
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    const TokenType type = vocab.type(id);
    if (!is_special(type) || pieces[id].empty()) continue;
    entries.push_back(
        {std::string(pieces[id]), static_cast<std::int32_t>(id), type == TokenType::kUserDefined});
  }
  return SpecialTokens(std::move(entries));
}

template <class Texts>
bool contains(const Texts& texts, std::string_view text) {
  return std::find(std::begin(texts), std::end(texts), text) != std::end(texts);
}

}  // namespace

struct Tokenizer::Impl {
  struct Flags {
    bool control, visible, end;
  };

  Impl(const Vocab& vocab, const TokenizerOptions& options);

  Pieces pieces;
  std::variant<std::monostate, BpeEncoder, SpmEncoder> encoder;
  SpecialTokens specials;
  std::vector<Flags> flags;  // by id
  std::optional<std::int32_t> bos, eos;
  bool add_bos, add_eos;
  bool space_prefix;
  std::string pre;

  void mark_ends(const Vocab& vocab);
  void encode(std::string_view text, std::span<const ByteRange> trusted,
              std::vector<std::int32_t>& ids) const;
  std::vector<std::int32_t> encode(std::string_view text, std::span<const ByteRange> trusted,
                                   std::optional<bool> with_bos,
                                   std::optional<bool> with_eos) const;
  std::size_t checked(std::int32_t id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= pieces.size()) {
      fail(ErrorKind::kUsage, "token id {} is outside the vocabulary of {} tokens", id,
           pieces.size());
    }
    return static_cast<std::size_t>(id);
  }
};

Tokenizer::Impl::Impl(const Vocab& vocab, const TokenizerOptions& options)
    : pieces(build_pieces(vocab)),
      specials(build_specials(vocab, pieces)),
      bos(vocab.bos),
      eos(vocab.eos) {
  bool default_bos = true;
  if (vocab.model == VocabModel::kBpe) {
    const PreTokenizerRow& row = find_pretokenizer(vocab.pre);
    encoder.emplace<BpeEncoder>(vocab, pieces, row, options.nfc.value_or(row.nfc));
    default_bos = row.add_bos;
    space_prefix = false;
    pre = vocab.pre;
  } else {
    space_prefix = vocab.add_space_prefix.value_or(true);
    encoder.emplace<SpmEncoder>(vocab, pieces, space_prefix);
    pre = "spm";
  }
  add_bos = vocab.add_bos.value_or(default_bos && bos);
  add_eos = vocab.add_eos.value_or(false);
  if ((add_bos && !bos) || (add_eos && !eos)) {
    const std::string_view name = add_bos && !bos ? "bos" : "eos";
    fail(ErrorKind::kInput,
         "tokenizer.ggml.add_{}_token is true but tokenizer.ggml.{}_token_id is missing", name,
         name);
  }
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const TokenType type = vocab.type(id);
    const bool control = type == TokenType::kControl || type == TokenType::kUnknown;
    flags.push_back({control, !control, is_special(type) && contains(kEndTexts, pieces[id])});
  }
  mark_ends(vocab);
}

void Tokenizer::Impl::mark_ends(const Vocab& vocab) {
  const auto flag = [&](std::string_view text) -> Flags* {
    const auto id = specials.find(text);
    return id ? &flags[static_cast<std::size_t>(*id)] : nullptr;
  };
  const bool gpt_oss = flag("<|return|>") != nullptr && flag("<|call|>") != nullptr;
  const bool solar = flag("<|flush|>") != nullptr && flag("<|calls|>") != nullptr;
  if (Flags* end = flag("<|end|>"); end != nullptr && (gpt_oss || solar)) end->end = false;
  for (const std::string_view text : kHarmonyVisible) {
    if (Flags* visible = flag(text); visible != nullptr && gpt_oss) visible->visible = true;
  }
  for (const auto& id : {vocab.eos, vocab.eot, vocab.eom}) {
    if (id) flags[checked(*id)].end = true;
  }
  for (const std::int32_t id : vocab.fim_ends) flags[checked(id)].end = true;
}

void Tokenizer::Impl::encode(std::string_view text, std::span<const ByteRange> trusted,
                             std::vector<std::int32_t>& ids) const {
  const auto encode_plain = [&](std::string_view plain) {
    if (const auto* bpe = std::get_if<BpeEncoder>(&encoder)) {
      bpe->encode(plain, ids);
    } else {
      std::get<SpmEncoder>(encoder).encode(plain, ids);
    }
  };
  std::size_t done = 0;
  for (const SpecialTokens::Found& found : specials.find_all(text, trusted)) {
    encode_plain(text.substr(done, found.begin - done));
    ids.push_back(found.id);
    done = found.begin + found.size;
  }
  encode_plain(text.substr(done));
}

std::vector<std::int32_t> Tokenizer::Impl::encode(std::string_view text,
                                                  std::span<const ByteRange> trusted,
                                                  std::optional<bool> with_bos,
                                                  std::optional<bool> with_eos) const {
  if (text.size() > kMaxText) {
    fail(ErrorKind::kUsage, "a text of {} bytes; at most {} can be encoded at once", text.size(),
         kMaxText);
  }
  const bool bos_first = with_bos.value_or(add_bos);
  const bool eos_last = with_eos.value_or(add_eos);
  if ((bos_first && !bos) || (eos_last && !eos)) {
    fail(ErrorKind::kUsage, "this model's vocabulary names no {} token to add",
         bos_first && !bos ? "BOS" : "EOS");
  }
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (bos_first) ids.push_back(*bos);
  encode(text, trusted, ids);
  if (bos_first && ids.size() > 1 && ids[1] == *bos) ids.erase(ids.begin());
  if (eos_last) ids.push_back(*eos);
  return ids;
}

Tokenizer Tokenizer::from_gguf(const gguf::File& file, const TokenizerOptions& options) {
  const Vocab vocab = vocab_from_gguf(file);
  try {
    return Tokenizer(vocab, options);
  } catch (const Error& error) {
    fail(error.kind(), "{}: {}", file.path().string(), error.what());
  }
}

Tokenizer::Tokenizer(const Vocab& vocab, const TokenizerOptions& options)
    : impl_(std::make_unique<const Impl>(vocab, options)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  const ByteRange all{0, text.size()};
  const std::span<const ByteRange> trusted(&all, options.parse_special ? 1 : 0);
  return impl_->encode(text, trusted, options.add_bos, options.add_eos);
}

std::vector<std::int32_t> Tokenizer::encode(std::span<const Segment> segments,
                                            std::optional<bool> add_bos,
                                            std::optional<bool> add_eos) const {
  std::string text;
  std::vector<ByteRange> trusted;
  for (const Segment& segment : segments) {
    const std::size_t begin = text.size();
    text += segment.text;
    if (!segment.parse_special || segment.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return impl_->encode(text, trusted, add_bos, add_eos);
}

std::string_view Tokenizer::piece(std::int32_t id) const {
  return impl_->pieces[impl_->checked(id)];
}

std::optional<std::int32_t> Tokenizer::find(std::string_view text) const {
  if (const auto id = impl_->specials.find(text)) return id;
  const auto* bpe = std::get_if<BpeEncoder>(&impl_->encoder);
  const std::int32_t id =
      bpe != nullptr ? bpe->find(text) : std::get<SpmEncoder>(impl_->encoder).find(text);
  return id == TokenIndex::kMissing ? std::nullopt : std::optional(id);
}

bool Tokenizer::is_control(std::int32_t id) const {
  return impl_->flags[impl_->checked(id)].control;
}
bool Tokenizer::is_visible(std::int32_t id) const {
  return impl_->flags[impl_->checked(id)].visible;
}
bool Tokenizer::is_end(std::int32_t id) const { return impl_->flags[impl_->checked(id)].end; }
std::optional<std::int32_t> Tokenizer::bos() const noexcept { return impl_->bos; }
std::optional<std::int32_t> Tokenizer::eos() const noexcept { return impl_->eos; }
bool Tokenizer::adds_bos() const noexcept { return impl_->add_bos; }
bool Tokenizer::adds_eos() const noexcept { return impl_->add_eos; }
bool Tokenizer::adds_space_prefix() const noexcept { return impl_->space_prefix; }
std::int32_t Tokenizer::vocab_size() const noexcept {
  return static_cast<std::int32_t>(impl_->pieces.size());
}
std::string_view Tokenizer::pre() const noexcept { return impl_->pre; }

}  // namespace strata::text
