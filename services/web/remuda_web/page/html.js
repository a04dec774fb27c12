// Preact with its hooks, and htm for templates, in one place.
import htm from "/page/vendor/htm.js";
import { h, render } from "/page/vendor/preact.js";

export { useEffect, useMemo, useRef, useState } from "/page/vendor/hooks.js";
export const html = htm.bind(h);
export { render };
