#include "src/serve/api_error.hpp"

#include "strata/base/error.hpp"
#include "strata/serve/scheduler.hpp"

#include <new>

namespace strata::serve {

ApiError to_api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& e) {
    return e;
  } catch (const Refused& e) {
    ApiError api(e.shutting_down() ? 503 : 429, e.what(), {},
                 e.shutting_down() ? "shutting_down" : "queue_full");
    api.retry_after = e.retry_after();
    return api;
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::kUsage:
      case ErrorKind::kInput:
        return {400, e.what()};
      case ErrorKind::kResource:
        return {503, e.what()};
      default:
        return {500, e.what()};
    }
  } catch (const std::bad_alloc&) {
    return {503, "out of memory"};
  } catch (const std::exception& e) {
    return {500, e.what()};
  }
}

std::string error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace strata::serve
