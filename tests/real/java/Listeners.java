import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Listeners that report their calls and answer by script.
 *
 * <p>The script maps a body to the outcomes of its successive deliveries; when they are used up, the last one is repeated.
 * Without a script every delivery succeeds. The first message of a batch decides for the batch.
 */
final class Listeners {
    private static final JSONObject SUCCESS = new JSONObject();

    private final String name;
    private final JSONObject script;
    private final DefaultMQProducer replier;

    private Listeners(String name, JSONObject script, DefaultMQProducer replier) {
        this.name = name;
        this.script = script;
        this.replier = replier;
    }

    /** Registers the listener that a request describes. */
    static Object listen(String name, Map<String, Object> objects, JSONObject request) {
        DefaultMQProducer replier = (DefaultMQProducer) objects.get(request.getOrDefault("replier", ""));
        Listeners listeners = new Listeners(name, request.getJSONObject("script"), replier);
        Object target = objects.get(name);
        if (target instanceof TransactionMQProducer) {
            ((TransactionMQProducer) target).setTransactionListener(listeners.transactions());
        } else if (request.getBooleanValue("orderly")) {
            ((DefaultMQPushConsumer) target).registerMessageListener((MessageListenerOrderly) listeners::consumeOrderly);
        } else {
            ((DefaultMQPushConsumer) target).registerMessageListener((MessageListenerConcurrently) listeners::consume);
        }
        return null;
    }

    private ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        JSONObject outcome = deliver(messages);
        if (outcome.containsKey("delayLevel")) {
            context.setDelayLevelWhenNextConsume(outcome.getIntValue("delayLevel"));
        }
        if (outcome.containsKey("ackIndex")) {
            context.setAckIndex(outcome.getIntValue("ackIndex"));
        }
        String status = outcome.getString("status");
        return "NULL".equals(status) ? null : ConsumeConcurrentlyStatus.valueOf(status == null ? "CONSUME_SUCCESS" : status);
    }

    private ConsumeOrderlyStatus consumeOrderly(List<MessageExt> messages, ConsumeOrderlyContext context) {
        JSONObject outcome = deliver(messages);
        if (outcome.containsKey("suspendMs")) {
            context.setSuspendCurrentQueueTimeMillis(outcome.getLongValue("suspendMs"));
        }
        String status = outcome.getString("status");
        return "NULL".equals(status) ? null : ConsumeOrderlyStatus.valueOf(status == null ? "SUCCESS" : status);
    }

    private TransactionListener transactions() {
        return new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state(next(message));
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                report("check", message, 1);
                return state(next(message));
            }
        };
    }

    private static LocalTransactionState state(JSONObject outcome) {
        return LocalTransactionState.valueOf(outcome.getString("status"));
    }

    private JSONObject deliver(List<MessageExt> messages) {
        messages.forEach(message -> report("delivery", message, messages.size()));
        JSONObject outcome = next(messages.get(0));
        pause(outcome.getLongValue("waitMs"));
        if (outcome.containsKey("reply")) {
            reply(messages.get(0), outcome.getString("reply"));
        }
        if ("THROW".equals(outcome.getString("status"))) {
            throw new IllegalStateException("as scripted");
        }
        return outcome;
    }

    private void report(String event, MessageExt message, int batchSize) {
        Map<String, Object> details = Values.plainBean(message);
        details.put("batchSize", batchSize);
        details.put("deliveredMs", System.currentTimeMillis());
        details.put("thread", Thread.currentThread().getName());
        Driver.emit(name, event, details);
    }

    private synchronized JSONObject next(Message message) {
        JSONArray outcomes = script.getJSONArray(new String(message.getBody(), StandardCharsets.UTF_8));
        if (outcomes == null || outcomes.isEmpty()) {
            return SUCCESS;
        }
        JSONObject outcome = outcomes.getJSONObject(0);
        if (outcomes.size() > 1) {
            outcomes.remove(0);
        }
        return outcome;
    }

    private void reply(MessageExt request, String text) {
        try {
            replier.send(MessageUtil.createReplyMessage(request, text.getBytes(StandardCharsets.UTF_8)));
        } catch (Exception problem) {
            throw new IllegalStateException("could not reply", problem);
        }
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }
}
