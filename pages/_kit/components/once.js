// The loader of a component whose large parts come once; once.py says why. A module is kept for the whole page, so that
// three strips load it once. It exports `mount(shell)`; what that returns has `update(message)`, which answers false
// when it cannot use the message because an earlier one is missing, and perhaps `destroy()`.
const AGAIN_MS = 2000; // an answer can be passed over as well
const modules = (globalThis.driftscopeModules ??= new Map()); // build -> { code, module }
const shells = new WeakMap(); // root element -> Shell

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  const root = parentElement.querySelector(".once");
  if (!root || !data) return;
  if (!shells.has(root)) shells.set(root, new Shell(root));
  const shell = shells.get(root);
  shell.state = setStateValue;
  shell.trigger = setTriggerValue;
  shell.receive(data);
  return () => root.isConnected || shell.destroy(); // Streamlit also ends a call that the next message overtook
}

class Shell {
  constructor(root) {
    this.root = root;
    this.waiting = []; // messages that came before the module
    this.again = null; // a timer: the question was asked
  }

  receive(data) {
    if (data === this.data) return; // Streamlit calls again when the theme changes
    this.data = data;
    if (data.code && !modules.has(data.build)) modules.set(data.build, { code: data.code, module: load(data.code.js) });
    if (!modules.has(data.build)) return this.ask();
    this.waiting.push(data);
    if (this.part) this.hand();
    else this.start(modules.get(data.build));
  }

  async start({ code, module }) {
    const { mount } = await module;
    if (!this.part) {
      this.root.innerHTML = code.html; // our own file
      const style = document.createElement("style");
      style.textContent = code.css;
      this.root.append(style);
      this.part = mount(this);
    }
    this.hand();
  }

  hand() {
    let complete = true;
    for (const message of this.waiting.splice(0)) complete = this.part.update(message) !== false;
    if (complete) this.answered();
    else this.ask();
  }

  ask() {
    if (this.again !== null) return;
    if (document.hidden) return document.addEventListener("visibilitychange", () => this.repeat(), { once: true });
    this.again = setTimeout(() => this.repeat(), AGAIN_MS);
    this.trigger("ask", Date.now());
  }

  repeat() {
    this.answered();
    const known = this.part && this.part.update(this.data) !== false;
    if (!known && this.root.isConnected) this.ask();
  }

  answered() {
    clearTimeout(this.again);
    this.again = null;
  }

  destroy() {
    this.answered();
    this.part?.destroy?.();
  }
}

async function load(source) {
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  return import(url);
}
