// In the frame of a 3D view: its camera, keys and buttons, and what links it with the page's other views: the atom under
// the pointer, the one that is selected, and clicks, which an atom view hands on. `scene` is from view3d.py; names are
// untrusted and are written as text.

const HINT = "Drag turns, + and - zoom, n and p step, Enter selects.";
const WHEEL = "Arrow keys turn, too. After a click into the view the wheel zooms; before, it scrolls the page.";
const NO_SCRIPT = "3Dmol.js could not be loaded from this server. Reload the page; if that does not help, run `make prepare`.";
const NO_WEBGL = "The 3D view needs WebGL, which this browser does not offer. All else works without it.";
const page = window.parent;
const why = !window.$3Dmol ? NO_SCRIPT : (page.driftscopeWebGl ??= hasWebGl()) ? "" : NO_WEBGL;
// py3Dmol's drawing waits for this: until the page is up; for ever, where there is nothing to draw with.
var $3Dmolpromise = new Promise((draw) => why || (window.requestIdleCallback ?? setTimeout)(draw));
if (!why) drawOnceAFrame($3Dmol.GLViewer.prototype);

function begin() {
  addFont();
  if (why) document.querySelector("main").replaceChildren(why);
  else $3Dmolpromise.then(() => new View(viewer_0).start());
}

// A frame has no fonts of the page around it, which has loaded this one.
function addFont() {
  const link = page.document.querySelector("link[rel=preload][as=font]");
  if (link) document.fonts.add(new FontFace("Source Sans", `url(${link.href})`, { weight: "100 900" }));
}

function hasWebGl() {
  const context = document.createElement("canvas").getContext("webgl2");
  context?.getExtension("WEBGL_lose_context")?.loseContext(); // a browser has sixteen of them
  return context !== null;
}

// 3Dmol.js draws at every change, many times for one that a reader sees.
function drawOnceAFrame(viewer) {
  const draw = viewer.show;
  let frame;
  viewer.show = function () {
    frame ??= requestAnimationFrame(() => {
      frame = undefined;
      draw.call(this);
    });
  };
}

class View {
  constructor(viewer) {
    this.viewer = viewer;
    this.stage = document.querySelector("main");
    this.atoms = viewer.getModel(0).selectedAtoms({});
    this.pointed = null; // places in `atoms`
    this.selected = null;
    this.halos = [];
    this.tag = null;
    this.keys = {
      ArrowLeft: () => viewer.rotate(-12, "y"),
      ArrowRight: () => viewer.rotate(12, "y"),
      ArrowUp: () => viewer.rotate(-12, "x"),
      ArrowDown: () => viewer.rotate(12, "x"),
      "+": () => viewer.zoom(1.15),
      "-": () => viewer.zoom(1 / 1.15),
      r: () => this.fit(),
      n: () => this.step(1),
      p: () => this.step(-1),
      Enter: () => this.pointed !== null && this.pick(this.pointed),
      Escape: () => this.selected !== null && this.pick(null),
    };
  }

  start() {
    const { viewer, stage } = this;
    const cameras = (page.driftscopeCameras ??= {});
    const kept = cameras[scene.camera];
    if (kept?.elements === scene.elements) viewer.setView([...kept.view]); // an array of this frame
    else this.fit();
    viewer.setViewChangeCallback((view) => (cameras[scene.camera] = { elements: scene.elements, view }));
    viewer.setHoverDuration(60);
    viewer.setClickable({ model: 0 }, true, (atom) => this.pick(atom.index));
    viewer.setHoverable({ model: 0 }, true, (atom) => this.hover(atom.index), () => this.hover(null));
    stage.title = `${HINT} ${WHEEL}`;
    stage.addEventListener("keydown", (event) => this.onKey(event));
    stage.addEventListener("pointerdown", () => stage.focus({ preventScroll: true }));
    stage.addEventListener("pointerleave", () => this.hover(null));
    // The wheel scrolls the page, as everywhere, until a reader has clicked into the view.
    stage.addEventListener("wheel", (event) => stage.matches(":focus") || event.stopPropagation(), { capture: true });
    document.querySelector("[data-do=fit]").addEventListener("click", () => this.fit());
    document.querySelector("[data-do=save]").addEventListener("click", () => this.save());
    const isOver = new AbortController();
    page.addEventListener("driftscope-atom", (event) => this.point(placeOf(event.detail)), isOver);
    page.addEventListener("driftscope-selected", () => this.select(), isOver);
    addEventListener("pagehide", () => isOver.abort());
    this.select();
  }

