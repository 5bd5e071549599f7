// Mounts the panel into its place in the page, and gives the static copy back when the kernel has gone.

const PERIOD_MS = 100;
const ASK_MS = [0, 500, 2000];

/**
 * Show the panel in each element of its place, as soon as that is on the page.
 *
 * @param {{model: any, part: (name: string) => Promise<any>, gone: string[]}} given
 *   `gone`: the events of a model whose kernel has gone
 */
export function mount({ model, part, gone }) {
  const at = `[data-nbckpt-place="${model.get("place")}"]`;
  /** @type {Map<Element, AbortController>} */
  const views = new Map();
  /** @type {ReturnType<typeof setTimeout> | 0} */
  let due = 0;
  const hide = document.createElement("style");
  hide.textContent = `[data-nbckpt-copy="${model.get("place")}"], ${at} > details { display: none }`;

  /**
   * Wait until the kernel answers. Some answer nothing while a cell runs: then what stands in the page is worth more.
   * @param {AbortSignal} signal
   */
  const answered = (signal) => new Promise((done) => {
    const asked = ASK_MS.map((wait) => setTimeout(() => model.send({ kind: "ping", n: 0 }), wait));
    const stop = () => {
      model.off("msg:custom", hear);
      asked.forEach(clearTimeout);
      done(undefined);
    };
    const hear = (/** @type {any} */ said) => said.kind === "pong" && stop();
    model.on("msg:custom", hear);
    signal.addEventListener("abort", stop);
  });

  /** @param {Element} place */
  const show = async (place) => {
    const view = new AbortController();
    const el = document.createElement("div");
    views.set(place, view);
    view.signal.addEventListener("abort", () => el.remove());
    try {
      const [panel] = await Promise.all([part("panel.js"), answered(view.signal)]);
      if (view.signal.aborted) return;
      place.append(el);
      await panel.show({ model, el, signal: view.signal, part });
      if (!view.signal.aborted) document.head.append(hide);
    } catch (error) {
      view.abort();
      console.error("nbckpt:", error);
    }
  };

  const look = () => {
    due = 0;
    const fresh = [...document.querySelectorAll(at)].filter((place) => !views.has(place));
    if (fresh.length === 0) return; // a cell out of sight leaves the page, and comes back with its view
    for (const [place, view] of views) {
      if (!place.isConnected) {
        views.delete(place);
        view.abort();
      }
    }
    fresh.forEach(show);
  };

  const seen = new MutationObserver(() => {
    due ||= setTimeout(look, PERIOD_MS);
  });
  const end = () => {
    seen.disconnect();
    clearTimeout(due);
    hide.remove();
    for (const view of views.values()) view.abort();
    views.clear();
  };
  for (const name of gone) model.on(name, end);
  seen.observe(document.body, { childList: true, subtree: true });
  look();
}
