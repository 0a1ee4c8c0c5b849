// The table in docs/architecture.md that shows which package may import which other package, generated from boundaries.cjs.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import boundaries from './boundaries.cjs';

const begin = '<!-- generated from tools/checks/boundaries.cjs: begin -->';
const end = '<!-- generated from tools/checks/boundaries.cjs: end -->';

/** The table as Markdown. */
export function importTable({ mayImport, compositionRoots } = boundaries) {
  const rows = Object.entries(mayImport).map(([name, allowed]) => `| ${name} | ${allowed.length === 0 ? '-' : allowed.join(', ')} |`);
  return [
    '| package | may import |',
    '|---|---|',
    ...rows,
    `| ${compositionRoots.join(', ')} | every package; plugins are loaded by name |`,
    '| plugins | every package except client, servers and composition roots, and no other plugin |',
  ].join('\n');
}

/** `text` with the generated part replaced. @throws Error if a marker is missing */
export function withImportTable(text, table = importTable()) {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the markers "${begin}" and "${end}" are missing`);
  return `${text.slice(0, from + begin.length)}\n${table}\n${text.slice(to)}`;
}

/** Writes the table into docs/architecture.md. With `check`, writes nothing. @returns whether the file was current */
export function syncImportTable(root, { check = false } = {}) {
  const file = join(root, 'docs', 'architecture.md');
  const text = readFileSync(file, 'utf8');
  const current = withImportTable(text);
  if (text !== current && !check) writeFileSync(file, current);
  return text === current;
}
