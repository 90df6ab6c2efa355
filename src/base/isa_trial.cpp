// Trial runs of instruction sets. CPUID is a promise of several parties, the processor, the
// hypervisor and the kernel, and machines exist where one of them does not keep it.
//
// The trial runs in a child process rather than under a SIGILL handler of our own: a handler is
// shared by all threads and may belong to the program that uses this library, jumping out of one
// leaves the signal mask and the tile state to repair, and an emulator may answer with another
// signal or not at all. A child can do no harm.
#include "src/base/isa_checks.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace strata {
namespace {

constexpr int kWrongResult = 1;
constexpr int kSignalled = 64;  // + the signal's number
constexpr unsigned kSecondsAllowed = 5;

void exit_on_signal(int signal) { ::_exit(kSignalled + signal); }

// In the child, which may be a copy of one thread of many: nothing but system calls and the trial.
[[noreturn]] void child_main(bool (*trial)()) {
  struct sigaction action {};
  action.sa_handler = exit_on_signal;  // an ordinary exit: no core dump
  for (const int fault : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGALRM}) {
    ::sigaction(fault, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::alarm(kSecondsAllowed);
  ::_exit(trial() ? 0 : kWrongResult);
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("a trial run was killed by signal {}", WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  switch (code) {
    case 0:
      return "";
    case kWrongResult:
      return "a trial run gave a wrong result";
    case kSignalled + SIGILL:
      return "a trial run met an illegal instruction, though CPUID announces the set";
    case kSignalled + SIGALRM:
      return "a trial run did not end";
    default:
      return fmt::format("a trial run ended with signal {}", code - kSignalled);
  }
}

#if defined(__x86_64__)

// Inputs the compiler cannot see through, so that the instructions are really executed.
template <class T>
T opaque(T value) {
  volatile T hidden = value;
  return hidden;
}

template <std::size_t lanes_count>
bool all_equal(const std::int32_t (&lanes)[lanes_count], std::int32_t expected) {
  for (const std::int32_t lane : lanes) {
    if (lane != expected) return false;
  }
  return true;
}

[[gnu::target("avx2,fma,f16c,bmi2")]] bool trial_avx2() {
  const __m256i ones = _mm256_set1_epi8(opaque<char>(1));
  const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(ones, ones), _mm256_set1_epi16(1));
  const __m256 halves = _mm256_cvtph_ps(_mm_set1_epi16(opaque<short>(0x4200)));    // 3.0
  const __m256 value = _mm256_fmadd_ps(halves, _mm256_cvtepi32_ps(sums), halves);  // 3 * 4 + 3
  alignas(32) std::int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_cvtps_epi32(value));
  return all_equal(lanes, 15) && _pdep_u32(opaque(5U), 0xF0U) == 0x50U;
}

[[gnu::target("avx2,avxvnni")]] bool trial_avxvnni() {
  const __m256i threes = _mm256_set1_epi8(opaque<char>(3));
  const __m256i minus = _mm256_set1_epi8(opaque<char>(-2));
  const __m256i value = _mm256_dpbusd_avx_epi32(_mm256_set1_epi32(1), threes, minus);
  alignas(32) std::int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), value);
  return all_equal(lanes, 1 - 4 * 6);
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]] bool trial_avx512() {
  const __m512i threes = _mm512_set1_epi8(opaque<char>(3));
  const __m512i minus = _mm512_set1_epi8(opaque<char>(-2));
  const __m512i dots = _mm512_dpbusd_epi32(_mm512_setzero_si512(), threes, minus);  // VNNI: -24
  const __m512i pairs = _mm512_madd_epi16(dots, dots);  // BW: 24 * 24 + 1, of the halves -24, -1
  const __m512i squares =
      _mm512_mullo_epi64(_mm512_set1_epi64(opaque<std::int64_t>(5)), pairs);    // DQ
  const __mmask8 equal = _mm256_cmpeq_epi32_mask(_mm256_set1_epi32(opaque(7)),  // VL
                                                 _mm256_set1_epi32(7));
  alignas(64) std::int32_t lanes[16];
  _mm512_store_si512(lanes, squares);
  return equal == 0xFF && all_equal(lanes, 5 * 577);
}

[[gnu::target("amx-tile,amx-int8")]] bool trial_amx() {
  constexpr int kRows = 16;
  constexpr int kRowBytes = 64;
  // Intel SDM volume 2A, LDTILECFG: palette 1, bytes a row from byte 16 on, rows from byte 48 on.
  alignas(64) std::uint8_t config[64] = {1};
  for (int tile = 0; tile < 3; ++tile) {
    config[16 + 2 * tile] = kRowBytes;
    config[48 + tile] = kRows;
  }
  alignas(64) std::int8_t a[kRows][kRowBytes];
  alignas(64) std::uint8_t b[kRows][kRowBytes];
  alignas(64) std::int32_t c[kRows][kRowBytes / 4];
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kRowBytes; ++i) {
      a[row][i] = static_cast<std::int8_t>(row - 8);
      b[row][i] = static_cast<std::uint8_t>(200 + i / 4);
    }
    for (std::int32_t& value : c[row]) value = row;
  }
  asm volatile("" ::: "memory");  // GCC does not know that the tile loads read these arrays
  _tile_loadconfig(config);
  _tile_loadd(0, c, kRowBytes);
  _tile_loadd(1, a, kRowBytes);
  _tile_loadd(2, b, kRowBytes);
  _tile_dpbsud(0, 1, 2);
  _tile_stored(0, c, kRowBytes);
  _tile_release();
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kRowBytes / 4; ++column) {
      if (c[row][column] != row + (row - 8) * (200 + column) * kRowBytes) return false;
    }
  }
  return true;
}

bool (*trial_of(Isa isa))() {
  switch (isa) {
    case Isa::kAvx2:
      return trial_avx2;
    case Isa::kAvxVnni:
      return trial_avxvnni;
    case Isa::kAvx512:
      return trial_avx512;
    case Isa::kAmx:
      return trial_amx;
    case Isa::kGeneric:
      break;
  }
  return nullptr;
}

#endif

}  // namespace

std::string run_in_child(bool (*trial)()) {
  // clone rather than fork: without an exit signal the program's own SIGCHLD handling and wait()
  // calls never see this child.
  const long pid = ::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, 0UL);
  if (pid == 0) child_main(trial);
  if (pid < 0)
    return fmt::format("cannot start a process for a trial run: {}", std::strerror(errno));
  int status = 0;
  while (::waitpid(static_cast<pid_t>(pid), &status, __WALL) < 0) {
    if (errno != EINTR) return fmt::format("lost the trial run: {}", std::strerror(errno));
  }
  return describe_end(status);
}

#if defined(__x86_64__)

std::string request_amx_permission() {
  constexpr long kReqXcompPerm = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, Linux 5.16
  constexpr long kTileData = 18;          // XFEATURE_XTILEDATA
  if (::syscall(SYS_arch_prctl, kReqXcompPerm, kTileData) == 0) return "";
  return fmt::format("the operating system refused the AMX tile registers: {}",
                     std::strerror(errno));
}

std::string try_isa(Isa isa) {
  bool (*const trial)() = trial_of(isa);
  return trial == nullptr ? "" : run_in_child(trial);
}

#else

std::string request_amx_permission() { return "not an x86-64 processor"; }
std::string try_isa(Isa isa) { return isa == Isa::kGeneric ? "" : "not an x86-64 processor"; }

#endif

}  // namespace strata
