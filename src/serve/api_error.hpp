// What a client is told when its request cannot be carried out, whichever API it speaks.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace strata::serve {

class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message),
        status(status),
        param(std::move(param)),
        code(std::move(code)) {}

  int status;           // of HTTP
  std::string param;    // the field that is wrong, "messages[0].role"; may be empty
  std::string code;     // "context_length_exceeded" and so on; may be empty
  int retry_after = 0;  // seconds, of 429 and 503
};

// A request that is wrong in one field.
template <class... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw ApiError(400, fmt::format(format, std::forward<Args>(args)...), param);
}

// The ApiError of anything that was thrown while a request was carried out. What is our own mistake
// becomes a 500 that says so.
[[nodiscard]] ApiError to_api_error(const std::exception_ptr& error);

// "invalid_request_error", "rate_limit_error" and so on, which both OpenAI's and Anthropic's
// clients know.
[[nodiscard]] std::string error_type(int status);

}  // namespace strata::serve
