// Drives YFilter 1.0 (Maven: org.ogce:yfilter) over a folder of messages and patterns; prints what
// python_drivers.py does. Run as a single file: java -cp CLASSPATH YFilter.java FOLDER
import edu.berkeley.cs.db.yfilter.filter.EXfilterBasic;
import edu.berkeley.cs.db.yfilterplus.queryparser.XPQuery;
import edu.berkeley.cs.db.yfilterplus.xmltree.XMLTree;
import java.io.StringReader;
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.*;

public class YFilter {
    interface Act<T> { int on(T item) throws Exception; }

    static final EXfilterBasic filter = new EXfilterBasic();

    static long now() { return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime(); }

    static int match(XMLTree message) {
        filter.setEventSequence(message.getEvents());
        filter.startParsing();
        int found = filter.getNoMatchedQueries();
        filter.clear();
        return found;
    }

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
        List<String> messages = Files.readAllLines(folder.resolve("messages.xml"));
        List<String> patterns = Files.readAllLines(folder.resolve("patterns.xpath"));
        long started = now();
        for (int at = 0; at < patterns.size(); at++) filter.addQuery(XPQuery.parseQuery(patterns.get(at), at + 1));
        double built = (now() - started) / 1e3 / patterns.size();
        List<XMLTree> parsed = new ArrayList<>();
        for (String message : messages) parsed.add(new XMLTree(new StringReader(message)));
        int found = 0;
        for (XMLTree message : parsed) found += match(message);
        System.out.printf(Locale.ROOT,
            "{\"build_us\": %f, \"parse_us\": %f, \"match_us\": %f, \"together_us\": %f, \"true\": %d}%n", built,
            mean((String text) -> new XMLTree(new StringReader(text)).getEvents().size(), messages),
            mean(YFilter::match, parsed), mean((String text) -> match(new XMLTree(new StringReader(text))), messages), found);
    }
}
