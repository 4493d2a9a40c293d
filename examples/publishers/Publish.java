// Publishes one event of Grid SOAP Events: java Publish.java http://127.0.0.1:8080/soap TYPE MESSAGE
import java.net.*;
import java.nio.charset.StandardCharsets;

class Publish {
    static String text(String value) {
        return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }

    public static void main(String[] args) throws Exception {
        byte[] body = ("<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body>"
            + "<m:handleEvent xmlns:m='urn:example'><event>"
            + "<eventNamespace>http://example.org/publishers</eventNamespace>"
            + "<eventType>" + text(args[1]) + "</eventType>"
            + "<source>" + InetAddress.getLoopbackAddress().getHostName() + "</source>"
            + "<timestamp>" + System.currentTimeMillis() + "</timestamp>"
            + "<message>" + text(args[2]) + "</message>"
            + "</event></m:handleEvent></e:Body></e:Envelope>").getBytes(StandardCharsets.UTF_8);
        var connection = (HttpURLConnection) new URL(args[0]).openConnection();
        connection.setReadTimeout(30000);
        connection.setDoOutput(true);
        connection.setRequestProperty("Content-Type", "text/xml; charset=utf-8");
        connection.setRequestProperty("SOAPAction", "\"urn:example#handleEvent\"");
        connection.getOutputStream().write(body);
        if (connection.getResponseCode() != 200) throw new Exception(connection.getResponseMessage());
    }
}
