// A client of Apache CXF whose messages are signed and encrypted by WSS4J, and which takes no answer
// that is not. Commands come on the standard input, each is answered with a line: what the Body of
// the answer was, once WSS4J had checked and decrypted it, or why that is not believed.

import jakarta.xml.ws.Dispatch;
import jakarta.xml.ws.Service;
import jakarta.xml.ws.soap.SOAPBinding;
import jakarta.xml.ws.soap.SOAPFaultException;
import java.io.StringReader;
import java.io.StringWriter;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.xml.namespace.QName;
import javax.xml.transform.OutputKeys;
import javax.xml.transform.Source;
import javax.xml.transform.Transformer;
import javax.xml.transform.TransformerFactory;
import javax.xml.transform.stream.StreamResult;
import javax.xml.transform.stream.StreamSource;
import org.apache.cxf.endpoint.Client;
import org.apache.cxf.jaxws.DispatchImpl;
import org.apache.cxf.ws.addressing.WSAddressingFeature;
import org.apache.cxf.ws.security.wss4j.WSS4JInInterceptor;
import org.apache.cxf.ws.security.wss4j.WSS4JOutInterceptor;
import org.apache.wss4j.common.ext.WSPasswordCallback;

public class Secured {
    static final String WSA = "http://www.w3.org/2005/08/addressing";
    static final String WSU =
            "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
    static final String DSIG = "http://www.w3.org/2000/09/xmldsig#";
    static final CallbackHandler PASSWORDS = callbacks -> {
        for (Callback each : callbacks) {
            ((WSPasswordCallback) each).setPassword("secret");
        }
    };

    static Properties keys(String file) {
        Properties found = new Properties();
        found.put("org.apache.wss4j.crypto.provider", "org.apache.wss4j.common.crypto.Merlin");
        found.put("org.apache.wss4j.crypto.merlin.keystore.type", "pkcs12");
        found.put("org.apache.wss4j.crypto.merlin.keystore.password", "secret");
        found.put("org.apache.wss4j.crypto.merlin.keystore.file", file);
        return found;
    }

    static Map<String, Object> both(String actions, String file) {
        Map<String, Object> how = new HashMap<>();
        how.put("action", actions);
        how.put("signaturePropRefId", "keys");
        how.put("encryptionPropRefId", "keys");
        how.put("decryptionPropRefId", "keys");
        how.put("keys", keys(file));
        how.put("passwordCallbackRef", PASSWORDS);
        return how;
    }

    static String headers(String kind, String... names) {
        StringBuilder parts = new StringBuilder();
        for (String name : names) {
            parts.append("{" + kind + "}{" + WSA + "}" + name + ";");
        }
        return parts.toString();
    }

    // What is encrypted: body, headers (in EncryptedHeader), or all (the signature, too).
    static WSS4JOutInterceptor sending(String actions, String file, String soap, String what) {
        Map<String, Object> how = both(actions, file);
        how.put("user", "mole");
        how.put("signatureKeyIdentifier", "DirectReference");
        how.put("signatureAlgorithm", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256");
        how.put("signatureDigestAlgorithm", "http://www.w3.org/2001/04/xmlenc#sha256");
        how.put("signatureParts", "{}{" + soap + "}Body;{}{" + WSU + "}Timestamp");
        how.put("optionalSignatureParts",
                headers("Element", "To", "Action", "MessageID", "ReplyTo", "RelatesTo"));
        how.put("encryptionUser", "gateway");
        how.put("encryptionSymAlgorithm", "http://www.w3.org/2009/xmlenc11#aes256-gcm");
        String parts = "{Content}{" + soap + "}Body;";
        if (!what.equals("body")) {
            parts += headers("Header", "Action", "MessageID");
        }
        if (what.equals("all")) {
            parts += "{Element}{" + DSIG + "}Signature;";
        }
        how.put("encryptionParts", parts);
        return new WSS4JOutInterceptor(how);
    }

    // ask URL 1.1|1.2 SENT TAKEN WHAT KEYS ACTION BODY; SENT and TAKEN are actions with commas.
    static String ask(String[] words) throws Exception {
        boolean first = words[2].equals("1.1");
        String soap = first ? "http://schemas.xmlsoap.org/soap/envelope/"
                : "http://www.w3.org/2003/05/soap-envelope";
        QName port = new QName("urn:test", "port");
        Service service = Service.create(new QName("urn:test", "service"));
        service.addPort(port,
                first ? SOAPBinding.SOAP11HTTP_BINDING : SOAPBinding.SOAP12HTTP_BINDING, words[1]);
        Dispatch<Source> dispatch = service.createDispatch(
                port, Source.class, Service.Mode.PAYLOAD, new WSAddressingFeature());
        Map<String, Object> context = dispatch.getRequestContext();
        context.put(Dispatch.SOAPACTION_USE_PROPERTY, true);
        context.put(Dispatch.SOAPACTION_URI_PROPERTY, words[7]);
        context.put("org.apache.cxf.transport.process_fault_on_http_400", true);
        Client client = ((DispatchImpl<?>) dispatch).getClient();
        client.getOutInterceptors().add(
                sending(words[3].replace(',', ' '), words[6], soap, words[5]));
        WSS4JInInterceptor taking = new WSS4JInInterceptor(both(words[4].replace(',', ' '), words[6]));
        client.getInInterceptors().add(taking);
        client.getInFaultInterceptors().add(taking);
        Source answer = dispatch.invoke(new StreamSource(new StringReader(words[8])));
        Transformer transformer = TransformerFactory.newInstance().newTransformer();
        transformer.setOutputProperty(OutputKeys.OMIT_XML_DECLARATION, "yes");
        StringWriter written = new StringWriter();
        transformer.transform(answer, new StreamResult(written));
        return "answer " + written.toString().replace('\n', ' ');
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("ready");
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            String said;
            try {
                said = ask(commands.nextLine().split(" ", 9));
            } catch (SOAPFaultException fault) {
                said = "fault " + fault.getMessage() + " | " + fault.getCause();
            } catch (Exception error) {
                said = "failed " + error + " | " + error.getCause();
            }
            System.out.println(said.replace('\n', ' '));
            System.out.flush();
        }
        System.exit(0);
    }
}
