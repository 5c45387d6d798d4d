"""Build the settings of the rooms below from the given options, by one function for each settings class.

`conflicts` has checked the options before, so they do not contradict each other here.
"""

from __future__ import annotations

from ..allocation import AllocationSettings
from ..cluster.credentials_file import CredentialsFile
from ..cluster.names import READER_GROUP, Namespace
from ..cluster.routes import AddressMap
from ..cluster.settings import ClusterSettings
from ..cluster.signing import Credentials
from ..decode.columns import MOST_BODY_BYTES, Content, default_columns
from ..encode.settings import EncodeSettings
from ..model import MessageModel, retry_topic
from ..net.backoff import Backoff
from ..net.settings import NetSettings, TlsSettings
from ..offsets.requested import EndSettings, Keyword, StartSettings
from ..planning.admission import Limits
from ..planning.ranges import PlanSettings
from ..pull.process_queue import FlowLimits
from ..pull.settings import PullSettings, Subscription
from ..send.settings import SendSettings
from .given import GivenOptions
from .reader_options import (
    ClientName,
    CommitSettings,
    HelperOptions,
    LocalSettings,
    LockSettings,
    ReaderOptions,
    Selection,
    ShareSettings,
)
from .table import addressing, batching, grouping, pulling, row_format, security, selection, start_and_stop, writing
from .writer_options import QueueChoice, WriterOptions

__all__ = [
    "broadcasts",
    "build_helper",
    "build_reader",
    "build_writer",
    "chosen_columns",
    "commits",
    "largest_body",
    "locks",
    "shares",
]

_LONGEST_PAUSE_S = 30.0
_RETRIES = 3
_HEADER_BYTES = 64 * 1024
"""Room in a frame for the header of a send, with the properties of the message."""
_UNPACKED_FRAMES = 4
"""Limit of an uncompressed message body, in multiples of the largest frame."""


def build_reader(given: GivenOptions) -> ReaderOptions:
    """Return all settings of a reader, from the given options."""
    return ReaderOptions(
        cluster=_build_cluster(given),
        selection=_build_selection(given),
        start=_build_start(given),
        end=_build_end(given),
        fail_on_data_loss=given.get(start_and_stop.FAIL_ON_DATA_LOSS),
        limits=_build_limits(given),
        plan=_build_plan(given),
        queue_lists=() if shares(given) else given.maybe(batching.QUEUE_LISTS) or (),
        pull=_build_pull(given),
        rows_per_batch=given.get(pulling.ARROW_BATCH_SIZE),
        columns=chosen_columns(given),
        content=_build_content(given),
        commit=_build_commit(given),
        local=_build_local(given),
        locks=_build_locks(given),
        share=_build_share(given) if shares(given) else None,
        client=ClientName(given.maybe(addressing.INSTANCE_NAME), given.maybe(addressing.UNIT_NAME) or ""),
        wait_for_brokers_s=None if given.gave(start_and_stop.RETRIES) else given.get(pulling.POLL_TIMEOUT),
    )


def build_helper(given: GivenOptions) -> HelperOptions:
    """Return all settings of a helper function, from the given options."""
    return HelperOptions(
        cluster=_build_cluster(given),
        group=given.maybe(grouping.CONSUMER_GROUP),
        max_reconsume_times=given.get(grouping.MAX_RECONSUME_TIMES),
        delay_level=given.get(grouping.DELAY_LEVEL),
        dead_letter_topic=given.maybe(writing.DEAD_LETTER_TOPIC),
    )


def build_writer(given: GivenOptions) -> WriterOptions:
    """Return all settings of a writer, from the given options."""
    return WriterOptions(
        cluster=_build_cluster(given),
        send=_build_send(given),
        encode=_build_encode(given),
        queue_selector=given.get(writing.QUEUE_SELECTOR),
        on_bad_row=given.get(writing.ON_BAD_ROW),
        dead_letter_topic=given.maybe(writing.DEAD_LETTER_TOPIC),
        sink_name=given.maybe(writing.SINK_NAME) or "",
    )


# --- the cluster ------------------------------------------------------------------------------------------------------


