// Answers that are asked for before the view that shows them is there, by path. This module needs one other only, so what
// is shown first is asked for while all other modules are on their way.
import { get, paths } from "./api.js";

const answers = new Map();

export function askAhead(path) {
  const asked = get(path);
  asked.catch(() => {}); // the view meets the error
  answers.set(path, asked);
}

// The answer, once; then a view asks for itself.
export function askedAhead(path) {
  const asked = answers.get(path);
  answers.delete(path);
  return asked;
}

askAhead(paths.rms);
if (/^#?(overview)?([/?]|$)/.test(location.hash)) askAhead(paths.overview);
