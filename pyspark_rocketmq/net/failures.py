"""With which error does a request end that gets no answer?

An error that ends a connection ends all its requests: each of them raises an own copy, which names the request.
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
    """RocketMQ's name of a request code, or the number if it has none."""
    try:
        return RequestCode(code).name
    except ValueError:
        return str(code)


def name_requests(codes: Iterable[int]) -> str:
    """The kinds of several requests, each named once."""
    return ", ".join(sorted({request_name(code) for code in codes}))


def for_requests(error: E, codes: Iterable[int]) -> E:
    """A copy of the error that ended a connection, naming the requests it is raised for."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return _name(twin, codes)


def timed_out(address: object, codes: Iterable[int], deadline: Deadline, unsent_bytes: int) -> RequestTimeout:
    """The error of requests whose deadline has passed; bytes still unsent tell of a server that does not read."""
    unsent = f", the server has yet to take {unsent_bytes} bytes from us" if unsent_bytes else ""
    error = RequestTimeout(
        f"no answer within {deadline.seconds:g} s{unsent}",
        advice="the request may have been carried out all the same; a slow server needs a longer time-out",
        address=str(address),
    )
    return _name(error, codes)


def _name(error: E, codes: Iterable[int]) -> E:
    names = name_requests(codes)
    return error.locate(request=names) if names else error
