/**
 * The lines above the trials: which experiment, the answer, the one button that matters now, and what failed.
 *
 * @typedef {import("./rows.js").Trial} Trial
 */

/**
 * Make the lines.
 * @param {import("./panel.js").Frame} frame @param {import("./trial_view.js").TrialView} view
 * @param {{ open: (id: string) => void, act: (verb: string, ids: string[]) => Promise<unknown>, deed: (verb: string, ids: string[]) => Promise<unknown>,
 *   turn: (experiment: string) => void }} pane `turn`: show another experiment
 */
export function lines(frame, view, { open, act, deed, turn }) {
  const { dom, format, parts } = frame;
  const { known } = view;
  const answer = dom.make("div", { class: "nb-heading" });
  const failures = dom.make("div", {});

  function draw() {
    const counts = parts.rows.tally(view.all());
    const interrupted = view.all().filter((row) => row.status === "interrupted").map((row) => row.id);
    const best = view.best();
    const ended = ["done", "failed", "stopped"].reduce((sum, status) => sum + (counts[status] ?? 0), 0);
    const words = parts.heading.answer(frame, { experiment: known.name, metric: known.metric, best, settings: known.settings, summary: known.summary, total: known.total || known.rows.size, counts, interrupted, ended }, open);
    dom.refill(answer, experiments(), ...words, dom.make("span", { class: "nb-gap" }), primary(counts, interrupted, best));
    const groups = parts.heading.failures(frame, known.summary.error_groups ?? [], counts.failed ?? 0, { show: () => view.filter({ statuses: ["failed"] }), retry: () => void deed("retry", []) });
    dom.refill(failures, groups);
  }

  /** The one button that matters now. @param {Record<string, number>} counts @param {string[]} interrupted @param {Trial | undefined} best */
  function primary(counts, interrupted, best) {
    const why = frame.why();
    if (counts.running) return dom.button({ label: "Pause all", icon: "paused", primary: true, why, id: "main", run: () => void act("pause", []) });
    if (interrupted.length) return dom.button({ label: `Resume ${interrupted.length} from ${interrupted.length > 1 ? "their checkpoints" : "its checkpoint"}`, icon: "resume", primary: true, why, id: "main", run: () => void act("resume", interrupted) });
    if (!best) return null;
    return dom.button({ label: `Restore ${best.id}…`, icon: "restore", primary: true, why: why || unsavedWhy(best), id: "main", run: () => void deed("restore", [best.id]) });
  }

  /** @param {Trial} row */
  const unsavedWhy = (row) => (row.saved === null || row.saved === undefined ? `${row.id} has no checkpoint` : "");

  function experiments() {
    const names = known.experiments.map((each) => each.name);
    return names.length < 2 ? dom.make("strong", { text: known.name }) : dom.select("Experiment", names, known.name, turn);
  }

  let former = { of: "", best: "" };
  /** Say that another trial is the best now. Screen readers hear it too. */
  function tellBest() {
    const best = view.best();
    const of = JSON.stringify([known.name, known.metric, view.mode(), view.state.byBest]);
    const before = former;
    former = { of, best: best?.id ?? "" };
    if (!best || !before.best || before.of !== of || before.best === best.id) return;
    frame.say(`New best: ${best.id}, ${known.metric} ${format.number(best.metrics[known.metric])}`);
  }

  return { elements: [answer, failures], draw, tellBest };
}