def _build_cluster(given: GivenOptions) -> ClusterSettings:
    pause_s, retries = given.get(start_and_stop.RETRY_PAUSE), given.maybe(start_and_stop.RETRIES)
    return ClusterSettings(
        name_servers=given.maybe(addressing.NAME_SERVER) or (),
        net=_build_net(given),
        credentials=_build_credentials(given),
        namespace=Namespace(prefix=given.maybe(security.NAMESPACE) or ""),
        address_map=given.maybe(addressing.BROKER_ADDRESS_MAP) or AddressMap(),
        route_max_age_s=given.get(addressing.ROUTE_INTERVAL),
        retries=_RETRIES if retries is None else retries,
        pause=Backoff(first_s=pause_s, longest_s=pause_s),
        allowed_brokers=given.maybe(security.ALLOWED_BROKERS),
    )


def _build_net(given: GivenOptions) -> NetSettings:
    return NetSettings(
        connect_timeout_s=given.get(addressing.CONNECT_TIMEOUT),
        request_timeout_s=given.get(addressing.API_TIMEOUT),
        max_frame_bytes=given.get(addressing.MAX_FRAME_SIZE),
        tls=_build_tls(given) if given.get(security.USE_TLS) else None,
    )


def _build_tls(given: GivenOptions) -> TlsSettings:
    return TlsSettings(
        trust_cert_path=given.maybe(security.TRUST_CERT_PATH),
        trust_cert=given.maybe(security.TRUST_CERT),
        client_cert_path=given.maybe(security.CLIENT_CERT_PATH),
        client_key_path=given.maybe(security.CLIENT_KEY_PATH),
        client_key_password=given.maybe(security.CLIENT_KEY_PASSWORD),
        verify_server=given.get(security.VERIFY_SERVER),
    )


def _build_credentials(given: GivenOptions) -> Credentials | CredentialsFile | None:
    if path := given.maybe(security.CREDENTIALS_FILE):
        file = CredentialsFile(path)
        file.check()  # A broken file fails on the driver, before anything runs.
        return file
    access_key, secret_key = given.maybe(security.ACCESS_KEY), given.maybe(security.SECRET_KEY)
    if access_key is None or secret_key is None:
        return None
    return Credentials(access_key, secret_key, given.maybe(security.SECURITY_TOKEN))


# --- what to read -----------------------------------------------------------------------------------------------------


def _build_selection(given: GivenOptions) -> Selection:
    group = given.maybe(grouping.CONSUMER_GROUP)
    return Selection(
        topics=given.maybe(selection.SUBSCRIBE) or (),
        pattern=given.maybe(selection.SUBSCRIBE_PATTERN),
        assignment=given.maybe(selection.ASSIGN),
        retry_topic=retry_topic(group) if group and _reads_retries(given) else None,
    )


def _reads_retries(given: GivenOptions) -> bool:
    """Return whether the group's retry topic is read, too; a query that is a member of its group always reads it."""
    return shares(given) or given.maybe(selection.READ_RETRY_TOPIC) is True


def _build_start(given: GivenOptions) -> StartSettings:
    first = Keyword.EARLIEST if given.use == "B" else Keyword.LATEST
    default = given.maybe(start_and_stop.STARTING_OFFSETS_DEFAULT)
    if shares(given):
        first = Keyword.GROUP
        default = default if given.gave(start_and_stop.STARTING_OFFSETS_DEFAULT) else Keyword.EARLIEST
    return StartSettings(
        offsets=given.maybe(start_and_stop.STARTING_OFFSETS) or first,
        default=default,
        time_ms=given.maybe(start_and_stop.STARTING_TIMESTAMP),
        times=given.maybe(start_and_stop.STARTING_TIMES),
        if_too_young=given.get(start_and_stop.STARTING_STRATEGY),
        retry_topic=None if given.use == "B" else _build_selection(given).retry_topic,
    )


def _build_end(given: GivenOptions) -> EndSettings:
    return EndSettings(
        offsets=given.get(start_and_stop.ENDING_OFFSETS),
        time_ms=given.maybe(start_and_stop.ENDING_TIMESTAMP),
        times=given.maybe(start_and_stop.ENDING_TIMES),
    )


def _build_subscription(given: GivenOptions) -> Subscription:
    if condition := given.maybe(selection.SQL_FILTER):
        return Subscription(condition, "SQL92")
    return Subscription("||".join(given.get(selection.TAGS)) or "*")


