// The 2D drawing in the browser. Atoms are the circles of class `atom-selector` that the drawing brings along; rings are
// drawn below them, so that they never take a click. Names are untrusted and reach the page as text and attributes.

const HINTS = {
  pick: "Hover over an atom, or use the arrow keys; Enter selects.",
  look: "Hover over an atom, or use the arrow keys.",
};
const UNHEARD_MS = 3000; // how long a click outlives messages that do not know of it
const EMPTY = { svg: "", label: "", atoms: [] };

export function mount(shell) {
  return new Molecule(shell);
}

class Molecule {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".molecule");
    this.drawing = this.root.querySelector(".drawing");
    this.name = this.root.querySelector(".name");
    this.large = EMPTY;
    this.message = {};
    this.atoms = []; // circles, by atom
    this.current = 0; // the one atom that Tab reaches
    this.pointed = null;
    this.selected = null;
    this.pick = null; // { stamp, until }: a click that Python did not name yet
    this.drawing.addEventListener("click", (event) => this.onClick(event));
    this.drawing.addEventListener("keydown", (event) => this.onKey(event));
    this.drawing.addEventListener("focusin", (event) => this.onFocus(event));
    this.drawing.addEventListener("focusout", () => this.paint());
    this.drawing.addEventListener("pointerover", (event) => this.hover(this.atomOf(event.target)));
    this.drawing.addEventListener("pointerleave", () => this.hover(null));
    this.onAtom = (event) => this.point(event.detail); // under the pointer, in any view
    globalThis.addEventListener("driftscope-atom", this.onAtom);
  }

  destroy() {
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
  }

  update(message) {
    if (message.large) this.take(message);
    if (this.holds !== message.holds) return false;
    this.message = message;
    this.drawing.classList.toggle("pickable", message.pickable);
    this.resize();
    if (this.isHeard(message)) this.select(message.selected);
    this.paint();
    return true;
  }

  isHeard(message) {
    if (this.pick && (message.heard === this.pick.stamp || performance.now() > this.pick.until)) this.pick = null;
    return this.pick === null;
  }

  // The drawing -------------------------------------------------------------------------------------------------------

  take({ large, holds }) {
    const heldFocus = this.focused();
    if (large.svg !== this.large.svg || this.atoms.length !== large.atoms.length) this.draw(large);
    this.large = large;
    this.holds = holds;
    this.svg?.setAttribute("aria-label", large.label);
    this.atoms.forEach((circle, atom) => circle.setAttribute("aria-label", large.atoms[atom] ?? `atom ${atom}`));
    this.setCurrent(Math.min(this.current, Math.max(0, this.atoms.length - 1)));
    if (heldFocus) this.atoms[this.current]?.focus({ preventScroll: true });
  }

  draw(large) {
    this.svg = safeSvg(large.svg);
    this.atoms = [];
    this.rings = {};
    this.pointed = null;
    this.selected = null;
    if (!this.svg) return this.drawing.replaceChildren("The drawing cannot be shown.");
    this.size = { width: Number.parseFloat(this.svg.getAttribute("width")), height: Number.parseFloat(this.svg.getAttribute("height")) };
    if (!this.svg.hasAttribute("viewBox")) this.svg.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    this.svg.removeAttribute("width");
    this.svg.removeAttribute("height");
    this.svg.setAttribute("role", "listbox");
    for (const circle of this.svg.querySelectorAll(".atom-selector")) this.adopt(circle);
    for (const kind of ["lit", "selected", "pointed", "focus"]) this.addRing(kind);
    this.drawing.replaceChildren(this.svg);
  }

  adopt(circle) {
    const atom = Number(circle.dataset.atom);
    this.atoms[atom] = circle;
    circle.setAttribute("role", "option");
    circle.setAttribute("aria-selected", "false");
    circle.setAttribute("tabindex", "-1");
  }

  addRing(kind) {
    const ring = newSvg("circle", { class: `ring ${kind}`, visibility: "hidden" });
    this.rings[kind] = ring;
    const first = this.svg.querySelector(".atom-selector");
    if (first) first.parentNode.insertBefore(ring, first);
  }

  resize() {
    if (!this.svg) return;
    const { width, height } = this.size;
    const most = this.message.height ? Math.min(width, (this.message.height * width) / height) : width;
    this.svg.style.maxWidth = `${most}px`;
  }

  // What is marked ----------------------------------------------------------------------------------------------------

  paint() {
    const focus = this.focused() ? this.current : null;
    const at = { lit: this.message.lit ?? null, selected: this.selected, pointed: this.pointed, focus };
    for (const [kind, ring] of Object.entries(this.rings ?? {})) this.place(ring, at[kind]);
    this.name.textContent = this.words(at);
    this.name.classList.toggle("hint", at.pointed === null && focus === null && at.selected === null && at.lit === null);
  }

  place(ring, atom) {
    const circle = this.atoms[atom ?? -1];
    ring.setAttribute("visibility", circle ? "visible" : "hidden");
    if (circle) for (const name of ["cx", "cy", "r"]) ring.setAttribute(name, circle.getAttribute(name));
  }

  words({ lit, selected, pointed, focus }) {
    const name = (atom) => this.large.atoms[atom] ?? `atom ${atom}`;
    if (pointed !== null || focus !== null) return name(pointed ?? focus);
    const parts = [];
    if (lit !== null) parts.push(`writing ${name(lit)}`);
    if (selected !== null) parts.push(`selected: ${name(selected)}`);
    return parts.join(" · ") || (this.atoms.length ? HINTS[this.message.pickable ? "pick" : "look"] : "");
  }

  select(atom) {
    this.atoms[this.selected ?? -1]?.setAttribute("aria-selected", "false");
    this.selected = atom ?? null;
    this.atoms[this.selected ?? -1]?.setAttribute("aria-selected", "true");
    if (this.selected !== null && !this.focused()) this.setCurrent(this.selected);
  }

  hover(atom) {
    if (atom !== this.pointed) globalThis.dispatchEvent(new CustomEvent("driftscope-atom", { detail: atom })); // heard here too
  }

  point(atom) {
    if (atom === this.pointed) return;
    this.pointed = atom;
    this.paint();
  }

  // Moving and picking ------------------------------------------------------------------------------------------------

  atomOf(target) {
    const circle = target.closest?.(".atom-selector");
    return circle ? Number(circle.dataset.atom) : null;
  }

  focused() {
    const active = this.drawing.getRootNode().activeElement;
    return active !== null && this.drawing.contains(active);
  }

  setCurrent(atom) {
    this.atoms[this.current]?.setAttribute("tabindex", "-1");
    this.current = atom;
    this.atoms[this.current]?.setAttribute("tabindex", "0");
  }

  onFocus(event) {
    const atom = this.atomOf(event.target);
    if (atom !== null) this.setCurrent(atom);
    this.paint();
  }

  onClick(event) {
    const atom = this.atomOf(event.target);
    if (atom === null) return;
    this.atoms[atom].focus({ preventScroll: true });
    this.choose(atom === this.selected ? null : atom);
  }

  choose(atom) {
    if (!this.message.pickable) return;
    this.select(atom);
    this.paint();
    this.pick = { stamp: sendPick(this.shell, atom), until: performance.now() + UNHEARD_MS };
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.atomOf(event.target) === null) return;
    const next = this.target(event.key);
    if (event.key === "Enter" || event.key === " ") this.choose(this.current === this.selected ? null : this.current);
    else if (event.key === "Escape" && this.selected !== null) this.choose(null);
    else if (next !== null) this.atoms[next].focus({ preventScroll: true });
    else if (event.key !== "Escape") return;
    event.preventDefault(); // no scrolling by Space or an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  target(key) {
    const last = this.atoms.length - 1;
    switch (key) {
      case "ArrowRight": return this.nearest(1, 0);
      case "ArrowLeft": return this.nearest(-1, 0);
      case "ArrowDown": return this.nearest(0, 1);
      case "ArrowUp": return this.nearest(0, -1);
      case "n": case "]": return Math.min(this.current + 1, last);
      case "p": case "[": return Math.max(this.current - 1, 0);
      case "Home": return 0;
      case "End": return last;
      default: return null;
    }
  }

  // The atom that is nearest in a direction; what is to the side counts as farther away.
  nearest(right, down) {
    const here = this.spot(this.current);
    let best = { atom: this.current, far: Infinity };
    this.atoms.forEach((_, atom) => {
      const there = this.spot(atom);
      const along = (there.x - here.x) * right + (there.y - here.y) * down;
      const aside = Math.abs((there.x - here.x) * down) + Math.abs((there.y - here.y) * right);
      const far = along + 2 * aside;
      if (along > 1 && aside <= 2 * along && far < best.far) best = { atom, far };
    });
    return best.atom;
  }

  spot(atom) {
    return { x: Number(this.atoms[atom].getAttribute("cx")), y: Number(this.atoms[atom].getAttribute("cy")) };
  }
}
