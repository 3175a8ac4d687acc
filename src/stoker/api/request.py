"""The base of the messages that ask something of the daemon."""

from msgspec import Struct


class Request(Struct, tag_field="op", forbid_unknown_fields=True, kw_only=True):
    """The base of every request; its tag is the `op`."""
