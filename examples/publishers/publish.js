// Publishes one event of Grid SOAP Events: node publish.js http://127.0.0.1:8080/soap TYPE MESSAGE
const { hostname } = require("node:os");
const [url, type, message] = process.argv.slice(2);
const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const text = (value) => String(value).replace(/[&<>]/g, (mark) => marks[mark]);
const field = ([name, value]) => `<${name}>${text(value)}</${name}>`;
const fields = {
  eventNamespace: "http://example.org/publishers",
  eventType: type,
  source: hostname(),
  timestamp: Date.now(),
  message,
};
const body =
  "<e:Envelope xmlns:e='http://schemas.xmlsoap.org/soap/envelope/'><e:Body>" +
  "<m:handleEvent xmlns:m='urn:example'><event>" +
  Object.entries(fields).map(field).join("") +
  "</event></m:handleEvent></e:Body></e:Envelope>";
const headers = { "Content-Type": "text/xml; charset=utf-8", SOAPAction: '"urn:example#handleEvent"' };
const signal = AbortSignal.timeout(30000);
fetch(url, { method: "POST", headers, body, signal }).then(
  async (answer) => answer.ok || (console.error(await answer.text()), process.exit(1)),
  (error) => (console.error(String(error.cause ?? error)), process.exit(1)),
);
