"""Logs as JSON, one line an event; secrets are hidden by the names of their values, and inside addresses and headers."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

_HIDDEN = ("secret", "password", "token", "ticket", "session_key", "activation", "authorization", "code", "seed")
_PLAIN = frozenset({"event", "level", "timestamp", "logger", "status_code", "exit_code", "finding_code"})
"""Names that hold no secret, though they sound like it."""
_SHOWN = "(hidden)"
_INSIDE = (
    (re.compile(r"(?P<keep>[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s@/]+(?=@)", re.IGNORECASE), rf"\g<keep>{_SHOWN}"),
    (re.compile(r"(?P<keep>\b(?:bearer|token)\s+)[A-Za-z0-9._~+/=-]{16,}", re.IGNORECASE), rf"\g<keep>{_SHOWN}"),
    (
        re.compile(r"(?P<keep>[?&](?:code|token|ticket|password|secret)=)[^&\s\"']+", re.IGNORECASE),
        rf"\g<keep>{_SHOWN}",
    ),
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), _SHOWN),
)
"""Passwords in URLs, tokens in headers, codes in queries, private keys in PEM."""


def hide_secrets(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace values whose names say that they are secret, however deep, and secrets that texts carry."""
    for name in event:
        event[name] = _hidden(name, event[name])
    return event


def _hidden(name: str, value: Any) -> Any:
    if name not in _PLAIN and any(part in name.lower() for part in _HIDDEN):
        return _SHOWN
    if isinstance(value, str):
        for pattern, instead in _INSIDE:
            value = pattern.sub(instead, value)
        return value
    if isinstance(value, Mapping):
        return {str(key): _hidden(str(key), inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden("", inner) for inner in value]
    return value


def log_as_json(level: str) -> None:
    """Send all logs to standard error as JSON lines, from this level on; those of libraries too."""
    number = logging.getLevelNamesMapping()[level.upper()]
    stamped: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    ending: list[structlog.typing.Processor] = [
        structlog.processors.format_exc_info,
        hide_secrets,
        structlog.processors.JSONRenderer(default=str),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*stamped, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    logging.basicConfig(handlers=[handler], level=number, force=True)
    structlog.configure(
        processors=[*stamped, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
