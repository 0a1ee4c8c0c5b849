// `npm run bench -- NAME ... --against COMMIT`: runs the benches of this checkout and of a commit in turns, and prints the ratios of their figures.
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { checkoutOf, git } from './checkout.mjs';
import { fail, root, run } from './setup.mjs';

const page = join(root, 'docs', 'benchmarks.md');
export const generatedMark = '<!-- figures: written by `npm run bench -- all --against COMMIT --write` -->';
/** A line that a bench prints for a figure: a description, a value and a unit. Two spaces or the end follow the unit, one in a description does not count. */
const figureLine = /^(\S.*?) +(\d+(?:\.\d+)?) (\/s|us|ms|s|MiB|%|KB|MB\/s|GB\/s)(?: {2}|$)/;

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const formatted = (value) => (value >= 100 ? String(Math.round(value)) : value.toFixed(value >= 10 ? 1 : 2));

/** Runs a bench of a checkout and returns its figures by description. */
async function figuresOf(dir, name) {
  const { code, output } = await run(process.execPath, ['tools/bench.mjs', name], { cwd: dir, timeoutMs: 3_600_000 });
  if (code !== 0) console.log(`  ${name} failed in ${dir}:\n${output.split('\n').slice(-10).join('\n')}`);
  const figures = new Map();
  for (const line of output.split('\n')) for (const [what, figure] of figuresOfLine(line)) figures.set(what, figure);
  return figures;
}

/** Returns the figures of a line: one, or those of a JSON object, whose names contain the unit. */
export function figuresOfLine(line) {
  const [, what, value, unit] = figureLine.exec(line) ?? [];
  const figures = line.startsWith('{"')
    ? Object.entries(JSON.parse(line)).map(([name, number]) => [name, { value: number, unit: '' }])
    : [];
  if (what !== undefined) figures.push([what, { value: Number(value), unit }]);
  return figures.filter(([, figure]) => typeof figure.value === 'number' && figure.value > 0);
}

/** Returns one row per figure that both builds print: the medians, and the median and the extremes of the ratios of the pairs. */
export function rowsOf(pairs) {
  const rows = [];
  for (const [what, { unit }] of pairs[0]?.ours ?? []) {
    const both = pairs.filter(({ ours, theirs }) => ours.has(what) && theirs.has(what));
    if (both.length === 0) continue;
    const ours = both.map((pair) => pair.ours.get(what).value);
    const theirs = both.map((pair) => pair.theirs.get(what).value);
    const ratios = ours.map((value, i) => value / theirs[i]).toSorted((a, b) => a - b);
    const spread = `${ratios[0].toFixed(2)} to ${ratios.at(-1).toFixed(2)}`;
    rows.push({
      what,
      ours: `${formatted(median(ours))} ${unit}`,
      theirs: `${formatted(median(theirs))} ${unit}`,
      ratio: median(ratios).toFixed(2),
      spread,
    });
  }
  return rows;
}

async function measure(name, dir, runs) {
  const pairs = [];
  for (let turn = 0; turn < runs; turn++) {
    // the order alternates, so that a machine that becomes slower favors neither build
    const first = await figuresOf(turn % 2 === 0 ? dir : root, name);
    const second = await figuresOf(turn % 2 === 0 ? root : dir, name);
    console.log(`  pair ${turn + 1} of ${runs} measured`);
    pairs.push(turn % 2 === 0 ? { theirs: first, ours: second } : { theirs: second, ours: first });
  }
  return rowsOf(pairs);
}

/** Writes the figures into the page of benchmarks, in place of those of the run before. */
function writePage(sections, commit, runs) {
  const text = readFileSync(page, 'utf8');
  const at = text.indexOf(generatedMark);
  if (at < 0) fail(`${page} does not contain the line ${generatedMark}`, 'Restore the line; the figures of the page follow it.');
  const cores = cpus();
  const lines = [
    `Medians of ${runs} runs of each build in turns. A ratio is that of two runs, one after the other; its spread is the smallest and the largest.`,
    `Machine: ${cores.length} cores of ${cores[0]?.model ?? 'an unknown processor'}, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, Node.js ${process.versions.node}.`,
    ...sections.flatMap(({ name, rows }) => [
      '',
      `## ${name}`,
      '',
      `| measurement | this version | \`${commit}\` | ratio | spread |`,
      '|---|---|---|---|---|',
      ...rows.map(
        ({ what, ours, theirs, ratio, spread }) => `| ${what.replaceAll('|', '\\|')} | ${ours} | ${theirs} | ${ratio} | ${spread} |`,
      ),
    ]),
  ];
  writeFileSync(page, `${text.slice(0, at)}${generatedMark}\n\n${lines.join('\n')}\n`);
}

/** Compares the benches of this checkout with those of a commit. Benches that print no figures in the common form are left out. */
export async function compareWith(commit, names, { runs, write }) {
  const dir = await checkoutOf(commit);
  const sections = [];
  for (const name of names) {
    console.log(`\n# ${name}: this checkout against ${commit}, ${runs} runs`);
    const rows = await measure(name, dir, runs);
    for (const { what, ours, theirs, ratio, spread } of rows)
      console.log(`${what.padEnd(52)} ${ours.padStart(12)} ${theirs.padStart(12)}  ${ratio}  [${spread}]`);
    if (rows.length > 0) sections.push({ name, rows });
  }
  if (write) writePage(sections, await git('rev-parse', '--short', commit), runs);
}
