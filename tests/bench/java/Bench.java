import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs one official client at a time at full speed, and reports messages and seconds.
 *
 * <p>It reads one JSON object per line, a task, and answers with one line: the number of messages and the seconds. The
 * process stays, so that a second run finds its code compiled; it ends when its input ends.
 */
public final class Bench {
    private static final PrintStream OUT = System.out;

    private Bench() {}

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // libraries print, too; stdout carries answers only
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            OUT.println(JSON.toJSONString(answer(args[0], JSON.parseObject(line))));
            OUT.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answer(String nameServer, JSONObject task) {
        Map<String, Object> line = new LinkedHashMap<>();
        try {
            TimedCount counter = perform(nameServer, task);
            line.put("messages", counter.messages());
            line.put("seconds", counter.seconds());
        } catch (Exception problem) {
            problem.printStackTrace();
            line.put("error", problem.toString());
        }
        return line;
    }

    private static TimedCount perform(String nameServer, JSONObject task) throws Exception {
        switch (task.getString("task")) {
            case "fill":
                return Filling.fill(nameServer, task);
            case "send":
                return Sending.send(nameServer, task);
            case "push":
                return Draining.push(nameServer, task);
            case "lite":
                return Draining.litePull(nameServer, task);
            case "pull":
                return Draining.pull(nameServer, task);
            case "decode":
                return Decoding.decode(task);
            default:
                throw new IllegalArgumentException("unknown task " + task);
        }
    }
}
