import com.alibaba.fastjson.JSONObject;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.common.message.MessageDecoder;

/** The official decoder over recorded pull answers: a file of bodies, each behind its length. */
final class Decoding {
    private static Path loaded;
    private static List<ByteBuffer> bodies;

    private Decoding() {}

    static Tally decode(JSONObject wish) throws IOException {
        load(Paths.get(wish.getString("file")));
        Tally tally = new Tally(wish.getLongValue("count"));
        tally.begin();
        while (!tally.isDone()) {
            for (ByteBuffer body : bodies) {
                tally.add(MessageDecoder.decodes(body.duplicate()).size());
            }
        }
        return tally;
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
