// Apache CXF's WS-ReliableMessaging: a client that sends events in sequences, and a consumer of them.
// Commands come on the standard input, each is answered with a line; what the consumer gets is a line
// that begins with "got".

import jakarta.jws.Oneway;
import jakarta.jws.WebParam;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlElement;
import jakarta.xml.bind.annotation.XmlRootElement;
import jakarta.xml.ws.Action;
import java.io.FileInputStream;
import java.security.KeyStore;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.TrustManagerFactory;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import org.apache.cxf.Bus;
import org.apache.cxf.BusFactory;
import org.apache.cxf.configuration.jsse.TLSClientParameters;
import org.apache.cxf.endpoint.Client;
import org.apache.cxf.frontend.ClientProxy;
import org.apache.cxf.jaxws.JaxWsProxyFactoryBean;
import org.apache.cxf.jaxws.JaxWsServerFactoryBean;
import org.apache.cxf.transport.http.HTTPConduit;
import org.apache.cxf.ws.addressing.WSAddressingFeature;
import org.apache.cxf.ws.rm.RMManager;
import org.apache.cxf.ws.rm.RetransmissionQueue;
import org.apache.cxf.ws.rm.feature.RMFeature;
import org.apache.cxf.ws.rm.manager.AcksPolicyType;
import org.apache.cxf.ws.rm.manager.DestinationPolicyType;
import org.apache.cxf.ws.rm.manager.SequenceTerminationPolicyType;
import org.apache.cxf.ws.rm.manager.SourcePolicyType;
import org.apache.cxf.ws.security.wss4j.WSS4JOutInterceptor;
import org.apache.wss4j.common.ext.WSPasswordCallback;

public class Reliable {
    static final String WEATHER = "urn:test:weather";

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    @XmlRootElement(name = "Storm", namespace = WEATHER)
    @XmlAccessorType(XmlAccessType.FIELD)
    public static class Storm {
        @XmlElement(namespace = WEATHER)
        public int speed;
    }

    @WebService(targetNamespace = "urn:test:sink")
    @SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
    public interface StormSink {
        @Oneway
        @Action(input = "urn:test:storm")
        void storm(@WebParam(name = "Storm", targetNamespace = WEATHER, partName = "p") Storm storm);
    }

    @WebService(endpointInterface = "Reliable$StormSink")
    public static class Sink implements StormSink {
        public void storm(Storm storm) {
            say("got " + storm.speed);
        }
    }

    static RMFeature reliably(String version) {
        RMFeature feature = new RMFeature();
        feature.setRMNamespace(version.equals("1.0")
                ? "http://schemas.xmlsoap.org/ws/2005/02/rm"
                : "http://docs.oasis-open.org/ws-rx/wsrm/200702");
        feature.setRM10AddressingNamespace(addressing(version));
        SourcePolicyType source = new SourcePolicyType();
        source.setIncludeOffer(version.equals("1.0"));
        SequenceTerminationPolicyType end = new SequenceTerminationPolicyType();
        end.setTerminateOnShutdown(true);
        source.setSequenceTerminationPolicy(end);
        feature.setSourcePolicy(source);
        DestinationPolicyType destination = new DestinationPolicyType();
        AcksPolicyType acks = new AcksPolicyType();
        acks.setImmediaAcksTimeout(0L);
        destination.setAcksPolicy(acks);
        feature.setDestinationPolicy(destination);
        return feature;
    }

    static org.apache.cxf.ws.rm.manager.RM10AddressingNamespaceType addressing(String version) {
        org.apache.cxf.ws.rm.manager.RM10AddressingNamespaceType type =
                new org.apache.cxf.ws.rm.manager.RM10AddressingNamespaceType();
        type.setUri("http://www.w3.org/2005/08/addressing");
        return type;
    }

    static Properties keys(String file) {
        Properties found = new Properties();
        found.put("org.apache.wss4j.crypto.provider", "org.apache.wss4j.common.crypto.Merlin");
        found.put("org.apache.wss4j.crypto.merlin.keystore.type", "pkcs12");
        found.put("org.apache.wss4j.crypto.merlin.keystore.password", "secret");
        found.put("org.apache.wss4j.crypto.merlin.keystore.file", file);
        return found;
    }

