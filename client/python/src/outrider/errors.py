"""Exceptions of failed calls, one class for each gRPC code that a verifier answers with."""

from __future__ import annotations

import grpc


class OutriderError(Exception):
    """A call failed. `code` is the gRPC code, `message` the server's or gRPC's own text."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, code: grpc.StatusCode | None = None) -> None:
        if code is not None:
            self.code = code
        self.message = message
        super().__init__(message, code)  # what pickle makes a copy from

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgument(OutriderError):
    """The request must change; the message names the field."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class OutOfRange(OutriderError):
    """The prompt, or the prompt and max_tokens together, exceed the model's context."""

    code = grpc.StatusCode.OUT_OF_RANGE


class ResourceExhausted(OutriderError):
    """The verifier has no room now. Retry later."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(OutriderError):
    """Nobody answers at the address, or the verifier is draining. Try another one."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(OutriderError):
    """The timeout was over before the end of the call."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class FailedPrecondition(OutriderError):
    """The verifier cannot serve this request in its present configuration."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Unauthenticated(OutriderError):
    """The verifier wants a token, and was given none or a wrong one."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(OutriderError):
    """The token or certificate does not allow this call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Cancelled(OutriderError):
    """The stream's `cancel` or the client's `close` was called, or the server cancelled."""

    code = grpc.StatusCode.CANCELLED


class Internal(OutriderError):
    """A bug of the server or of this client."""

    code = grpc.StatusCode.INTERNAL


_BY_CODE: dict[grpc.StatusCode, type[OutriderError]] = {
    kind.code: kind
    for kind in (InvalidArgument, OutOfRange, ResourceExhausted, Unavailable, DeadlineExceeded,
                 FailedPrecondition, Unauthenticated, PermissionDenied, Cancelled, Internal)
}


def from_rpc_error(error: grpc.RpcError) -> OutriderError:
    """The exception for a failed gRPC call. Codes without a class keep theirs in `code`."""
    code = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    message = (error.details() if hasattr(error, "details") else None) or str(error)
    return _BY_CODE.get(code, OutriderError)(message, code)
