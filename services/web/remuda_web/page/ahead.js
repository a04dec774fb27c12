// Answers that are asked for before the view that shows them is there, by path. This module needs one other only, so what
// is shown first is asked for while all other modules are on their way.
import { get, paths } from "./api.js";

const answers = new Map(), asked = [];

export function askAhead(path) {
  const answer = get(path);
  asked.push(answer.catch(() => {})); // the view meets the error
  answers.set(path, answer);
}

// Resolved when all that was asked for ahead until now is answered.
export const answeredAhead = () => Promise.all(asked);

// The answer, once; then a view asks for itself.
export function askedAhead(path) {
  const answer = answers.get(path);
  answers.delete(path);
  return answer;
}

askAhead(paths.rms);
if (/^#?(overview)?([/?]|$)/.test(location.hash)) askAhead(paths.overview);
