// The table in docs/feature-gates.md, generated from the lists in packages/api/src/component-helpers/internal.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const source = 'packages/api/src/component-helpers/internal';
const begin = `<!-- generated from ${source}: begin -->`;
const end = `<!-- generated from ${source}: end -->`;
const stages = { a: 'alpha', b: 'beta', g: 'GA', d: 'deprecated' };

function describeStage(entry) {
  const [, letter, version, on, locked] = /^([abgd])([\d.]+)(\+?)(!?)$/.exec(entry);
  return `${stages[letter]} ${version}${on}${locked === '' ? '' : ' locked'}`;
}

/** Returns the table as Markdown. */
export function featureGateTable(root) {
  const [list, switchable] = ['feature-list.ts', 'switchable-gates.ts'].map((file) => readFileSync(join(root, source, file), 'utf8'));
  const effects = new Map([...switchable.matchAll(/^ {2}(\w+): '(.*)',$/gm)].map(([, name, effect]) => [name, effect]));
  const rows = [...list.matchAll(/^(\w+)((?: [abgd]\d+\.\d+\+?!?)+)$/gm)].map(([, name, entries]) => {
    const effect = effects.get(name);
    const history = entries.trim().split(' ').map(describeStage).join(', ');
    return `| \`${name}\` | ${history} | ${effect === undefined || !/^\w/.test(effect) ? 'fixed' : `both: ${effect}`} |`;
  });
  return ['| gate | stages | values |', '|---|---|---|', ...rows].join('\n');
}

/** Returns true if the page is current. Writes it otherwise, unless `check` is set. */
export function syncFeatureGateTable(root, { check }) {
  const page = join(root, 'docs', 'feature-gates.md');
  const text = readFileSync(page, 'utf8');
  const [before, rest] = text.split(begin);
  const [, after] = (rest ?? '').split(end);
  if (after === undefined) throw new Error(`docs/feature-gates.md has no marker ${begin}`);
  const wanted = `${before}${begin}\n\n${featureGateTable(root)}\n\n${end}${after}`;
  if (wanted === text) return true;
  if (!check) writeFileSync(page, wanted);
  return false;
}
