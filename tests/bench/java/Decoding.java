import com.alibaba.fastjson.JSONObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.MessageDecoder;

/** Decodes stored pull responses with the official decoder; the file has bodies, each after its length. */
final class Decoding {
    private static Path loaded;
    private static List<ByteBuffer> bodies;

    private Decoding() {}

    static TimedCount decode(JSONObject task) throws IOException {
        load(Paths.get(task.getString("file")));
        TimedCount counter = new TimedCount(task.getLongValue("count"));
        counter.begin();
        while (!counter.isDone()) {
            for (ByteBuffer body : bodies) {
                counter.add(MessageDecoder.decodes(body.duplicate()).size());
            }
        }
        return counter;
    }

    private static void load(Path file) throws IOException {
        if (file.equals(loaded)) {
            return;
        }
        ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(file));
        bodies = new ArrayList<>();
        while (all.hasRemaining()) {
            byte[] body = new byte[all.getInt()];
            all.get(body);
            bodies.add(ByteBuffer.wrap(body));
        }
        loaded = file;
    }
}
