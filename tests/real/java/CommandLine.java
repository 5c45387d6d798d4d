import com.alibaba.fastjson.JSONArray;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** Runs one command of mqadmin at a time in this process, and returns its output. */
final class CommandLine {
    private CommandLine() {}

    static synchronized String run(JSONArray words) {
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream paper = new PrintStream(printed, true, StandardCharsets.UTF_8);
        try {
            System.setOut(paper);
            System.setErr(paper);
            MQAdminStartup.main0(words.toArray(new String[0]), null);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        return printed.toString(StandardCharsets.UTF_8);
    }
}
