// Who uses the page: the way in, by a token or at the OpenID provider, the name, and the way out.
import { html, useEffect, useState } from "./html.js";
import { get, paths, token } from "./api.js";

const AT_PROVIDER = "logged in at the provider";

// `refusal`: the Problem with status 401. It names the path of the login where there is an OpenID provider.
export function Login({ refusal }) {
  const enter = (event) => { event.preventDefault(); token.set(new FormData(event.target).get("token")); location.reload(); };
  const provider = refusal.said.login;
  return html`<main id="main" class="login"><h1>remuda</h1>
    ${token.get() && html`<p class="problem" role="alert">${refusal.message}</p>`}
    ${provider && html`<p><a class="button primary" href=${provider} onClick=${() => { token.forget(); sessionStorage.setItem(AT_PROVIDER, "1"); }}>Log in</a> <span class="dim">with your account</span></p>`}
    <form onSubmit=${enter}><input name="username" autocomplete="username" value="token" hidden /><label>${provider ? "Or with a token" : "Token"} <input name="token" type="password" autocomplete="current-password" required /></label> <button class=${provider ? "" : "primary"}>Enter</button></form></main>`;
}

export function WhoIsIt() {
  const [me, set] = useState(null);
  useEffect(() => { get(paths.me).then(({ data }) => set(data), () => set(null)); }, []);
  if (!me || !me.operator) return null;
  const leave = async () => {
    if (token.get()) token.forget();
    else await fetch(paths.logout, { method: "POST" });
    sessionStorage.removeItem(AT_PROVIDER);
    location.reload();
  };
  return html`<span class="who"><span title=${me.groups.length ? `groups: ${me.groups.join(", ")}` : null}>${me.operator}</span>
    ${(token.get() || sessionStorage.getItem(AT_PROVIDER)) && html` <button onClick=${leave}>Log out</button>`}</span>`;
}
