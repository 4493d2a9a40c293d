// An identity provider, on oidc-provider of npm, at a port of this machine; a line of standard input
// that says "rotate" has it sign with new keys from then on.
// Arguments: the port, and the address of the gateway's administration.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

console.info = () => {}; // What it says there, of its defaults, is no answer of this program.
const library = pathToFileURL(`${process.env.NODE_PATH}/oidc-provider/lib/index.js`);
const { default: Provider } = await import(library);
const [, , port, gateway] = process.argv;
const issuer = `http://127.0.0.1:${port}`;
const people = { ada: { groups: ["watchers"] }, eve: { groups: [] } };
const program = (client_id) => ({
  client_id,
  client_secret: "a secret: +/%",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
});

function newKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), alg: "RS256", use: "sig", kid: randomUUID() };
}

function serve() {
  return new Provider(issuer, {
    jwks: { keys: [newKey()] },
    cookies: { keys: [randomUUID()] },
    clients: [
      program("north-mole"),
      program("visitor"),
      {
        client_id: "dragoman-console",
        token_endpoint_auth_method: "none",
        redirect_uris: [`${gateway}/console/login/openid/back`],
        post_logout_redirect_uris: [`${gateway}/console/login`],
      },
    ],
    claims: { openid: ["sub"], profile: ["groups"] },
    scopes: ["openid", "profile", "sensors"],
    findAccount: (_, name) =>
      people[name] && { accountId: name, claims: () => ({ sub: name, ...people[name] }) },
    extraTokenClaims: (_, token) => ({
      roles: token.clientId === "north-mole" ? ["sensors"] : [],
    }),
    pkce: { required: () => true },
    features: {
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: "sensors",
          audience: "dragoman",
          accessTokenFormat: "jwt",
        }),
      },
    },
  }).callback();
}

let answer = serve();
createServer((request, response) => answer(request, response)).listen(port, "127.0.0.1", () =>
  console.log("ready"),
);
createInterface({ input: process.stdin })
  .on("line", () => {
    answer = serve();
    console.log("rotated");
  })
  .on("close", () => process.exit());
