// What 3Dmol.js draws: models, marks on atoms, the camera. Part of the module of viewer3d.js.

const STICK = 0.14;
const GHOST = { radius: 0.11, opacity: 0.6 };
const MARKS = {
  junk: { hue: "--st-violet-color", ink: "--st-violet-text-color", text: "!" },
  cut: { hue: "--st-red-color", ink: "--st-red-text-color", text: "\u2702\uFE0E" }, // scissors, as text and not as a picture
  wrong: { hue: "--st-yellow-color", ink: "--st-yellow-text-color", text: "\u26A0\uFE0E" },
};
const CARBON = ["--st-gray-text-color", "--st-blue-color", "--st-green-color", "--st-orange-color"]; // of each model that is no ghost
const FALLBACK = "#7b8d93";
const cameras = (globalThis.driftscopeCameras ??= new Map()); // key of a view -> { atoms, view, centre }

// 3Dmol.js, once a page. What failed is tried again the next time.
function library(path) {
  if (globalThis.$3Dmol) return Promise.resolve();
  globalThis.driftscope3Dmol ??= new Promise((resolve, reject) => {
    const tag = document.createElement("script");
    tag.src = new URL(path, document.baseURI).href;
    tag.onload = () => (globalThis.$3Dmol ? resolve() : reject(new Error("no $3Dmol")));
    tag.onerror = () => reject(new Error("not loaded"));
    document.head.append(tag);
  }).catch((error) => {
    globalThis.driftscope3Dmol = undefined;
    throw error;
  });
  return globalThis.driftscope3Dmol;
}

function hasWebGl() {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("webgl2") ?? canvas.getContext("webgl");
  context?.getExtension("WEBGL_lose_context")?.loseContext(); // a browser has sixteen of them
  return context !== null;
}

function colourOf(element, name) {
  return getComputedStyle(element).getPropertyValue(name).trim() || FALLBACK;
}

function swatchColour(element, model, models) {
  if (model.ghost) return colourOf(element, "--st-gray-color");
  const place = models.filter((one) => !one.ghost).indexOf(model);
  return colourOf(element, CARBON[place % CARBON.length]);
}

class Scene {
  constructor(element, told) {
    this.element = element;
    this.told = told;
    this.viewer = $3Dmol.createViewer(element, { antialias: true });
    this.viewer.setHoverDuration(60);
    this.draw = this.viewer.show.bind(this.viewer);
    this.viewer.show = () => this.drawSoon();
    this.viewer.setViewChangeCallback(() => this.remember());
    this.models = [];
    this.main = null; // the model whose atoms count
    this.drawn = false;
    this.tellTheme();
  }

