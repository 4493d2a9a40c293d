import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.opennms.core.wsman.Identity;
import org.opennms.core.wsman.WSManClient;
import org.opennms.core.wsman.WSManEndpoint;
import org.opennms.core.wsman.WSManVersion;
import org.opennms.core.wsman.cxf.CXFWSManClientFactory;
import org.w3c.dom.Node;

/** The client of WS-Management of OpenNMS, told line by line what to ask the service at its argument:
 * "identify", "enumerate RESOURCE", "pull CONTEXT RESOURCE". It says "ok" with what was answered, or
 * "failed". */
public final class Peer {
    private static final int SECONDS = 60;

    public static void main(String[] arguments) throws Exception {
        WSManEndpoint endpoint = new WSManEndpoint.Builder(arguments[0])
            .withServerVersion(WSManVersion.WSMAN_1_2)
            .withMaxElements(64)
            .withReceiveTimeout(SECONDS * 1000)
            .build();
        WSManClient client = new CXFWSManClientFactory().getClient(endpoint);
        BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
        for (String line = told.readLine(); line != null; line = told.readLine()) {
            System.out.println(answer(client, line.split(" ")));
        }
    }

    private static String answer(WSManClient client, String[] words) {
        try {
            switch (words[0]) {
                case "identify":
                    Identity identity = client.identify();
                    return "ok " + identity.getProductVendor() + " " + identity.getProductVersion();
                case "enumerate":
                    return "ok " + client.enumerate(words[1]);
                default:
                    List<Node> items = new ArrayList<>();
                    StringBuilder said = new StringBuilder("ok ");
                    said.append(client.pull(words[1], words[2], items, false));
                    for (Node item : items) {
                        said.append(' ').append(item.getTextContent());
                    }
                    return said.toString();
            }
        } catch (RuntimeException failed) {
            return ("failed " + failed).replace('\n', ' ');
        }
    }
}
