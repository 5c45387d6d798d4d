import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Fills all queues of a topic equally with the official producer: in batches, with up to four threads.
 *
 * <p>A broker adds two properties to a message that is sent alone, but not to one in a batch; they are added here, so
 * that records are as long as those of single sends. Properties differ in length from message to message, as keys and
 * names do, unless the task wants all records alike.
 */
final class Filling {
    private static final int BATCH_BYTES = 512 * 1024;
    private static final int OVERHEAD_BYTES = 400;
    private static final int MOST_THREADS = 4;
    private static final int SEND_MILLIS = 30_000;
    private static final String[] SHOPS = {"ulm", "lyon", "paris", "berlin", "hamburg", "new-york", "stockholm"};

    private Filling() {}

    static TimedCount fill(String nameServer, JSONObject task) throws Exception {
        long count = task.getLongValue("count");
        TimedCount counter = new TimedCount(count);
        DefaultMQProducer producer = new DefaultMQProducer("bench_filling");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(SEND_MILLIS);
        producer.start();
        try {
            List<MessageQueue> queues = producer.fetchPublishMessageQueues(task.getString("topic"));
            counter.begin();
            fillAll(producer, queues, count / queues.size(), task, counter);
            counter.await();
        } finally {
            producer.shutdown();
        }
        return counter;
    }

    private static void fillAll(DefaultMQProducer producer, List<MessageQueue> queues, long share, JSONObject task,
            TimedCount counter) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(Math.min(MOST_THREADS, queues.size()));
        List<Future<Void>> running = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Callable<Void> filling = () -> fillOne(producer, queue, share, task, counter);
            running.add(threads.submit(filling));
        }
        for (Future<Void> each : running) {
            each.get();
        }
        threads.shutdown();
    }

    private static Void fillOne(DefaultMQProducer producer, MessageQueue queue, long share, JSONObject task,
            TimedCount counter) throws Exception {
        int size = task.getIntValue("size");
        boolean alike = task.getBooleanValue("alike");
        int most = Math.max(1, BATCH_BYTES / (size + OVERHEAD_BYTES));
        for (long sent = 0; sent < share; ) {
            int count = (int) Math.min(most, share - sent);
            List<Message> batch = new ArrayList<>(count);
            for (int i = 0; i < count; i++) {
                batch.add(message(queue.getTopic(), sent + i, size, alike));
            }
            producer.send(batch, queue);
            sent += count;
            counter.add(count);
        }
        return null;
    }

    private static Message message(String topic, long number, int size, boolean alike) {
        long order = alike ? 1_000_000 + number % 1_000_000 : number * 7919 % 1_000_003;
        Message message = new Message(topic, "bench", "order-" + order, body(number, size));
        message.putUserProperty("region", "north");
        message.putUserProperty("shop", alike ? "somewhere" : SHOPS[(int) (number % SHOPS.length)]);
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_MSG_REGION, "DefaultRegion");
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_TRACE_SWITCH, "true");
        return message;
    }

    private static byte[] body(long number, int size) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) '.');
        byte[] digits = String.format("%010d", number).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(digits, 0, body, 0, digits.length);
        return body;
    }
}
