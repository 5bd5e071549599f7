/**
 * The first lines of the trials: which is best and with what, how far it is, what failed.
 *
 * @typedef {import("./rows.js").Trial} Trial
 * @typedef {{ experiment: string, metric: string, best: Trial | undefined, settings: string[], summary: Record<string, any>,
 *   total: number, counts: Record<string, number>, interrupted: string[], ended: number }} Known
 */

const NAMES = 5;

/**
 * How the experiment stands, in words: `3 running, 52 done, 5 failed · about 4 min left`. Pure.
 * @param {Record<string, number>} counts @param {number | null | undefined} left seconds
 * @param {typeof import("./format.js")} format
 */
export function progressText(counts, left, format) {
  const words = ["running", "paused", "waiting", "done", "failed", "interrupted", "stopped"];
  const parts = words.filter((status) => counts[status]).map((status) => `${format.whole(counts[status])} ${/** @type {any} */ (format.STATUS)[status].toLowerCase()}`);
  return parts.join(", ") + (left ? ` · about ${format.left(left)}` : "");
}

/**
 * The settings of a trial in one line, those that vary, the most important first. Pure.
 * @param {Trial} row @param {string[]} names @param {typeof import("./format.js")} format
 */
export function settingsText(row, names, format) {
  return names
    .filter((name) => row.settings?.[name] !== undefined && row.settings[name] !== null)
    .slice(0, 8)
    .map((name) => {
      const value = row.settings[name];
      return typeof value === "string" ? value : `${name} ${format.setting(value)}`;
    })
    .join(", ");
}

/** A few names, and how many more. Pure. @param {string[]} ids */
export const names = (ids) => ids.slice(0, NAMES).join(", ") + (ids.length > NAMES ? ` +${ids.length - NAMES}` : "");

/**
 * The answer: the best trial with its value and settings.
 * @param {import("./panel.js").Frame} frame @param {Known} known @param {(id: string) => void} show
 * @returns {(Node | null)[]}
 */
export function answer(frame, { metric, best, settings, summary, total, counts, interrupted, ended }, show) {
  const { dom, format } = frame;
  const busy = (counts.running ?? 0) + (counts.waiting ?? 0) + (counts.paused ?? 0) > 0;
  const parts = [];
  if (busy) parts.push(dom.progress(ended / Math.max(1, total), `${format.whole(ended)} of ${format.count(total, "trial")} have ended`), dom.make("span", { text: progressText(counts, summary.left_s, format) }));
  if (interrupted.length && !counts.running)
    parts.push(dom.make("span", { class: "nb-is-interrupted", text: `${format.count(interrupted.length, "trial was", "trials were")} interrupted: ${names(interrupted)}` }));
  if (best) {
    const value = format.number(best.metrics[metric]);
    parts.push(
      dom.make("span", { class: "nb-answer" },
        `${busy ? "Best so far" : "Best"}: `, dom.make("strong", { text: `${best.id}, ${metric} ${value}` }),
        dom.make("span", { class: "nb-quiet-text", text: ` · ${settingsText(best, settings, format)}` })),
      dom.button({ label: `Show ${best.id}`, icon: "show", quiet: true, bare: frame.width === "narrow" || frame.width === "medium", run: () => show(best.id), id: "show-best" }),
    );
  } else parts.push(dom.make("span", { text: `${format.count(total, "trial")}, no result yet. The first one shows here.` }));
  return parts;
}

/**
 * What failed, grouped: `5 failed: 4 × RuntimeError: diverged`.
 * @param {import("./panel.js").Frame} frame @param {{ text: string, count: number }[]} groups @param {number} failed
 * @param {{ show: () => void, retry: () => void }} does
 */
export function failures(frame, groups, failed, { show, retry }) {
  const { dom, format } = frame;
  if (!failed) return null;
  const text = groups.slice(0, 3).map((group) => `${group.count} × ${group.text}`).join(" · ");
  const more = groups.length > 3 ? ` · ${groups.length - 3} more` : "";
  return dom.make("div", { class: "nb-failures" },
    dom.icon("failed"),
    dom.make("span", { class: "nb-failures-text", text: `${format.whole(failed)} failed${text ? `: ${text}${more}` : ""}`, title: text }),
    dom.button({ label: "Show failed", quiet: true, run: show, id: "show-failed" }),
    frame.width !== "narrow" && dom.button({ label: "Retry failed…", icon: "retry", quiet: true, run: retry, why: frame.why(), id: "retry-failed" }),
  );
}

/**
 * How to begin a run: lines for the functions of the notebook, to copy into a cell.
 * @param {import("./panel.js").Frame} frame @param {string[]} lines @param {{ look: () => void, back: (() => void) | null }} does `look`: look for functions again
 */
export function setUp(frame, lines, { look, back }) {
  const { dom } = frame;
  const copy = (/** @type {string} */ line) => dom.make("p", { class: "nb-run-line" }, dom.make("pre", { text: line }),
    dom.button({ label: "Copy", icon: "copy", id: `copy-${line}`, title: `Copy ${line}`, run: () => void navigator.clipboard?.writeText(line).then(() => frame.say("Copied. Paste it into a cell.")) }));
  const text = lines.length ? "Copy a line into a cell, write your values, and run the cell:" : "Define a function that takes its settings and calls nbckpt.report, then run it with many settings, for example:";
  return dom.make("div", { class: "nb-empty" },
    dom.make("p", { class: "nb-run-line" }, back && dom.button({ label: "Back", icon: "left", quiet: true, id: "back", run: back }), dom.make("strong", { text: back ? "Set up a run" : "No experiments yet." })),
    dom.make("p", { text }), ...(lines.length ? lines : ["%ckpt run train --grid lr=0.1,0.01"]).map(copy),
    dom.button({ label: "Look for functions again", icon: "retry", why: frame.why(), id: "look", run: look }),
  );
}
