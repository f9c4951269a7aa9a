// The 3D view in the browser: what is selected, pointed at and said. viewer3d_scene.js, the rest of this module, draws.
// Names are untrusted and reach the page as text only.

const HINT = "Drag turns, + and - zoom, n and p step";
const WHEEL = "Arrow keys turn, too. After a click into the view the wheel zooms; before, it scrolls the page.";
const UNHEARD_MS = 3000; // how long a click outlives messages that do not know of it
const MARK_WORDS = { junk: "junk", cut: "cut", wrong: "wrong in space" };

export function mount(shell) {
  return new Viewer(shell);
}

class Viewer {
  constructor(shell) {
    this.shell = shell;
    this.root = shell.root.querySelector(".viewer");
    this.stage = this.root.querySelector(".stage");
    this.name = this.root.querySelector(".name");
    this.large = { models: [], names: [], label: "" };
    this.message = { marks: [], selected: null };
    this.selected = null;
    this.pointed = null;
    this.hovered = null; // what is pointed at in this very view
    this.pick = null; // { stamp, until }: a click that Python did not name yet
    this.scene = null;
    this.owed = null; // a drawing that waits until the view has a size: whether its models changed
    this.sizes = new ResizeObserver(() => this.catchUp());
    this.sizes.observe(this.stage);
    this.stage.title = WHEEL;
    this.stage.addEventListener("keydown", (event) => this.onKey(event));
    this.stage.addEventListener("pointerdown", () => this.stage.focus({ preventScroll: true }));
    this.stage.addEventListener("pointerleave", () => this.hover(null));
    this.stage.addEventListener("blur", () => this.point(null));
    this.stage.addEventListener("wheel", (event) => this.onWheel(event), { capture: true });
    this.onAtom = (event) => this.pointAt(event.detail); // under the pointer, in any view
    globalThis.addEventListener("driftscope-atom", this.onAtom);
    this.root.querySelector("[data-do=reset]").addEventListener("click", () => this.scene?.reset());
    this.root.querySelector("[data-do=png]").addEventListener("click", () => this.save());
  }

  update(message) {
    if (message.large) this.large = message.large;
    if (message.large) this.holds = message.holds;
    if (this.holds !== message.holds) return false;
    this.message = message;
    this.root.classList.toggle("bare", message.bare);
    this.stage.style.height = `${message.height}px`;
    this.stage.setAttribute("aria-label", this.large.label);
    if (this.isHeard(message)) this.selected = message.selected;
    this.listModels();
    this.draw(Boolean(message.large));
    return true;
  }

  restyle() {
    this.listModels();
    if (this.isHidden()) return this.owe(true);
    this.scene?.fit();
    this.scene?.dress();
    this.paint();
  }

  destroy() {
    this.gone = true;
    globalThis.removeEventListener("driftscope-atom", this.onAtom);
    this.sizes.disconnect();
    this.scene?.destroy();
  }

  isHeard(message) {
    if (this.pick && (message.heard === this.pick.stamp || performance.now() > this.pick.until)) this.pick = null;
    return this.pick === null;
  }

  // Drawing -----------------------------------------------------------------------------------------------------------

  async draw(changed) {
    const why = this.message.missing || (this.large.models.length ? await this.open() : "There is no conformer to show.");
    if (this.gone) return;
    this.say(why);
    if (why) return;
    if (this.isHidden()) return this.owe(changed);
    this.scene.fit();
    if (changed || !this.scene.drawn) this.scene.show(this.large.models, this.message.camera);
    this.paint();
  }

  // In a tab or a fold that is shut: WebGL cannot draw on no pixels.
  isHidden() {
    return !this.stage.clientWidth || !this.stage.clientHeight;
  }

  owe(changed) {
    this.owed = this.owed || changed;
  }

  catchUp() {
    if (this.owed === null || this.isHidden()) return;
    const changed = this.owed;
    this.owed = null;
    this.draw(changed);
  }

  // The scene, once; returns why there is none.
  async open() {
    if (this.scene || this.isHidden()) return "";
    if (!hasWebGl()) return "The 3D view needs WebGL, which this browser does not offer. All else works without it.";
    try {
      await library(this.message.script);
    } catch {
      return "3Dmol.js could not be loaded from this server. Reload the page; if that does not help, run `make prepare`.";
    }
    if (this.gone || this.scene) return "";
    const told = { onPick: (atom) => this.choose(atom === this.selected ? null : atom), onPoint: (atom) => this.hover(atom) };
    this.scene = new Scene(this.root.querySelector(".scene"), told);
    return "";
  }

