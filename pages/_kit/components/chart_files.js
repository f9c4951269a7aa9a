// Plotly's own camera, which shows on hover alone, saves each chart of a card as it is drawn now; the buttons ask it for
// a format. Neither its click nor that of the link that it makes is heard elsewhere: they would close the popover.
const quiet = (event) => !event.isTrusted && event.target.closest?.("a[download]") && event.stopPropagation();

export default function ({ data, parentElement }) {
  globalThis.driftscopeDownloads ??= addEventListener("click", quiet, true) ?? true;
  for (const button of parentElement.querySelectorAll("button")) {
    button.onclick = () => document.querySelectorAll(`.st-key-${data} .js-plotly-plot`).forEach((chart) => {
      const options = chart._context.toImageButtonOptions;
      chart._context.toImageButtonOptions = { ...options, format: button.value };
      const camera = [...chart.querySelectorAll(".modebar-btn")].at(-1);
      camera.dispatchEvent(new MouseEvent("click"));
      chart._context.toImageButtonOptions = options;
    });
  }
}
