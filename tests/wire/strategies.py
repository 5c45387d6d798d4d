"""Generate records, bodies and frames as Hypothesis strategies.

`records`, `responses`, `batches` and `commands` generate legal values, including rare ones; `damaged` generates bytes
that were legal before they were changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

from hypothesis import strategies as st

from pyspark_rocketmq.model import Address
from pyspark_rocketmq.wire.batch import BatchEntry, encode_batch
from pyspark_rocketmq.wire.codes import LanguageCode, SysFlag, TransactionState
from pyspark_rocketmq.wire.compression import Compression, compress
from pyspark_rocketmq.wire.header import Command, HeaderType
from pyspark_rocketmq.wire.properties import join_properties
from pyspark_rocketmq.wire.record import MAGIC_V1, MAGIC_V2, Record, decode_record, encode_record

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
offsets = st.integers(0, 2**62)
timestamps = st.integers(0, 2**42)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
"""Any text that UTF-8 can hold, control characters included."""

clean_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20).filter(
    str.strip
)
"""Texts that may be sent as a property's name or value."""

clean_properties = st.dictionaries(clean_texts, clean_texts, max_size=8)

property_texts = st.one_of(
    clean_properties.map(join_properties),
    clean_properties.map(lambda properties: join_properties(properties).removesuffix("\x02")),
    st.text(st.sampled_from("\x01\x02ab🚀"), max_size=30),
)
"""Property texts: some end with a separator, some do not, and some have separators anywhere."""

topics = st.one_of(
    st.text("abcXYZ019-_%|", min_size=1, max_size=30),
    st.text("abcXYZ019-_%|", min_size=120, max_size=140),
    texts,
)

bodies = st.one_of(
    st.binary(max_size=40), st.binary(max_size=20).map(lambda data: data * 20), st.just(b""), st.just(bytes(5000))
)


@st.composite
def hosts(draw: st.DrawFn, *, ipv6: bool) -> Address:
    """Draw a host address that is IPv6 or IPv4."""
    ip = draw(st.integers(0, 2 ** (128 if ipv6 else 32) - 1))
    return Address(str(IPv6Address(ip) if ipv6 else IPv4Address(ip)), draw(st.integers(0, 65535)))


batch_entries = st.builds(BatchEntry, bodies, property_texts.map(str.encode), int32)
batches = st.lists(batch_entries, max_size=3)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Draw a record as a broker stores it: plain, compressed, or an inner batch."""
    born_v6, store_v6 = draw(st.booleans()), draw(st.booleans())
    body, body_flags = draw(st.one_of(_plain_bodies, _packed_bodies, _inner_batches))
    family = born_v6 * SysFlag.BORN_HOST_V6 | store_v6 * SysFlag.STORE_HOST_V6
    made = Record(
        topic=draw(topics),
        queue_id=draw(int32),
        queue_offset=draw(offsets),
        physical_offset=draw(offsets),
        born_timestamp=draw(timestamps),
        born_host=draw(hosts(ipv6=born_v6)),
        store_timestamp=draw(timestamps),
        store_host=draw(hosts(ipv6=store_v6)),
        body=body,
        properties_text=draw(property_texts).encode(),
        flag=draw(int32),
        sys_flag=body_flags | family | draw(st.sampled_from(TransactionState)),
        reconsume_times=draw(int32),
        prepared_transaction_offset=draw(int64),
        magic=draw(st.sampled_from((MAGIC_V1, MAGIC_V2))),
    )
    return decode_record(encode_record(made))[0]


_plain_bodies = st.tuples(bodies, st.sampled_from((0, SysFlag.MULTI_TAGS, 0x300)))
_packed_bodies = st.builds(
    lambda body, kind: (compress(body, kind), kind.sys_flag), bodies, st.sampled_from(Compression)
)
_inner_batches = batches.filter(bool).map(
    lambda entries: (encode_batch(entries), SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
)


responses = st.lists(records(), max_size=3)
"""The records of one response to a pull."""


def join_records(found: Sequence[Record]) -> bytes:
    """Return the body of a response that consists of these records."""
    return b"".join(map(encode_record, found))


@st.composite
def commands(draw: st.DrawFn, header_type: HeaderType | None = None) -> Command:
    """Draw a request or response that can be encoded in its header form and decoded to an equal command."""
    kind = draw(st.sampled_from(HeaderType)) if header_type is None else header_type
    is_json = kind is HeaderType.JSON
    fields = draw(st.none() | st.dictionaries(texts, texts, min_size=not is_json, max_size=6))
    remark = draw(st.none() | st.text(st.characters(codec="utf-8"), min_size=not is_json, max_size=30))
    return Command(
        code=draw(int32 if is_json else int16),
        opaque=draw(int32),
        fields=fields,
        body=draw(bodies),
        remark=remark,
        flag=draw(int32),
        language=draw(st.sampled_from(LanguageCode)),
        version=draw(int32 if is_json else int16),
        header_type=kind,
    )


@st.composite
def damaged(draw: st.DrawFn, healthy: st.SearchStrategy[bytes]) -> bytes:
    """Draw legal bytes of which a few were changed, dropped, repeated or inserted."""
    data = bytearray(draw(healthy))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        end = at + draw(st.integers(0, 9))
        data[at:end] = draw(st.one_of(st.binary(max_size=9), st.just(bytes(data[at:end] * 2)), _hostile_lengths))
    return bytes(data)


_hostile_lengths = st.sampled_from((0, 1, 0x7F, 0x7FFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)).map(
    lambda n: n.to_bytes(4, "big")
)


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Draw the pieces of a byte string that was cut at any places."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
