// An OpenID provider for tests: node provider.mjs REDIRECT_URI. It prints its issuer when it listens, and ends with its
// standard input. Anyone logs in with any password. Everybody is in the groups that the account's name lists: eve+ops+dev.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const groupsOf = (account) => account.split("+").slice(1);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "remuda", client_secret: "the-secret-of-remuda", redirect_uris: [process.argv[2]],
        grant_types: ["authorization_code"], response_types: ["code"],
      },
      // Programs, one of them meant for another service.
      ...["pat+admins", "stranger"].map((client_id) => ({
        client_id, client_secret: "the-secret-of-a-program", redirect_uris: [], response_types: [],
        grant_types: ["client_credentials"],
      })),
    ],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    cookies: { keys: ["a key of tests"] },
    pkce: { required: () => true },
    async findAccount(context, account) {
      return { accountId: account, claims: () => ({ sub: account, name: account.split("+")[0], groups: groupsOf(account) }) };
    },
    async extraTokenClaims(context, token) {
      const client = token.clientId;
      return token.kind === "ClientCredentials" ? { name: client.split("+")[0], groups: groupsOf(client) } : undefined;
    },
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (context, resource) => ({
          scope: "", audience: resource === "urn:remuda" ? "remuda" : resource, accessTokenFormat: "jwt",
          accessTokenTTL: 60, jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit());
