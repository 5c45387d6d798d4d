"""Check that Spark finds the source by its name, and that wrong options are refused in `load()`."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import pyspark_rocketmq
from pyspark_rocketmq.datasource import RocketMQDataSource
from pyspark_rocketmq.errors import OptionError

GIVEN = {"nameserver": "localhost:9876", "subscribe": "orders"}
BODY = StructType([StructField("body", BinaryType())])


def test_the_package_offers_itself_to_spark() -> None:
    """The package exports the data source class, whose name is `rocketmq`."""
    assert pyspark_rocketmq.DefaultSource is RocketMQDataSource
    assert pyspark_rocketmq.DefaultSource.name() == "rocketmq"


def test_finding_the_source_imports_nothing_heavy() -> None:
    """Making the source and its schema imports no heavy module, since Spark does so in five processes."""
    heavy = "pyarrow", "numpy", "pandas", "grpc", "google.protobuf", "pyspark_rocketmq.cluster.cluster"
    code = (
        "import sys, pyspark.sql.datasource, pyspark.sql.types; before = set(sys.modules)\n"
        "import pyspark_rocketmq; pyspark_rocketmq.DefaultSource({'nameserver': 'a:1', 'subscribe': 't'}).schema()\n"
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_package_alone_does_not_even_need_spark() -> None:
    """Importing the package does not import pyspark, which therefore need not be installed."""
    code = "import sys, pyspark_rocketmq; print('pyspark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nameserver": "http://x:1"}, "[OPTION_VALUE] nameServer = 'http://x:1'"),
        ({"maxoffsetspertrigger": "0"}, "[OPTION_VALUE] maxOffsetsPerTrigger = '0'"),
        ({"startingoffsets": '{"orders":{"0":5}}'}, "name the broker"),
        ({"startingoffsets": '{"orders":{"b":{"0":-7}}}'}, "startingOffsets"),
        ({"startingoffsets": '{"orders":{"b":{"0":1.5}}}'}, "startingOffsets"),
        ({"startingoffsets": '{"orders":{"b":{"0":1,"0":2}}}'}, "startingOffsets"),
        ({"subscibe": "x"}, "did you mean"),
    ],
)
def test_wrong_options_are_refused_when_the_source_is_made(given: dict[str, str], said: str) -> None:
    """Wrong options fail the constructor, which Spark calls inside `load()`, where the user sees the error."""
    with pytest.raises(OptionError) as refused:
        RocketMQDataSource({**GIVEN, **given})
    assert said in str(refused.value)


def test_nothing_to_read_is_refused_by_the_schema_and_by_the_readers() -> None:
    """If no option names topics, the schema is refused, and so are both readers."""
    source = RocketMQDataSource({"nameserver": "localhost:9876"})
    for ask in (source.schema, lambda: source.reader(BODY), lambda: source.streamReader(BODY)):
        with pytest.raises(OptionError, match="exactly one of subscribe, subscribePattern and assign"):
            ask()


def test_two_choices_of_columns_must_agree() -> None:
    """If the option `columns` and the user's schema name different columns, the reader is refused."""
    source = RocketMQDataSource({**GIVEN, "columns": "body,topic"})
    with pytest.raises(OptionError, match=r"columns = 'body,topic': differs from the schema that was given \(body\)"):
        source.reader(BODY)
    assert source.reader(source.schema())


def test_options_of_the_other_use_are_refused_by_the_reader() -> None:
    """If a streaming read has an option of batch reads, the reader is refused."""
    with pytest.raises(OptionError, match="OPTION_SCOPE"):
        RocketMQDataSource({**GIVEN, "endingoffsets": "latest"}).streamReader(BODY)


def test_readers_travel() -> None:
    """Readers can be pickled before they are used, with the same options in the copy."""
    source = RocketMQDataSource(GIVEN)
    readers: list[Any] = [source.reader(BODY), source.streamReader(BODY)]
    for reader in readers:
        copy = pickle.loads(pickle.dumps(reader))
        assert type(copy) is type(reader) and copy.options == reader.options
