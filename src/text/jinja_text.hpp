// Text that knows, for every byte, whether the template wrote it (trusted) or a variable brought it
// in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::jinja {

// Valid UTF-8 below 4 GiB, with its provenance. Operations keep the provenance of every byte they
// copy.
class Text {
 public:
  Text() = default;
  Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)), first_trusted_(trusted) {}

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] bool fully_trusted() const {
    return flips_.empty() && (first_trusted_ || bytes_.empty());
  }
  // Memory held beyond the object itself.
  [[nodiscard]] std::size_t footprint() const {
    return bytes_.capacity() + flips_.capacity() * sizeof(std::uint32_t);
  }

  // Bytes [begin, end); both must be starts of code points or the size.
  [[nodiscard]] Text slice(std::size_t begin, std::size_t end) const;

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other) { append(other, 0, other.size()); }
  void append(const Text& other, std::size_t begin, std::size_t end);

  // Calls visit(bytes, trusted) for each maximal run of one provenance in bytes [begin, end).
  template <class Visit>
  void for_each_run(std::size_t begin, std::size_t end, const Visit& visit) const {
    std::size_t run = first_flip_after(begin);
    bool trusted = first_trusted_ != (run % 2 == 1);
    while (begin < end) {
      const std::size_t stop = run < flips_.size() && flips_[run] < end ? flips_[run] : end;
      visit(std::string_view(bytes_).substr(begin, stop - begin), trusted);
      begin = stop;
      trusted = !trusted;
      ++run;
    }
  }

 private:
  // The number of flips at or before byte `at`.
  [[nodiscard]] std::size_t first_flip_after(std::size_t at) const;
  [[nodiscard]] bool last_trusted() const { return first_trusted_ != (flips_.size() % 2 == 1); }

  std::string bytes_;
  bool first_trusted_ = true;  // of byte 0
  std::vector<std::uint32_t>
      flips_;  // ascending byte offsets, none 0, where the provenance changes
};

}  // namespace strata::text::jinja