# --- how much, and by whom --------------------------------------------------------------------------------------------


def _build_limits(given: GivenOptions) -> Limits:
    return Limits(
        max_per_trigger=given.maybe(batching.MAX_OFFSETS),
        max_per_queue=given.maybe(batching.MAX_OFFSETS_PER_QUEUE),
        min_per_trigger=given.maybe(batching.MIN_OFFSETS),
        max_delay_s=given.get(batching.MAX_DELAY),
    )


def _build_allocation(given: GivenOptions) -> AllocationSettings:
    return AllocationSettings(
        strategy=given.get(batching.STRATEGY),
        virtual_node_count=given.get(batching.VIRTUAL_NODES),
        machine_rooms=given.maybe(batching.MACHINE_ROOMS) or (),
        broker_rooms=given.maybe(batching.BROKER_ROOMS) or {},
    )


def _build_plan(given: GivenOptions) -> PlanSettings:
    """Return the settings that divide a batch into slots (groups of queues) and these into tasks.

    If the query is a member of its group, the allocation strategy that the user sets assigns queues to members. The
    default strategy then assigns the member's queues to slots; it gives each slot consecutive queues.
    """
    return PlanSettings(
        allocation=AllocationSettings() if shares(given) else _build_allocation(given),
        min_partitions=given.maybe(batching.MIN_PARTITIONS) or 1,
        max_partitions=given.maybe(batching.MAX_PARTITIONS),
        max_records_per_partition=given.maybe(batching.MAX_RECORDS),
    )


def _build_pull(given: GivenOptions) -> PullSettings:
    failure_pause_s = given.get(pulling.FAILURE_PAUSE)
    return PullSettings(
        group=given.maybe(grouping.CONSUMER_GROUP) or READER_GROUP,
        subscription=_build_subscription(given),
        batch_size=given.get(pulling.BATCH_SIZE),
        depth=given.maybe(pulling.DEPTH),
        limits=_build_flow_limits(given),
        topic_messages=given.get(pulling.MESSAGES_PER_TOPIC),
        topic_mib=given.get(pulling.SIZE_PER_TOPIC),
        orderly=given.get(batching.ORDERING),
        interval_s=given.get(pulling.INTERVAL),
        flow_control_pause_s=given.get(pulling.FLOW_CONTROL_PAUSE),
        failure_pause=Backoff(first_s=failure_pause_s, longest_s=max(_LONGEST_PAUSE_S, failure_pause_s)),
        pull_timeout_s=given.get(pulling.PULL_TIMEOUT),
        max_retries=given.get(pulling.MAX_RETRIES),
        stall_timeout_s=given.get(pulling.POLL_TIMEOUT),
        follow_suggestions=given.get(pulling.READ_FROM),
    )


def _build_flow_limits(given: GivenOptions) -> FlowLimits:
    return FlowLimits(
        message_count=given.get(pulling.MESSAGES_PER_QUEUE),
        body_mib=given.get(pulling.SIZE_PER_QUEUE),
        span=given.get(pulling.MAX_SPAN),
    )


# --- what to write ----------------------------------------------------------------------------------------------------


def _build_send(given: GivenOptions) -> SendSettings:
    return SendSettings(
        producer_group=given.get(writing.PRODUCER_GROUP),
        attempt_timeout_s=given.get(writing.ATTEMPT_TIMEOUT),
        retries=given.get(writing.SEND_RETRIES),
        deadline_s=given.get(writing.ROW_TIMEOUT),
        accepted_statuses=given.get(writing.ACCEPTED_STATUSES),
        max_in_flight=given.get(writing.MAX_IN_FLIGHT),
        keeps_order=given.get(writing.KEY_ORDER),
        rows_per_second=given.maybe(writing.MAX_ROWS_PER_SECOND),
    )


def _build_encode(given: GivenOptions) -> EncodeSettings:
    return EncodeSettings(
        topic=given.maybe(writing.TOPIC),
        max_body_bytes=min(given.get(writing.MAX_MESSAGE_SIZE), largest_body(given)),
        batch_rows=given.get(writing.BATCH_ROWS),
        compress_over_bytes=given.get(writing.COMPRESS_OVER),
        compression=given.get(writing.COMPRESSION),
        places_by_key=given.get(writing.QUEUE_SELECTOR) is not QueueChoice.ROUND_ROBIN,
    )


