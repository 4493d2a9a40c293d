// A typed client of the gateway, on what node-soap makes of its own description.
// Arguments: wsn or wse, the address of the gateway, that of a consumer.
"use strict";

const soap = require("soap");

const WSE = "http://schemas.xmlsoap.org/ws/2004/08/eventing";
const WSA04 = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
const EVENT = '<w:storm xmlns:w="urn:weather">node</w:storm>';
const [, , service, gateway, consumer] = process.argv;

async function main() {
  const url = `${gateway}/soap?wsdl=${service}`;
  const client = await soap.createClientAsync(url, { forceSoap12Headers: true });
  const name = service === "wsn" ? "WSNotification" : "WSEventing";
  const told = [];
  const ask = (port, operation, request, address) => {
    client.setEndpoint(address || `${gateway}/soap`); // It makes the ports anew.
    return new Promise((resolve, reject) =>
      client[name][`${port}Soap12`][operation](request, (error, result) =>
        error ? reject(error) : resolve(result || {}),
      ),
    );
  };
  const address = (reference) => reference.Address.$value || reference.Address;
  if (service === "wsn") {
    const subscribed = await ask("NotificationProducer", "Subscribe", {
      ConsumerReference: { Address: consumer },
      InitialTerminationTime: "PT1H",
    });
    told.push(["Subscribe", subscribed.TerminationTime - subscribed.CurrentTime]);
    const manager = address(subscribed.SubscriptionReference);
    const message = { NotificationMessage: [{ Message: { $xml: EVENT } }] };
    await ask("NotificationConsumer", "Notify", message);
    const renewed = await ask("PausableSubscriptionManager", "Renew", { TerminationTime: "PT2H" }, manager);
    told.push(["Renew", renewed.TerminationTime - renewed.CurrentTime]);
    const made = await ask("CreatePullPoint", "CreatePullPoint", {});
    const box = address(made.PullPoint);
    await ask("NotificationProducer", "Subscribe", { ConsumerReference: { Address: box } });
    await ask("NotificationConsumer", "Notify", message);
    let messages = [];
    for (let tries = 0; !messages.length && tries < 1000; tries++) {
      const got = await ask("PullPoint", "GetMessages", { MaximumNumber: 5 }, box);
      messages = got.NotificationMessage || [];
    }
    told.push(["GetMessages", messages.length]);
    await ask("PullPoint", "DestroyPullPoint", {}, box);
    await ask("PausableSubscriptionManager", "Unsubscribe", {}, manager);
    const fault = await ask("PausableSubscriptionManager", "Unsubscribe", {}, manager).catch((error) => error);
    told.push(["fault", JSON.stringify(fault.root.Envelope.Body.Fault).includes("ResourceUnknownFault")]);
  } else {
    const notifyTo = `<e:NotifyTo xmlns:e="${WSE}" xmlns:a="${WSA04}"><a:Address>${consumer}</a:Address></e:NotifyTo>`;
    const subscribed = await ask("EventSource", "Subscribe", { Delivery: { $xml: notifyTo }, Expires: "PT1H" });
    told.push(["Subscribe", subscribed.Expires]);
    const manager = address(subscribed.SubscriptionManager);
    const manage = "EventSubscriptionManager";
    told.push(["Renew", (await ask(manage, "Renew", { Expires: "PT2H" }, manager)).Expires]);
    const status = await ask(manage, "GetStatus", {}, manager);
    told.push(["GetStatus", status.Expires.startsWith("PT2H") || status.Expires.startsWith("PT1H5")]);
    await ask(manage, "Unsubscribe", {}, manager);
    const fault = await ask(manage, "GetStatus", {}, manager).catch((error) => error);
    told.push(["fault", fault instanceof Error]);
  }
  console.log(JSON.stringify(told));
}

main().catch((error) => {
  console.error(error.stack, error.body);
  process.exit(1);
});
