"""Test operations on the texts of many rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.encode.arrays import LARGE, hash_texts, java_hashes
from pyspark_rocketmq.wire.properties import java_hash
from tests.encode.readable import hash_text

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=20)


@given(TEXTS, st.integers(0, 3))
def test_keys_hash_as_in_java(texts: list[str], hidden: int) -> None:
    """`java_hashes` returns Java's hash codes, also for a slice of an array."""
    keys = pa.array([text.encode() for text in texts], LARGE).slice(hidden)
    assert java_hashes(keys).tolist() == [java_hash(text) for text in texts[hidden:]]


@given(st.lists(st.none() | st.binary(max_size=30), max_size=20), st.integers(1, 4))
def test_texts_hash_as_the_readable_function_says(texts: list[bytes | None], stream: int) -> None:
    """`hash_texts` returns the hash of each text, and takes null for an empty one."""
    assert hash_texts(pa.array(texts, LARGE), stream).tolist() == [hash_text(text or b"", stream) for text in texts]


def test_long_texts_are_hashed_in_portions() -> None:
    """The hash of a text does not depend on the texts beside it, whatever their sizes."""
    texts = [b"a" * size for size in (300_000, 5, 0, 262_144, 262_136, 7)] * 2
    together = hash_texts(pa.array(texts, LARGE), 1)
    alone = [int(hash_texts(pa.array([text], LARGE), 1)[0]) for text in texts]
    assert together.tolist() == alone


def test_similar_texts_have_different_hashes() -> None:
    """Texts that differ in one byte, in one bit, in length or in order have different hashes."""
    random = np.random.default_rng(3)
    words = [random.bytes(64) for _ in range(50)]
    places = [(word, at, bit) for word in words for at in range(64) for bit in (0, 7)]
    near = {bytes([*word[:at], word[at] ^ 1 << bit, *word[at + 1 :]]) for word, at, bit in places}
    padded = {b"\0" * size for size in range(200)}
    swapped = {word[8:16] + word[:8] + word[16:] for word in words}
    texts = [*near, *padded, *swapped, *words]
    assert len(set(hash_texts(pa.array(texts, LARGE), 1).tolist())) == len(texts)