  say(why) {
    const message = this.stage.querySelector(".message");
    message.hidden = !why;
    message.textContent = why;
    this.root.querySelector(".scene").classList.toggle("veiled", Boolean(why));
    for (const button of this.root.querySelectorAll("button")) button.disabled = Boolean(why);
    if (why) this.name.textContent = "";
  }

  paint() {
    if (!this.scene?.drawn) return;
    if (this.isHidden()) return this.owe(false);
    this.scene.fit();
    this.scene.mark({ selected: this.selected, pointed: this.pointed, marks: this.message.marks });
    const atom = this.pointed ?? this.selected;
    this.name.textContent = atom === null ? this.hint() : this.words(atom);
    this.name.classList.toggle("hint", atom === null);
  }

  hint() {
    return this.message.pickable ? `${HINT}, Enter selects.` : `${HINT}.`;
  }

  words(atom) {
    const parts = [this.large.names[atom] ?? `atom ${atom}`];
    const mark = this.message.marks.find(([marked]) => marked === atom)?.[1];
    if (mark && !parts[0].includes(MARK_WORDS[mark])) parts.push(MARK_WORDS[mark]);
    if (atom === this.selected) parts.push("selected");
    return parts.join(", ");
  }

  listModels() {
    const items = this.large.models.map((model) => {
      const item = document.createElement("li");
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = swatchColour(this.root, model, this.large.models);
      item.className = model.ghost ? "ghost" : "";
      item.append(swatch, model.label);
      return item;
    });
    this.root.querySelector(".models").replaceChildren(...items);
  }

  // Pointing and picking ----------------------------------------------------------------------------------------------

  // 3Dmol tells late that the pointer has gone: by then another view may have lit an atom.
  hover(place) {
    if (place === this.hovered) return;
    this.hovered = place;
    const atom = this.large.atoms?.[place ?? -1] ?? -1;
    globalThis.dispatchEvent(new CustomEvent("driftscope-atom", { detail: atom < 0 ? null : atom }));
    this.point(place);
  }

  point(atom) {
    if (atom === this.pointed) return;
    this.pointed = atom;
    this.paint();
  }

  pointAt(atom) {
    const place = this.large.atoms?.indexOf(atom) ?? -1;
    this.point(place < 0 ? null : place);
  }

  choose(atom) {
    if (!this.message.pickable) return;
    this.pick = { stamp: `${Date.now()}-${Math.random()}`, until: performance.now() + UNHEARD_MS };
    this.selected = atom;
    this.paint();
    this.shell.trigger("picked", { atom, stamp: this.pick.stamp });
  }

  onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.scene?.drawn) return;
    if (!this.act(event.key)) return;
    event.preventDefault(); // no scrolling by an arrow
    event.stopPropagation(); // and no shortcut of the page
  }

  act(key) {
    const { scene } = this;
    switch (key) {
      case "ArrowLeft": return scene.turn(-12, "y");
      case "ArrowRight": return scene.turn(12, "y");
      case "ArrowUp": return scene.turn(-12, "x");
      case "ArrowDown": return scene.turn(12, "x");
      case "+": case "=": return scene.zoom(1.15);
      case "-": case "_": return scene.zoom(1 / 1.15);
      case "0": case "r": return scene.reset();
      case "n": case "]": return this.step(1);
      case "p": case "[": return this.step(-1);
      case "Enter": case " ": return this.pickPointed();
      case "Escape": return this.clear();
      default: return false;
    }
  }

  step(by) {
    const from = this.pointed ?? this.selected;
    const next = from === null ? (by > 0 ? 0 : this.scene.atoms - 1) : from + by;
    this.point(Math.min(Math.max(next, 0), this.scene.atoms - 1));
    return true;
  }

  pickPointed() {
    if (this.pointed !== null) this.choose(this.pointed === this.selected ? null : this.pointed);
    return true;
  }

  clear() {
    this.point(null);
    if (this.selected !== null) this.choose(null);
    return true;
  }

  // The wheel scrolls the page, as everywhere, until a reader has clicked into the view.
  onWheel(event) {
    if (this.stage.getRootNode().activeElement !== this.stage && !event.ctrlKey) event.stopImmediatePropagation();
  }

  save() {
    const link = document.createElement("a");
    link.download = "molecule.png";
    link.href = this.scene.picture();
    link.click();
  }
}
