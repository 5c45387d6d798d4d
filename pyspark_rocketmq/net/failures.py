"""Make the errors of requests that get no response.

An error that ends a connection ends all its requests. Each of them raises its own copy, which names the request.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TypeVar

from ..errors import RequestTimeout, RocketMQError
from ..wire.codes import RequestCode
from .deadline import Deadline

E = TypeVar("E", bound=RocketMQError)


def request_name(code: int) -> str:
    """Return RocketMQ's name of a request code, or the number if it has none."""
    try:
        return RequestCode(code).name
    except ValueError:
        return str(code)


def name_requests(codes: Iterable[int]) -> str:
    """Return the names of request codes as text, sorted and without repetition."""
    return ", ".join(sorted({request_name(code) for code in codes}))


def for_requests(error: E, codes: Iterable[int]) -> E:
    """Return a copy of the error that ended a connection; the copy names the requests with these codes."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return _name(twin, codes)


def timed_out(address: object, codes: Iterable[int], deadline: Deadline, unsent_bytes: int) -> RequestTimeout:
    """Return the error of requests whose deadline has passed.

    If `unsent_bytes` is above 0, the text says that the server has not accepted this number of bytes.
    """
    unsent = f", the server has yet to take {unsent_bytes} bytes from us" if unsent_bytes else ""
    error = RequestTimeout(
        f"no answer within {deadline.seconds:g} s{unsent}",
        advice="the request may have been carried out; if the server is slow, raise the timeout",
        address=str(address),
    )
    return _name(error, codes)


def _name(error: E, codes: Iterable[int]) -> E:
    names = name_requests(codes)
    return error.locate(request=names) if names else error