  // What is pointed at and selected ------------------------------------------------------------------------------------

  // An atom view says which, perhaps before this frame is there.
  select() {
    this.selected = placeOf(page.driftscopeSelected);
    this.mark();
  }

  point(place) {
    if (place === this.pointed) return;
    this.pointed = place;
    this.mark();
  }

  // 3Dmol.js tells late that the pointer has gone: by then another view may have lit an atom.
  hover(place) {
    if (place === this.pointed) return;
    page.dispatchEvent(new CustomEvent("driftscope-atom", { detail: atomAt(place) })); // heard here too
    this.point(place);
  }

  pick(place) {
    page.dispatchEvent(new CustomEvent("driftscope-pick", { detail: atomAt(place) }));
  }

  mark() {
    const { viewer, pointed, selected } = this;
    for (const halo of this.halos.splice(0)) viewer.removeShape(halo);
    if (this.tag) viewer.removeLabel(this.tag);
    this.tag = null;
    if (pointed !== null && pointed !== selected) this.addHalo(pointed, { radius: 0.5, color: scene.text, opacity: 0.35 });
    if (selected !== null) {
      this.addHalo(selected, { radius: 0.75, color: scene.selected, opacity: 0.5 });
      const look = { backgroundColor: scene.ground, fontColor: scene.text, fontSize: 13, bold: true, inFront: true };
      const where = { position: this.atoms[selected], screenOffset: { x: 0, y: -26 }, alignment: "center" };
      this.tag = viewer.addLabel(`atom ${scene.atoms[selected]}`, { ...where, ...look });
    }
    viewer.render();
    const place = pointed ?? selected;
    const name = place === null ? scene.caption || HINT : scene.names[place];
    document.querySelector("[role=status]").textContent = place !== null && place === selected ? `${name}, selected` : name;
  }

  addHalo(place, look) {
    const { x, y, z } = this.atoms[place];
    this.halos.push(this.viewer.addSphere({ center: { x, y, z }, ...look }));
  }

  // Keys and buttons ---------------------------------------------------------------------------------------------------

  onKey(event) {
    if (event.target !== this.stage) return;
    const isOurs = event.key in this.keys && !event.altKey && !event.ctrlKey && !event.metaKey;
    if (!isOurs) return page.document.body.dispatchEvent(new KeyboardEvent("keydown", event)); // a shortcut of the page
    this.keys[event.key]();
    this.viewer.render();
    event.preventDefault(); // no scrolling by an arrow
  }

  step(by) {
    const from = this.pointed ?? this.selected ?? (by > 0 ? -1 : this.atoms.length);
    this.point(Math.min(Math.max(from + by, 0), this.atoms.length - 1));
  }

  fit() {
    this.viewer.setView([0, 0, 0, 0, 0, 0, 0, 1]);
    this.viewer.zoomTo();
    this.viewer.zoom(scene.zoom * Math.min(1, this.stage.clientWidth / this.stage.clientHeight));
  }

  save() {
    Object.assign(document.createElement("a"), { download: "molecule.png", href: this.viewer.pngURI() }).click();
  }
}

function placeOf(atom) {
  const place = scene.atoms.indexOf(atom ?? null);
  return place < 0 ? null : place;
}

function atomAt(place) {
  return place === null || scene.atoms[place] < 0 ? null : scene.atoms[place];
}
