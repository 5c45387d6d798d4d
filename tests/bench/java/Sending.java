import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends rows that are in memory with one official producer, from one thread, as a user writes it.
 *
 * <p>The rows are those of tests/bench/rows_to_write.py. Messages are made while the clock runs, because an application
 * has to make them, too; bodies and keys are ready before.
 */
final class Sending {
    private static final int ROWS = 60_000;
    private static final int SEND_MILLIS = 30_000;
    private static final int MOST_FAILURES = 1_000;
    private static final String[] SHOPS = {"ulm", "lyon", "paris", "berlin", "hamburg", "new-york", "stockholm"};

    private static int loadedSize;
    private static byte[][] bodies;
    private static String[] keys;

    private Sending() {}

    static TimedCount send(String nameServer, JSONObject task) throws Exception {
        load(task.getIntValue("size"));
        TimedCount counter = new TimedCount(task.getLongValue("count"));
        DefaultMQProducer producer = new DefaultMQProducer("bench_sending");
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(UUID.randomUUID().toString());
        producer.setSendMsgTimeout(SEND_MILLIS);
        producer.setEnableBackpressureForAsyncMode(true);
        producer.start();
        try {
            producer.fetchPublishMessageQueues(task.getString("topic"));
            counter.begin();
            if (task.getBooleanValue("async")) {
                sendAsync(producer, task, counter);
            } else if (task.getIntValue("batch") == 1) {
                sendSingly(producer, task, counter);
            } else {
                sendBatches(producer, task, counter);
            }
            counter.await();
        } finally {
            producer.shutdown();
        }
        return counter;
    }

    private static void sendSingly(DefaultMQProducer producer, JSONObject task, TimedCount counter) throws Exception {
        String topic = task.getString("topic");
        long count = task.getLongValue("count");
        for (long number = 0; number < count; number++) {
            checkStored(producer.send(message(topic, (int) (number % ROWS))));
            counter.add(1);
        }
    }

    private static void sendBatches(DefaultMQProducer producer, JSONObject task, TimedCount counter) throws Exception {
        String topic = task.getString("topic");
        long count = task.getLongValue("count");
        int most = task.getIntValue("batch");
        for (long sent = 0; sent < count; ) {
            int size = (int) Math.min(most, count - sent);
            List<Message> batch = new ArrayList<>(size);
            for (int i = 0; i < size; i++) {
                batch.add(message(topic, (int) ((sent + i) % ROWS)));
            }
            checkStored(producer.send(batch));
            sent += size;
            counter.add(size);
        }
    }

    /**
     * Sends without waiting; the producer's own back-pressure, with its default limits, slows the thread down.
     *
     * <p>The producer gives some failed messages back, as under load; they are sent again.
     */
    private static void sendAsync(DefaultMQProducer producer, JSONObject task, TimedCount counter) throws Exception {
        String topic = task.getString("topic");
        long count = task.getLongValue("count");
        Queue<Integer> failed = new ConcurrentLinkedQueue<>();
        for (long number = 0; number < count; number++) {
            sendAsync(producer, topic, (int) (number % ROWS), failed, counter);
        }
        for (int failures = 0; !counter.isDone(); ) {
            Integer row = failed.poll();
            if (row == null) {
                Thread.sleep(1);
            } else if (++failures > MOST_FAILURES) {
                throw new IllegalStateException("more than " + MOST_FAILURES + " messages were not sent");
            } else {
                sendAsync(producer, topic, row, failed, counter);
            }
        }
    }

    private static void sendAsync(DefaultMQProducer producer, String topic, int row, Queue<Integer> failed,
            TimedCount counter) throws Exception {
        producer.send(message(topic, row), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                if (result.getSendStatus() == SendStatus.SEND_OK) {
                    counter.add(1);
                } else {
                    onException(new IllegalStateException("stored as " + result.getSendStatus()));
                }
            }

            @Override
            public void onException(Throwable failure) {
                System.err.println("row " + row + " is sent again: " + failure);
                failed.add(row);
            }
        });
    }

    private static void checkStored(SendResult result) {
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException("stored as " + result.getSendStatus());
        }
    }

    private static Message message(String topic, int row) {
        Message message = new Message(topic, "bench", keys[row], bodies[row]);
        message.putUserProperty("region", "north");
        message.putUserProperty("shop", SHOPS[row % SHOPS.length]);
        return message;
    }

    private static void load(int size) {
        if (loadedSize == size) {
            return;
        }
        bodies = new byte[ROWS][];
        keys = new String[ROWS];
        for (int row = 0; row < ROWS; row++) {
            byte[] body = new byte[size];
            Arrays.fill(body, (byte) '.');
            byte[] digits = String.format("%010d", row).getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(digits, 0, body, 0, digits.length);
            bodies[row] = body;
            keys[row] = "order-" + (long) row * 7919 % 1_000_003;
        }
        loadedSize = size;
    }
}
