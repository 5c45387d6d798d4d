"""List the fields of each message of the gRPC API.

Each line is one field: number, name, type. The mark `?` after the type means that an absent field differs from one with
the default value, `*` means a repeated field. Of the fields with the same `|name`, only one can be set (protobuf's
`oneof`). The type `map` is a map from text to text.
"""

from __future__ import annotations

__all__ = ["MESSAGE_FIELDS"]

MESSAGE_FIELDS = {
    # --- nouns -------------------------------------------------------------------------------------------------------
    "Resource": """
        1 resource_namespace string
        2 name string
    """,
    "Status": """
        1 code Code
        2 message string
    """,
    "Address": """
        1 host string
        2 port int32
    """,
    "Endpoints": """
        1 scheme AddressScheme
        2 addresses Address*
    """,
    "Broker": """
        1 name string
        2 id int32
        3 endpoints Endpoints
    """,
    "MessageQueue": """
        1 topic Resource
        2 id int32
        3 permission Permission
        4 broker Broker
        5 accept_message_types MessageType*
    """,
    "FilterExpression": """
        1 type FilterType
        2 expression string
    """,
    "SubscriptionEntry": """
        1 topic Resource
        2 expression FilterExpression
    """,
    "Assignment": """
        1 message_queue MessageQueue
    """,
    "Digest": """
        1 type DigestType
        2 checksum string
    """,
    "DeadLetterQueue": """
        1 topic string
        2 message_id string
    """,
    "ExponentialBackoff": """
        1 initial Duration
        2 max Duration
        3 multiplier float
    """,
    "CustomizedBackoff": """
        1 next Duration*
    """,
    "RetryPolicy": """
        1 max_attempts int32
        2 exponential_backoff ExponentialBackoff|strategy
        3 customized_backoff CustomizedBackoff|strategy
    """,
    "UA": """
        1 language Language
        2 version string
        3 platform string
        4 hostname string
    """,
    "Metric": """
        1 on bool
        2 endpoints Endpoints?
    """,
    # --- a message of a topic ----------------------------------------------------------------------------------------
    "Message": """
        1 topic Resource
        2 user_properties map
        3 system_properties SystemProperties
        4 body bytes
    """,
    "SystemProperties": """
        1 tag string?
        2 keys string*
        3 message_id string
        4 body_digest Digest
        5 body_encoding Encoding
        6 message_type MessageType
        7 born_timestamp Timestamp
        8 born_host string
        9 store_timestamp Timestamp?
        10 store_host string
        11 delivery_timestamp Timestamp?
        12 receipt_handle string?
        13 queue_id int32
        14 queue_offset int64?
        15 invisible_duration Duration?
        16 delivery_attempt int32?
        17 message_group string?
        18 trace_context string?
        19 orphaned_transaction_recovery_duration Duration?
        20 dead_letter_queue DeadLetterQueue?
        21 lite_topic string?
        22 priority int32?
    """,
    # --- telemetry ---------------------------------------------------------------------------------------------------
    "Settings": """
        1 client_type ClientType?
        2 access_point Endpoints?
        3 backoff_policy RetryPolicy?
        4 request_timeout Duration?
        5 publishing Publishing|pub_sub
        6 subscription Subscription|pub_sub
        7 user_agent UA
        8 metric Metric
        9 client_properties map
    """,
    "Publishing": """
        1 topics Resource*
        2 max_body_size int32
        3 validate_message_type bool
    """,
    "Subscription": """
        1 group Resource?
        2 subscriptions SubscriptionEntry*
        3 fifo bool?
        4 receive_batch_size int32?
        5 long_polling_timeout Duration?
        6 lite_subscription_quota int32?
        7 max_lite_topic_size int32?
    """,
    "TelemetryCommand": """
        1 status Status?
        2 settings Settings|command
        3 thread_stack_trace ThreadStackTrace|command
        4 verify_message_result VerifyMessageResult|command
        5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand|command
        6 print_thread_stack_trace_command PrintThreadStackTraceCommand|command
        7 verify_message_command VerifyMessageCommand|command
        8 reconnect_endpoints_command ReconnectEndpointsCommand|command
        9 notify_unsubscribe_lite_command NotifyUnsubscribeLiteCommand|command
    """,
    "ThreadStackTrace": """
        1 nonce string
        2 thread_stack_trace string?
    """,
    "VerifyMessageResult": """
        1 nonce string
    """,
    "RecoverOrphanedTransactionCommand": """
        1 message Message
        2 transaction_id string
    """,
    "PrintThreadStackTraceCommand": """
        1 nonce string
    """,
    "VerifyMessageCommand": """
        1 nonce string
        2 message Message
    """,
    "ReconnectEndpointsCommand": """
        1 nonce string
    """,
    "NotifyUnsubscribeLiteCommand": """
        1 lite_topic string
    """,
    "HeartbeatRequest": """
        1 group Resource?
        2 client_type ClientType
    """,
    "HeartbeatResponse": """
        1 status Status
    """,
    "NotifyClientTerminationRequest": """
        1 group Resource?
    """,
    "NotifyClientTerminationResponse": """
        1 status Status
    """,
    # --- routes ------------------------------------------------------------------------------------------------------
    "QueryRouteRequest": """
        1 topic Resource
        2 endpoints Endpoints
    """,
    "QueryRouteResponse": """
        1 status Status
        2 message_queues MessageQueue*
    """,
    "QueryAssignmentRequest": """
        1 topic Resource
        2 group Resource
        3 endpoints Endpoints
    """,
    "QueryAssignmentResponse": """
        1 status Status
        2 assignments Assignment*
    """,
    # --- sending -----------------------------------------------------------------------------------------------------
    "SendMessageRequest": """
        1 messages Message*
    """,
    "SendResultEntry": """
        1 status Status
        2 message_id string
        3 transaction_id string
        4 offset int64
        5 recall_handle string
    """,
    "SendMessageResponse": """
        1 status Status
        2 entries SendResultEntry*
    """,
    "EndTransactionRequest": """
        1 topic Resource
        2 message_id string
        3 transaction_id string
        4 resolution TransactionResolution
        5 source TransactionSource
        6 trace_context string
    """,
    "EndTransactionResponse": """
        1 status Status
    """,
    "RecallMessageRequest": """
        1 topic Resource
        2 recall_handle string
    """,
    "RecallMessageResponse": """
        1 status Status
        2 message_id string
    """,
    # --- popping: messages are lent for a while ----------------------------------------------------------------------
    "ReceiveMessageRequest": """
        1 group Resource
        2 message_queue MessageQueue
        3 filter_expression FilterExpression
        4 batch_size int32
        5 invisible_duration Duration?
        6 auto_renew bool
        7 long_polling_timeout Duration?
        8 attempt_id string?
    """,
    "ReceiveMessageResponse": """
        1 status Status|content
        2 message Message|content
        3 delivery_timestamp Timestamp|content
    """,
    "AckMessageEntry": """
        1 message_id string
        2 receipt_handle string
        3 lite_topic string?
    """,
    "AckMessageRequest": """
        1 group Resource
        2 topic Resource
        3 entries AckMessageEntry*
    """,
    "AckMessageResultEntry": """
        1 message_id string
        2 receipt_handle string
        3 status Status
    """,
    "AckMessageResponse": """
        1 status Status
        2 entries AckMessageResultEntry*
    """,
    "ForwardMessageToDeadLetterQueueRequest": """
        1 group Resource
        2 topic Resource
        3 receipt_handle string
        4 message_id string
        5 delivery_attempt int32
        6 max_delivery_attempts int32
        7 lite_topic string?
    """,
    "ForwardMessageToDeadLetterQueueResponse": """
        1 status Status
    """,
    "ChangeInvisibleDurationRequest": """
        1 group Resource
        2 topic Resource
        3 receipt_handle string
        4 invisible_duration Duration
        5 message_id string
        6 lite_topic string?
        7 suspend bool?
    """,
    "ChangeInvisibleDurationResponse": """
        1 status Status
        2 receipt_handle string
    """,
    # --- pulling: messages are read by queue and offset --------------------------------------------------------------
    "PullMessageRequest": """
        1 group Resource
        2 message_queue MessageQueue
        3 offset int64
        4 batch_size int32
        5 filter_expression FilterExpression
        6 long_polling_timeout Duration
    """,
    "PullMessageResponse": """
        1 status Status|content
        2 message Message|content
        3 next_offset int64|content
    """,
    "UpdateOffsetRequest": """
        1 group Resource
        2 message_queue MessageQueue
        3 offset int64
    """,
    "UpdateOffsetResponse": """
        1 status Status
    """,
    "GetOffsetRequest": """
        1 group Resource
        2 message_queue MessageQueue
    """,
    "GetOffsetResponse": """
        1 status Status
        2 offset int64
    """,
    "QueryOffsetRequest": """
        1 message_queue MessageQueue
        2 query_offset_policy QueryOffsetPolicy
        3 timestamp Timestamp?
    """,
    "QueryOffsetResponse": """
        1 status Status
        2 offset int64
    """,
    # --- lite topics -------------------------------------------------------------------------------------------------
    "OffsetOption": """
        1 policy OffsetPolicy|offset_type
        2 offset int64|offset_type
        3 tail_n int64|offset_type
        4 timestamp int64|offset_type
    """,
    "SyncLiteSubscriptionRequest": """
        1 action LiteSubscriptionAction
        2 topic Resource
        3 group Resource
        4 lite_topic_set string*
        5 version int64?
        6 offset_option OffsetOption?
    """,
    "SyncLiteSubscriptionResponse": """
        1 status Status
    """,
}
"""The list of fields of each message, by the message's name."""
