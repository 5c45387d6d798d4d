"""How does a consumer send a message back, to get it again later?"""

from __future__ import annotations

from pyspark_rocketmq.wire.codes import RequestCode
from pyspark_rocketmq.wire.commands import ConsumerSendMsgBackRequestHeader

from ..registry import Answer, Call, answer, handles
from ..retry import send_back
from ..state import Broker


@handles(RequestCode.CONSUMER_SEND_MSG_BACK)
def send_message_back(broker: Broker, call: Call) -> Answer:
    """Store the message for another try; success says no more."""
    send_back(broker, call.header(ConsumerSendMsgBackRequestHeader), call.command.version)
    return answer()
