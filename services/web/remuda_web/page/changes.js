// What differs between two texts of the configuration: setting by setting, and line by line.
import { html } from "./html.js";

export function Changes({ found }) {
  const kind = (line) => (/^(\+\+\+|---|@@)/.test(line) ? "dim" : line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "");
  return html`${!found.changes.length && html`<p class="dim">No setting differs.</p>`}<ul>${found.changes.map((line) => html`<li>${line}</li>`)}</ul>
    ${found.lines.length > 0 && html`<pre class="diff" tabindex="0" aria-label="Difference">${found.lines.map((line) => html`<span class=${kind(line)}>${line.replace(/\n$/, "")}${"\n"}</span>`)}</pre>`}`;
}