  // 3Dmol.js draws at every change, many times for one that a reader sees. Once a frame is enough.
  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.draw();
    });
  }

  // Models ------------------------------------------------------------------------------------------------------------

  show(models, camera) {
    this.drawn = false; // no view is worth remembering until all is in place
    this.camera = camera;
    this.viewer.removeAllModels();
    this.models = models.map((model) => ({ ...model, drawn: this.viewer.addModel(model.block, "mol") }));
    this.main = this.models.find((model) => !model.ghost)?.drawn ?? null;
    for (const model of this.models) if (!model.ghost) this.listen(model.drawn);
    this.dress();
    this.look();
    this.drawn = true;
    this.remember();
  }

  // A view that was hidden has no pixels until 3Dmol.js hears of its size, which may be after us.
  fit() {
    const canvas = this.viewer.getCanvas();
    if (!canvas.width || !canvas.height || !this.viewer.WIDTH) this.viewer.resize();
  }

  get atoms() {
    return this.main ? this.main.selectedAtoms({}).length : 0;
  }

  listen(model) {
    if (model !== this.main) return;
    model.setClickable({}, true, (atom) => this.told.onPick(atom.index));
    model.setHoverable({}, true, (atom) => this.told.onPoint(atom.index), () => this.told.onPoint(null));
  }

  dress() {
    this.tellTheme();
    for (const model of this.models) model.drawn.setStyle({}, this.styleOf(model));
    this.viewer.render();
  }

  tellTheme() {
    this.viewer.setBackgroundColor(colourOf(this.element, "--st-secondary-background-color"));
  }

  styleOf(model) {
    const carbon = swatchColour(this.element, model, this.models);
    if (model.ghost) return { stick: { ...GHOST, color: carbon } };
    const colorscheme = { prop: "elem", map: { ...$3Dmol.elementColors.Jmol, C: carbon } };
    return { stick: { radius: STICK, colorscheme }, sphere: { scale: 0.25, colorscheme } };
  }

  // Marks on atoms ----------------------------------------------------------------------------------------------------

  mark({ selected, pointed, marks }) {
    this.viewer.removeAllShapes();
    this.viewer.removeAllLabels();
    for (const [atom, mark] of marks) this.addMark(atom, mark);
    if (pointed !== null && pointed !== selected) this.addBall(pointed, 0.5, "--st-text-color", { opacity: 0.35 });
    if (selected !== null) this.addBall(selected, 0.75, "--st-link-color", { opacity: 0.5 });
    if (selected !== null) this.addText(selected, `atom ${selected}`, "--st-link-color", { x: 0, y: -26 });
    this.viewer.render();
  }

  addMark(atom, mark) {
    this.addBall(atom, 0.6, MARKS[mark].hue, { opacity: 0.6 });
    this.addText(atom, MARKS[mark].text, MARKS[mark].ink, { x: 18, y: 18 });
  }

  addBall(atom, radius, colour, look) {
    const centre = this.spot(atom);
    if (centre) this.viewer.addSphere({ center: centre, radius, color: colourOf(this.element, colour), ...look });
  }

  addText(atom, text, colour, screenOffset) {
    const position = this.spot(atom);
    const backgroundColor = colourOf(this.element, "--st-background-color");
    const fontColor = colourOf(this.element, colour);
    const look = { fontSize: 13, alignment: "center", backgroundOpacity: 0.85, inFront: true, bold: true };
    if (position) this.viewer.addLabel(text, { position, screenOffset, backgroundColor, fontColor, ...look });
  }

  spot(index) {
    const atom = this.main?.selectedAtoms({ index })[0];
    return atom ? { x: atom.x, y: atom.y, z: atom.z } : null;
  }

  // The camera --------------------------------------------------------------------------------------------------------

  // As it was, if these atoms were looked at before; they may lie elsewhere now, so it moves along with their centre.
  look() {
    const kept = cameras.get(this.camera);
    const centre = this.centre();
    if (!kept || kept.atoms !== this.elements()) return this.reset();
    const view = [...kept.view];
    for (let axis = 0; axis < 3; axis++) view[axis] -= centre[axis] - kept.centre[axis];
    this.viewer.setView(view);
    this.viewer.render();
  }

  remember() {
    if (this.drawn) cameras.set(this.camera, { atoms: this.elements(), view: this.viewer.getView(), centre: this.centre() });
  }

  elements() {
    return (this.main ?? this.models[0]?.drawn)?.selectedAtoms({}).map((atom) => atom.elem).join(" ") ?? "";
  }

  centre() {
    const atoms = (this.main ?? this.models[0]?.drawn)?.selectedAtoms({}) ?? [];
    return ["x", "y", "z"].map((axis) => atoms.reduce((sum, atom) => sum + atom[axis], 0) / Math.max(1, atoms.length));
  }

  reset() {
    this.viewer.setView([0, 0, 0, 0, ...(this.models.find((model) => !model.ghost) ?? this.models[0]).facing]);
    this.viewer.zoomTo();
    this.viewer.zoom((this.liesApart() ? 1 : 1.3) * Math.min(1, this.element.clientWidth / this.element.clientHeight || 1));
    this.viewer.render();
    this.remember();
    return true;
  }

  // 3Dmol.js fits all models into a ball as high as the view: a wide margin, unless one lies above the other.
  liesApart() {
    const all = this.models.flatMap((model) => model.drawn.selectedAtoms({}));
    return radius(all) > 1.2 * radius(this.main?.selectedAtoms({}) ?? all);
  }

  turn(degrees, axis) {
    this.viewer.rotate(degrees, axis);
    this.viewer.render();
    this.remember();
    return true;
  }

  zoom(factor) {
    this.viewer.zoom(factor);
    this.viewer.render();
    this.remember();
    return true;
  }

  picture() {
    this.draw();
    return this.viewer.pngURI();
  }

  destroy() {
    this.drawn = false;
    this.viewer.removeAllModels();
    cancelAnimationFrame(this.frame);
    const canvas = this.viewer.getCanvas();
    canvas.getContext("webgl2")?.getExtension("WEBGL_lose_context")?.loseContext();
    this.element.replaceChildren();
  }
}

function radius(atoms) {
  const centre = ["x", "y", "z"].map((axis) => atoms.reduce((sum, atom) => sum + atom[axis], 0) / atoms.length);
  return Math.max(0, ...atoms.map((atom) => Math.hypot(atom.x - centre[0], atom.y - centre[1], atom.z - centre[2])));
}
