// Any bytes as a routing trace: refused with an Error, or a trace whose events cover them exactly.
#include "strata/base/error.hpp"
#include "strata/core/trace.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    strata::core::TraceReader reader("/proc/self/fd/" + std::to_string(fd));
    std::uint64_t bytes = 0;
    for (strata::core::RoutingEvent event; reader.next(event);) {
      bytes += 8 + 8 * event.experts.size();
      if (event.token < 0 || event.experts.size() != event.weights.size()) std::abort();
    }
    if (bytes != size || reader.offset() != size) std::abort();
  } catch (const strata::Error&) {
  }
  ::close(fd);
  return 0;
}
