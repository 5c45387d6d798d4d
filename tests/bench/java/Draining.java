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

/** The three official consumers, each reading a topic from its beginning and doing nothing with it. */
final class Draining {
    private static final int PULL_BATCH = 32;
    private static final long POLL_MILLIS = 1000;

    private Draining() {}

    /** A group of its own for each run, so every run begins at the beginning. */
    static Tally push(String nameServer, JSONObject wish) throws Exception {
        Tally tally = new Tally(wish.getLongValue("count"));
        String name = freshName();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(PULL_BATCH);
        consumer.setConsumeMessageBatchMaxSize(wish.getIntValue("batch"));
        consumer.subscribe(wish.getString("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            tally.add(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            tally.await();
        } finally {
            consumer.shutdown();
        }
        return tally;
    }

    static Tally litePull(String nameServer, JSONObject wish) throws Exception {
        Tally tally = new Tally(wish.getLongValue("count"));
        String name = freshName();
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.setPullBatchSize(PULL_BATCH);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchMessageQueues(wish.getString("topic"));
            consumer.assign(queues);
            for (MessageQueue queue : queues) {
                seekToBegin(consumer, queue);
            }
            while (!tally.isDone()) {
                int count = consumer.poll(POLL_MILLIS).size();
                if (count > 0) {
                    tally.add(count);
                }
            }
        } finally {
            consumer.shutdown();
        }
        return tally;
    }

    /** Pulling has begun, and now and then the first requests that connect to a broker side by side fail. */
    private static void seekToBegin(DefaultLitePullConsumer consumer, MessageQueue queue) throws Exception {
        try {
            consumer.seekToBegin(queue);
        } catch (MQClientException problem) {
            consumer.seekToBegin(queue);
        }
    }

    static Tally pull(String nameServer, JSONObject wish) throws Exception {
        Tally tally = new Tally(wish.getLongValue("count"));
        String name = freshName();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(name);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name);
        consumer.start();
        try {
            Collection<MessageQueue> queues = consumer.fetchSubscribeMessageQueues(wish.getString("topic"));
            tally.begin();
            readAll(consumer, queues, wish.getLongValue("count") / queues.size(), tally);
        } finally {
            consumer.shutdown();
        }
        return tally;
    }

    /** A thread per queue. */
    private static void readAll(DefaultMQPullConsumer consumer, Collection<MessageQueue> queues, long share, Tally tally)
            throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(queues.size());
        List<Future<Void>> running = new ArrayList<>();
        for (MessageQueue queue : queues) {
            Callable<Void> reading = () -> read(consumer, queue, share, tally);
            running.add(threads.submit(reading));
        }
        for (Future<Void> each : running) {
            each.get();
        }
        threads.shutdown();
    }

    private static Void read(DefaultMQPullConsumer consumer, MessageQueue queue, long share, Tally tally)
            throws Exception {
        for (long offset = 0; offset < share; ) {
            PullResult result = consumer.pull(queue, "*", offset, PULL_BATCH);
            tally.add(result.getMsgFoundList().size());
            offset = result.getNextBeginOffset();
        }
        return null;
    }

    private static String freshName() {
        return "bench_" + UUID.randomUUID().toString().replace("-", "");
    }
}