    static WSS4JOutInterceptor signing(String file, String soap) {
        CallbackHandler passwords = callbacks -> {
            for (Callback each : callbacks) {
                ((WSPasswordCallback) each).setPassword("secret");
            }
        };
        String wsa = "http://www.w3.org/2005/08/addressing";
        String rm = "http://docs.oasis-open.org/ws-rx/wsrm/200702";
        String wsu = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
        Map<String, Object> how = new HashMap<>();
        how.put("action", "Timestamp Signature");
        how.put("user", "mole");
        how.put("signaturePropRefId", "keys");
        how.put("keys", keys(file));
        how.put("passwordCallbackRef", passwords);
        how.put("signatureKeyIdentifier", "DirectReference");
        how.put("signatureAlgorithm", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256");
        how.put("signatureDigestAlgorithm", "http://www.w3.org/2001/04/xmlenc#sha256");
        how.put("signatureParts", "{}{" + soap + "}Body;{}{" + wsu + "}Timestamp");
        StringBuilder parts = new StringBuilder();
        for (String name : new String[] {"To", "Action", "MessageID", "ReplyTo", "RelatesTo"}) {
            parts.append("{Element}{" + wsa + "}" + name + ";");
        }
        for (String name : new String[] {"Sequence", "SequenceAcknowledgement", "AckRequested"}) {
            parts.append("{Element}{" + rm + "}" + name + ";");
        }
        how.put("optionalSignatureParts", parts.toString());
        return new WSS4JOutInterceptor(how);
    }

    static TLSClientParameters tls(String file) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new FileInputStream(file), "secret".toCharArray());
        KeyManagerFactory own = KeyManagerFactory.getInstance("SunX509");
        own.init(store, "secret".toCharArray());
        TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
        trusted.init(store);
        TLSClientParameters found = new TLSClientParameters();
        found.setKeyManagers(own.getKeyManagers());
        found.setTrustManagers(trusted.getTrustManagers());
        return found;
    }

    // send URL VERSION COUNT plain|signed|tls KEYS
    static String send(String[] words) throws Exception {
        Bus bus = BusFactory.newInstance().createBus();
        if (words[4].equals("signed")) {
            // Of the bus: the protocol messages of a sequence pass none of the client's.
            bus.getOutInterceptors().add(signing(words[5], "http://schemas.xmlsoap.org/soap/envelope/"));
        }
        JaxWsProxyFactoryBean factory = new JaxWsProxyFactoryBean();
        factory.setBus(bus);
        factory.setServiceClass(StormSink.class);
        factory.setAddress(words[1]);
        factory.getFeatures().add(new WSAddressingFeature());
        factory.getFeatures().add(reliably(words[2]));
        StormSink sink = (StormSink) factory.create();
        Client client = ClientProxy.getClient(sink);
        if (words[4].equals("tls")) {
            ((HTTPConduit) client.getConduit()).setTlsClientParameters(tls(words[5]));
        }
        RMManager manager = bus.getExtension(RMManager.class);
        int count = Integer.parseInt(words[3]);
        for (int number = 1; number <= count; number++) {
            Storm storm = new Storm();
            storm.speed = number;
            sink.storm(storm);
        }
        RetransmissionQueue left = manager.getRetransmissionQueue();
        for (int waited = 0; waited < 400 && !left.isEmpty(); waited++) {
            Thread.sleep(50);
        }
        return "sent " + left.isEmpty();
    }

    public static void main(String[] arguments) throws Exception {
        for (String version : new String[] {"1.0", "1.1"}) {
            JaxWsServerFactoryBean factory = new JaxWsServerFactoryBean();
            factory.setServiceBean(new Sink());
            factory.setAddress(arguments[0] + "/" + version);
            factory.getFeatures().add(new WSAddressingFeature());
            factory.getFeatures().add(reliably(version));
            factory.create();
        }
        say("ready");
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            try {
                say(send(commands.nextLine().split(" ", 6)));
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                say("failed " + String.valueOf(cause).replace('\n', ' '));
            }
        }
        System.exit(0);
    }
}
