// Preact with its hooks, and htm for templates, in one place.
import htm from "./vendor/htm.js";
import { Component, h, render } from "./vendor/preact.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export const html = htm.bind(h);
export { Component, render };
