import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;

/** Runs the three official consumers, which read a topic from its beginning and discard the messages. */
final class Draining {
    private static final int PULL_BATCH = 32;
    private static final long POLL_MILLIS = 1000;

    private Draining() {}

    /** Uses a new group for each run, so that every run starts at the beginning. */
    static TimedCount push(String nameServer, JSONObject task) throws Exception {
        TimedCount counter = new TimedCount(task.getLongValue("count"));
        String name = freshName();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(PULL_BATCH);
        consumer.setConsumeMessageBatchMaxSize(task.getIntValue("batch"));
        consumer.subscribe(task.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            counter.add(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            counter.await();
        } finally {
            consumer.shutdown();
        }
        return counter;
    }

    static TimedCount litePull(String nameServer, JSONObject task) throws Exception {
        TimedCount counter = new TimedCount(task.getLongValue("count"));
        String name = freshName();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.setPullBatchSize(PULL_BATCH);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(task.getString("topic"));
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                seekToBegin(consumer, queue);
            }
            while (!counter.isDone()) {
                int count = consumer.poll(POLL_MILLIS).size();
                if (count > 0) {
                    counter.add(count);
                }
            }
        } finally {
            consumer.shutdown();
        }
        return counter;
    }

    /** Seeks again after a failure, because concurrent first requests to a broker sometimes fail. */
    private static void seekToBegin(DefaultLitePullConsumer consumer, MessageQueue queue) throws Exception {
        try {
            consumer.seekToBegin(queue);
        } catch (MQClientException problem) {
            consumer.seekToBegin(queue);
        }
    }

    static TimedCount pull(String nameServer, JSONObject task) throws Exception {
        TimedCount counter = new TimedCount(task.getLongValue("count"));
        String name = freshName();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(task.getString("topic"));
            counter.begin();
            readAll(consumer, queues, task.getLongValue("count") / queues.size(), counter);
        } finally {
            consumer.shutdown();
        }
        return counter;
    }

    /** Reads each queue in its own thread. */
    private static void readAll(DefaultMQPullConsumer consumer, Collection<MessageQueue> queues, long share,
            TimedCount counter) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(queues.size());
        List<Future<Void>> running = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Callable<Void> reading = () -> read(consumer, queue, share, counter);
            running.add(threads.submit(reading));
        }
        for (Future<Void> each : running) {
            each.get();
        }
        threads.shutdown();
    }

    private static Void read(DefaultMQPullConsumer consumer, MessageQueue queue, long share,
            TimedCount counter) throws Exception {
        for (long offset = 0; offset < share; ) {
            PullResult result = consumer.pull(queue, "*", offset, PULL_BATCH);
            counter.add(result.getMsgFoundList().size());
            offset = result.getNextBeginOffset();
        }
        return null;
    }

    private static String freshName() {
        return "bench_" + UUID.randomUUID().toString().replace("-", "");
    }
}
