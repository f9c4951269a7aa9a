// Streamlit makes a step for the browser's Back of every change of the address that its script asks for: also of the
// one that a page writes as it comes up, and of the page before once more, without its options, on the way to another.
// So one act of the reader makes at most one step, and what comes without an act, or behind a step back, makes none.
const ACTS = ["pointerdown", "click", "keydown", "driftscope-pick"]; // the last is a click in the 3D view's frame

function limitSteps() {
  const push = history.pushState.bind(history);
  let isDone = true;
  for (const act of ACTS) addEventListener(act, () => (isDone = false), true);
  addEventListener("popstate", () => (isDone = true), true);
  history.pushState = (...step) => {
    if (isDone) history.replaceState(...step);
    else push(...step);
    isDone = true;
  };
  return true;
}

// Charts and drawings are made in Python in the colours of the theme that it knew of, and Streamlit runs no script for
// another theme: it is asked for once.
function redraw(element, drawn, setTriggerValue) {
  const ground = getComputedStyle(element).getPropertyValue("--st-background-color").trim();
  const isAsked = globalThis.driftscopeAsked === ground;
  globalThis.driftscopeAsked = ground === drawn ? null : ground;
  globalThis.driftscopeRedraw = () => setTriggerValue("ground", ground); // the newest: Streamlit passes over others
  // Later than what parts of the page send for the new theme: Streamlit takes one part's values at a time.
  if (ground !== drawn && !isAsked) setTimeout(() => globalThis.driftscopeRedraw(), 100);
}

export default function ({ data, parentElement, setTriggerValue }) {
  globalThis.driftscopeSteps ??= limitSteps();
  if (data?.ground) return redraw(parentElement.querySelector("span"), data.ground, setTriggerValue);
  if (!data || data.stamp === globalThis.driftscopeStamp) return; // Streamlit calls again when the theme changes
  globalThis.driftscopeStamp = data.stamp;
  const url = new URL(location.href);
  for (const [name, values] of Object.entries(data.parameters)) {
    url.searchParams.delete(name);
    for (const value of values) url.searchParams.append(name, value);
  }
  if (url.href !== location.href) history.replaceState(history.state, "", url);
  setTriggerValue("replaced", data.stamp);
}
