// Apache CXF's WS-Eventing as subscriber, sink and event source. Commands come on the standard input,
// each is answered with a line; what arrives at a sink is a line that begins with "got".

import jakarta.jws.Oneway;
import jakarta.jws.WebParam;
import jakarta.jws.WebService;
import jakarta.jws.soap.SOAPBinding;
import jakarta.xml.bind.JAXBElement;
import jakarta.xml.bind.annotation.XmlAccessType;
import jakarta.xml.bind.annotation.XmlAccessorType;
import jakarta.xml.bind.annotation.XmlElement;
import jakarta.xml.bind.annotation.XmlRootElement;
import jakarta.xml.ws.Action;
import jakarta.xml.ws.handler.Handler;
import jakarta.xml.ws.soap.Addressing;
import jakarta.xml.ws.soap.SOAPFaultException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import javax.xml.namespace.QName;
import org.apache.cxf.jaxws.JaxWsProxyFactoryBean;
import org.apache.cxf.jaxws.JaxWsServerFactoryBean;
import org.apache.cxf.ws.addressing.AttributedURIType;
import org.apache.cxf.ws.addressing.EndpointReferenceType;
import org.apache.cxf.ws.addressing.ReferenceParametersType;
import org.apache.cxf.ws.addressing.WSAddressingFeature;
import org.apache.cxf.ws.eventing.DeliveryType;
import org.apache.cxf.ws.eventing.EventType;
import org.apache.cxf.ws.eventing.ExpirationType;
import org.apache.cxf.ws.eventing.FilterType;
import org.apache.cxf.ws.eventing.FormatType;
import org.apache.cxf.ws.eventing.GetStatus;
import org.apache.cxf.ws.eventing.ObjectFactory;
import org.apache.cxf.ws.eventing.Renew;
import org.apache.cxf.ws.eventing.Subscribe;
import org.apache.cxf.ws.eventing.SubscribeResponse;
import org.apache.cxf.ws.eventing.SubscriptionEnd;
import org.apache.cxf.ws.eventing.Unsubscribe;
import org.apache.cxf.ws.eventing.backend.manager.SubscriptionManagerImpl;
import org.apache.cxf.ws.eventing.backend.manager.SubscriptionManagerInterfaceForEventSources;
import org.apache.cxf.ws.eventing.backend.manager.SubscriptionManagerInterfaceForManagers;
import org.apache.cxf.ws.eventing.backend.manager.SubscriptionManagerInterfaceForNotificators;
import org.apache.cxf.ws.eventing.backend.notification.EventSinkInterfaceNotificatorService;
import org.apache.cxf.ws.eventing.backend.notification.SubscriptionEndStatus;
import org.apache.cxf.ws.eventing.backend.notification.WrappedSink;
import org.apache.cxf.ws.eventing.eventsource.AbstractEventSource;
import org.apache.cxf.ws.eventing.eventsource.EventSourceEndpoint;
import org.apache.cxf.ws.eventing.manager.AbstractSubscriptionManager;
import org.apache.cxf.ws.eventing.manager.SubscriptionManagerEndpoint;
import org.apache.cxf.ws.eventing.shared.handlers.ReferenceParametersAddingHandler;

public class Peer {
    static final String WEATHER = "urn:test:weather";
    static final String WSE = "http://www.w3.org/2011/03/ws-evt";
    static final ObjectFactory ELEMENTS = new ObjectFactory();

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    // Sinks.

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

    @WebService(targetNamespace = WSE)
    @SOAPBinding(parameterStyle = SOAPBinding.ParameterStyle.BARE)
    public interface SubscriptionEnds {
        @Oneway
        @Action(input = WSE + "/SubscriptionEnd")
        void ended(
                @WebParam(name = "SubscriptionEnd", targetNamespace = WSE, partName = "body")
                        SubscriptionEnd end);
    }

    @WebService(endpointInterface = "Peer$StormSink")
    @Addressing(enabled = true, required = true)
    public static class Raw implements StormSink {
        public void storm(Storm storm) {
            say("got raw " + storm.speed);
        }
    }

    @WebService(endpointInterface = "org.apache.cxf.ws.eventing.backend.notification.WrappedSink")
    @Addressing(enabled = true, required = true)
    public static class Wrapped implements WrappedSink {
        public void notifyEvent(EventType event) {
            org.w3c.dom.Element storm = (org.w3c.dom.Element) event.getContent().get(0);
            say("got wrapped " + storm.getTextContent() + " " + event.getActionURI());
        }
    }

    @WebService(endpointInterface = "Peer$SubscriptionEnds")
    @Addressing(enabled = true, required = true)
    public static class Ends implements SubscriptionEnds {
        public void ended(SubscriptionEnd end) {
            say("got end " + end.getStatus());
        }
    }

    // The event source.

    static SubscriptionManagerImpl manager;

    public static class Source extends AbstractEventSource {
        protected SubscriptionManagerInterfaceForEventSources getSubscriptionManagerBackend() {
            return manager;
        }
    }

    public static class Manager extends AbstractSubscriptionManager {
        protected SubscriptionManagerInterfaceForManagers getSubscriptionManagerBackend() {
            return manager;
        }
    }

