// Drives Event Ruler (Maven: software.amazon.event.ruler) over a folder of messages and patterns; prints what
// python_drivers.py does. Run as a single file: java -cp CLASSPATH EventRuler.java FOLDER
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.*;
import software.amazon.event.ruler.GenericMachine;

public class EventRuler {
    interface Act<T> { int on(T item) throws Exception; }

    static long now() { return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(); }

    static <T> double mean(Act<T> act, List<T> items) throws Exception {
        double took = 0;
        int rounds = 0;
        for (int turn = 0; turn < 2; turn++) { // The first is for the compiler.
            long started = now();
            for (took = 0, rounds = 0; took < 5e8; took = now() - started, rounds++) {
                for (T item : items) act.on(item);
            }
        }
        return took / rounds / items.size() / 1e3;
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        List<String> messages = Files.readAllLines(folder.resolve("messages.json"));
        List<String> patterns = Files.readAllLines(folder.resolve("patterns.json"));
        GenericMachine<Integer> machine = new GenericMachine<>();
        long started = now();
        for (int at = 0; at < patterns.size(); at++) machine.addRule(at, patterns.get(at));
        double built = (now() - started) / 1e3 / patterns.size();
        ObjectMapper mapper = new ObjectMapper();
        List<JsonNode> parsed = new ArrayList<>();
        for (String message : messages) parsed.add(mapper.readTree(message));
        int found = 0;
        for (JsonNode message : parsed) found += machine.rulesForJSONEvent(message).size();
        System.out.printf(Locale.ROOT,
            "{\"build_us\": %f, \"parse_us\": %f, \"match_us\": %f, \"together_us\": %f, \"true\": %d}%n", built,
            mean((String text) -> mapper.readTree(text).size(), messages),
            mean((JsonNode message) -> machine.rulesForJSONEvent(message).size(), parsed),
            mean((String text) -> machine.rulesForJSONEvent(text).size(), messages), found);
    }
}