def largest_body(given: GivenOptions) -> int:
    """Return the size of the largest body that fits into a frame with its header."""
    return given.get(addressing.MAX_FRAME_SIZE) - _HEADER_BYTES


# --- rows and commits -------------------------------------------------------------------------------------------------


def chosen_columns(given: GivenOptions) -> tuple[str, ...]:
    """Return the columns of a row: those that the user listed, else those of the chosen layout."""
    listed = given.maybe(row_format.CHOSEN_COLUMNS)
    return listed or default_columns(given.get(row_format.ROW_LAYOUT), given.get(row_format.INCLUDE_HEADERS))


def _build_content(given: GivenOptions) -> Content:
    return Content(
        mode=given.get(row_format.MODE),
        max_body_bytes=min(MOST_BODY_BYTES, _UNPACKED_FRAMES * given.get(addressing.MAX_FRAME_SIZE)),
        properties_as_json=given.get(row_format.PROPERTIES_FORMAT),
        system_properties=given.get(row_format.SYSTEM_PROPERTIES),
        tags=frozenset(given.get(selection.TAGS)),
        check_crc=given.get(row_format.CHECK_CRC),
        naming=Namespace(prefix) if (prefix := given.maybe(security.NAMESPACE)) else None,
    )


def commits(given: GivenOptions) -> bool:
    """Return whether the query commits positions: as `commitOffsets` says; by default, whether it has its own group.

    The tools group does not count, because all readers without a group share it. If `commitOffsets` is not given, a
    broadcasting query commits only if it has a directory for local positions, too.
    """
    wanted = given.maybe(grouping.COMMIT_OFFSETS)
    if wanted is not None:
        return wanted
    has_place = given.gave(grouping.LOCAL_STORE) or not broadcasts(given)
    return has_place and given.maybe(grouping.CONSUMER_GROUP) not in (None, READER_GROUP)


def broadcasts(given: GivenOptions) -> bool:
    """Return whether `messageModel` is BROADCASTING: each member reads all queues and keeps its own positions."""
    return given.get(grouping.MESSAGE_MODEL) is MessageModel.BROADCASTING


def _build_commit(given: GivenOptions) -> CommitSettings:
    if given.use == "B" or not commits(given):
        return CommitSettings()
    group = None if broadcasts(given) else given.maybe(grouping.CONSUMER_GROUP)
    return CommitSettings(group, given.get(grouping.COMMIT_INTERVAL))


def _build_local(given: GivenOptions) -> LocalSettings | None:
    directory, group = given.maybe(grouping.LOCAL_STORE), given.maybe(grouping.CONSUMER_GROUP)
    if directory is None or group is None:
        return None
    return LocalSettings(directory, group, publishes=given.use != "B" and commits(given))


def locks(given: GivenOptions) -> bool:
    """Return whether the query locks queues at brokers: as `lockQueues` says.

    If that is not given, a query locks queues if it is a member of its group and reads queues in order.
    """
    wanted = given.maybe(grouping.LOCK_QUEUES)
    return shares(given) and given.get(batching.ORDERING) if wanted is None else wanted


def _build_locks(given: GivenOptions) -> LockSettings | None:
    if given.use == "B" or not locks(given):
        return None
    return LockSettings(given.get(grouping.LOCK_INTERVAL), given.get(grouping.LOCK_LIFETIME))


def shares(given: GivenOptions) -> bool:
    """Return whether the query is a member of its group, so that it reads only the queues assigned to it."""
    return given.get(grouping.GROUP_MEMBERSHIP)


def _build_share(given: GivenOptions) -> ShareSettings:
    lists = given.maybe(batching.QUEUE_LISTS)
    return ShareSettings(
        allocation=_build_allocation(given),
        own_list=lists[0] if lists else None,
        rooms=given.maybe(batching.CONSUMER_ROOMS) or {},
        heartbeat_s=given.get(addressing.HEARTBEAT_INTERVAL),
        rebalance_s=given.get(grouping.REBALANCE_INTERVAL),
    )
