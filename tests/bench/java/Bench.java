import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs one official client at a time, as fast as it goes, and tells what it took.
 *
 * <p>One JSON object a line comes in and says what to do; one line goes out with messages and seconds. The process
 * stays, so that a second run finds its code compiled, and ends when its input does.
 */
public final class Bench {
    private static final PrintStream OUT = System.out;

    private Bench() {}

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // libraries print too; the real output belongs to the answers
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            OUT.println(JSON.toJSONString(answer(args[0], JSON.parseObject(line))));
            OUT.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answer(String nameServer, JSONObject wish) {
        Map<String, Object> line = new LinkedHashMap<>();
        try {
            Tally tally = perform(nameServer, wish);
            line.put("messages", tally.messages());
            line.put("seconds", tally.seconds());
        } catch (Exception problem) {
            problem.printStackTrace();
            line.put("error", problem.toString());
        }
        return line;
    }

    private static Tally perform(String nameServer, JSONObject wish) throws Exception {
        switch (wish.getString("task")) {
            case "fill":
                return Filling.fill(nameServer, wish);
            case "push":
                return Draining.push(nameServer, wish);
            case "lite":
                return Draining.litePull(nameServer, wish);
            case "pull":
                return Draining.pull(nameServer, wish);
            case "decode":
                return Decoding.decode(wish);
            default:
                throw new IllegalArgumentException("unknown task " + wish);
        }
    }
}
