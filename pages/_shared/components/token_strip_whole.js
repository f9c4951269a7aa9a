// The strip of a text that is there: Streamlit calls the default export at the first mount, again whenever the data or
// the theme changes, and sometimes twice for one change. Part of the module of token_strip.js.

const strips = new WeakMap(); // root element -> Strip

export default function (component) {
  const { data, parentElement, setStateValue } = component;
  const root = parentElement.querySelector(".strip");
  if (!root || !data) return;
  if (data.legend_of) {
    root.classList.add("only-legend");
    return paintLegend(root, data.legend_of);
  }
  let strip = strips.get(root);
  if (!strip) strips.set(root, (strip = new Strip(root)));
  strip.send = (value) => setStateValue("selected", value);
  strip.update(data);
  // No cleanup: all listeners sit on the root and go with it.
}