    public static class Notificator extends EventSinkInterfaceNotificatorService {
        protected SubscriptionManagerInterfaceForNotificators obtainManager() {
            return manager;
        }

        protected Class<?> getEventSinkInterface() {
            return StormSink.class;
        }
    }

    static void serve(Object bean, Class<?> type, String url) {
        JaxWsServerFactoryBean factory = new JaxWsServerFactoryBean();
        if (type != null) {
            factory.setServiceClass(type);
        }
        factory.setServiceBean(bean);
        factory.setAddress(url);
        factory.getFeatures().add(new WSAddressingFeature());
        factory.create();
    }

    // The subscriber.

    static <T> T proxy(Class<T> type, String url, Handler<?>... handlers) {
        JaxWsProxyFactoryBean factory = new JaxWsProxyFactoryBean();
        factory.setServiceClass(type);
        factory.setAddress(url);
        factory.getFeatures().add(new WSAddressingFeature());
        for (Handler<?> handler : handlers) {
            factory.getHandlers().add(handler);
        }
        return type.cast(factory.create());
    }

    static EndpointReferenceType reference(String url) {
        EndpointReferenceType reference = new EndpointReferenceType();
        AttributedURIType address = new AttributedURIType();
        address.setValue(url);
        reference.setAddress(address);
        ReferenceParametersType parameters = new ReferenceParametersType();
        QName key = new QName("urn:test:key", "Key");
        parameters.getAny().add(new JAXBElement<String>(key, String.class, "7"));
        reference.setReferenceParameters(parameters);
        return reference;
    }

    static ExpirationType expires(String text) {
        ExpirationType expires = new ExpirationType();
        boolean best = text.startsWith("~");
        expires.setValue(best ? text.substring(1) : text);
        if (best) {
            expires.setBestEffort(true);
        }
        return expires;
    }

    static final Map<String, SubscribeResponse> GRANTED = new HashMap<>();

    static SubscriptionManagerEndpoint managing(String sink) {
        EndpointReferenceType reference = GRANTED.get(sink).getSubscriptionManager();
        return proxy(
                SubscriptionManagerEndpoint.class,
                reference.getAddress().getValue(),
                new ReferenceParametersAddingHandler(reference.getReferenceParameters()));
    }

    static String subscribe(String source, String own, String sink, String format, String until,
            String filter) throws Exception {
        Subscribe wanted = new Subscribe();
        wanted.setEndTo(reference(own + "/end"));
        DeliveryType delivery = new DeliveryType();
        delivery.getContent().add(ELEMENTS.createNotifyTo(reference(own + "/" + sink)));
        wanted.setDelivery(delivery);
        if (!format.equals("-")) {
            FormatType named = new FormatType();
            named.setName(format);
            wanted.setFormat(named);
        }
        if (!until.equals("-")) {
            wanted.setExpires(expires(until));
        }
        if (!filter.equals("-")) {
            FilterType expression = new FilterType();
            expression.getContent().add(filter);
            wanted.setFilter(expression);
        }
        SubscribeResponse granted = proxy(EventSourceEndpoint.class, source).subscribeOp(wanted);
        GRANTED.put(sink, granted);
        return granted.getGrantedExpires().getValue();
    }

    static String obey(String own, Notificator notificator, String[] words) throws Exception {
        switch (words[0]) {
            case "subscribe":
                return subscribe(words[1], own, words[2], words[3], words[4], words[5]);
            case "renew":
                Renew renew = new Renew();
                renew.setExpires(expires(words[2]));
                return managing(words[1]).renewOp(renew).getGrantedExpires().getValue();
            case "status":
                return managing(words[1]).getStatusOp(new GetStatus()).getGrantedExpires().getValue();
            case "unsubscribe":
                managing(words[1]).unsubscribeOp(new Unsubscribe());
                return "done";
            case "emit":
                Storm storm = new Storm();
                storm.speed = Integer.parseInt(words[1]);
                notificator.dispatchEvent(storm);
                return String.valueOf(manager.getTickets().size());
            case "end":
                manager.subscriptionEnd(manager.getTickets().get(0).getUuid(), "Bye.",
                        SubscriptionEndStatus.SOURCE_SHUTTING_DOWN);
                return "done";
            default:
                return "unknown";
        }
    }

    public static void main(String[] arguments) throws Exception {
        String own = arguments[0];
        manager = new SubscriptionManagerImpl(own + "/manager");
        Notificator notificator = new Notificator();
        notificator.start();
        manager.registerNotificator(notificator);
        serve(new Raw(), null, own + "/raw");
        serve(new Wrapped(), null, own + "/wrapped");
        serve(new Ends(), null, own + "/end");
        serve(new Source(), EventSourceEndpoint.class, own + "/soap");
        serve(new Manager(), SubscriptionManagerEndpoint.class, own + "/manager");
        say("ready");
        Scanner commands = new Scanner(System.in);
        while (commands.hasNextLine()) {
            try {
                say(obey(own, notificator, commands.nextLine().split(" ", 6)));
            } catch (SOAPFaultException fault) {
                say("fault " + fault.getFault().getFaultCodeAsQName().getLocalPart());
            }
        }
        System.exit(0);
    }
}
