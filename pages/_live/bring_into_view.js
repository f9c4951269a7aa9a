// The page below grows for a while, and only a page that is long enough can be scrolled so far: so it is done again as
// the page grows, until the place is at the top and the page has settled, or the reader does anything.
const PATIENCE_MS = 2000;
const HEADER_PX = 64; // Streamlit's own, which covers the page
const READER = ["wheel", "pointerdown", "keydown", "touchstart"];
const seen = (globalThis.driftscopeInView ??= new Set());

export default function ({ data, parentElement }) {
  const place = parentElement.querySelector(".place");
  if (!place || !data || seen.has(data.name)) return;
  seen.add(data.name);
  place.style.scrollMarginTop = `${HEADER_PX}px`;
  const begun = performance.now();
  const growth = new ResizeObserver(() => scroll());
  const stop = () => {
    growth.disconnect();
    for (const name of READER) removeEventListener(name, stop, true);
  };
  const scroll = () => {
    place.scrollIntoView({ block: "start" });
    const isThere = place.getBoundingClientRect().top < HEADER_PX + 2;
    if (!place.isConnected || (isThere && performance.now() - begun > PATIENCE_MS)) stop();
  };
  for (const name of READER) addEventListener(name, stop, true);
  growth.observe(document.querySelector("[data-testid=stMainBlockContainer]") ?? document.body);
  setTimeout(() => scroll(), PATIENCE_MS + 1);
  scroll();
}
