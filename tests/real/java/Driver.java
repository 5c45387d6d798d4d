import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Drives the official Java clients for tests in another language.
 *
 * <p>It reads one JSON request per line: create an object, call one of its methods, register a scripted listener, run a
 * command of mqadmin. It writes one answer per line, with the id of its request and in any order, and between them
 * events, which are calls of listeners. The process ends when its input ends.
 */
public final class Driver {
    private static final PrintStream OUT = System.out;
    private static final SerializerFeature[] PLAIN_JSON = {
        SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect
    };

    private final Map<String, Object> objects = new ConcurrentHashMap<>();
    private final ExecutorService workers = Executors.newCachedThreadPool();

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // libraries print, too; stdout carries answers only
        Driver driver = new Driver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject request = JSON.parseObject(line, Feature.OrderedField);
            driver.workers.execute(() -> driver.answer(request));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Writes one line for an event of an object. */
    static void emit(String object, String event, Map<String, Object> details) {
        Map<String, Object> line = new LinkedHashMap<>(details);
        line.put("object", object);
        line.put("event", event);
        write(line);
    }

    private void answer(JSONObject request) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", request.get("id"));
        try {
            line.put("result", Values.plain(perform(request)));
        } catch (Throwable problem) {
            line.put("error", Values.plain(problem instanceof InvocationTargetException ? problem.getCause() : problem));
        }
        write(line);
    }

    private Object perform(JSONObject request) throws Throwable {
        String name = request.getString("object");
        JSONArray args = request.getJSONArray("args");
        switch (request.getString("op")) {
            case "create":
                return create(name, request.getString("class"), args, request.getJSONObject("settings"));
            case "call":
                return Calls.call(objects.get(name), request.getString("method"), args);
            case "listen":
                return Listeners.listen(name, objects, request);
            case "mqadmin":
                return CommandLine.run(args);
            default:
                throw new IllegalArgumentException("unknown op " + request.getString("op"));
        }
    }

    private Object create(String name, String type, JSONArray args, JSONObject settings) throws Throwable {
        Object made = Calls.create(Class.forName("org.apache.rocketmq." + type), args);
        for (Map.Entry<String, Object> setting : settings.entrySet()) {
            String key = setting.getKey();
            String setter = "set" + Character.toUpperCase(key.charAt(0)) + key.substring(1);
            JSONArray value = new JSONArray();
            value.add(setting.getValue());
            Calls.call(made, setter, value);
        }
        objects.put(name, made);
        return null;
    }

    private static void write(Map<String, Object> line) {
        byte[] text = (JSON.toJSONString(line, PLAIN_JSON) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(text, 0, text.length);
            OUT.flush();
        }
    }
}
