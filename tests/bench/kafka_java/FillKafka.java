import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Creates a topic and fills its partitions equally, with the same bodies as the RocketMQ topic. */
public final class FillKafka {
    private FillKafka() {}

    /** Arguments: servers, topic, partitions, messages, body bytes. */
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("batch.size", String.valueOf(256 * 1024));
        settings.put("linger.ms", "5");
        String topic = args[1];
        int partitions = Integer.parseInt(args[2]);
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
        fill(settings, topic, partitions, Long.parseLong(args[3]) / partitions, Integer.parseInt(args[4]));
    }

    private static void fill(Properties settings, String topic, int partitions, long share, int size) throws Exception {
        ByteArraySerializer bytes = new ByteArraySerializer();
        AtomicReference<Exception> problem = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            for (long number = 0; number < share; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, body(number, size)), (sent, failed) -> {
                        if (failed != null) {
                            problem.set(failed);
                        }
                    });
                }
            }
        }
        if (problem.get() != null) {
            throw problem.get();
        }
    }

    private static byte[] body(long number, int size) {
        byte[] body = new byte[size];
        Arrays.fill(body, (byte) '.');
        byte[] digits = String.format("%010d", number).getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(digits, 0, body, 0, digits.length);
        return body;
    }
}
