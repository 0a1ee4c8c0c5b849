import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

/** The behaviours of a conformant cluster, in words. They are not part of the repository. */
const facts = fileURLToPath(new URL('../../../../../shared/spec/conformance-v1.36.yaml', import.meta.url));
const root = fileURLToPath(new URL('../../../../', import.meta.url));
const areas = ['sig-api-machinery', 'sig-auth'];

/** Without its marks (`[Conformance]`, `[Serial]`), which say how a behaviour is run. */
const bare = (title: string) =>
  title
    .replaceAll(/ ?\[(?!sig-)[A-Z][\w:.-]*\]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** A title of `it.each` has holes, into which its rows are put. */
const holed = (text: string) =>
  new RegExp(
    `^${text
      .split(/%s|\$\{[^}]*\}/)
      .map((part) => escaped(part))
      .join('.+')}$`,
  ); // prettier-ignore

interface Source {
  readonly file: string;
  readonly text: string;
  readonly titles: readonly string[];
}
function sources(): readonly Source[] {
  const below = (folder: string) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' }).flatMap((path) =>
      path.endsWith('.ts') && !path.includes('node_modules') ? [`${folder}/${path}`] : [],
    );
  const rooms = ['packages', 'plugins'].flatMap((kind) => readdirSync(root + kind).map((name) => `${kind}/${name}/test`));
  const files = ['e2e', ...rooms].filter((folder) => existsSync(root + folder)).flatMap((folder) => below(folder));
  return files.flatMap((file) => {
    const text = readFileSync(root + file, 'utf8');
    if (!text.includes('sig-')) return [];
    const literals = [...text.matchAll(/'((?:[^'\\\n]|\\.)+)'|"([^"\n]+)"|`([^`\n]+)`/g)];
    return [{ file, text: bare(text), titles: literals.map(([, a, b, c]) => bare((a ?? b ?? c ?? '').replaceAll("\\'", "'"))) }];
  });
}

/** Whether this source has a test that is called so: in one text, or in several that a group and its tests are called by. */
function names({ text, titles }: Source, title: string): boolean {
  const words = title.split(' ');
  // the area, at least one word of what it is about, and at least two of what it does
  for (let at = 2; at < words.length - 1; at++) {
    const [group, what] = [words.slice(1, at).join(' '), words.slice(at).join(' ')];
    if (!text.includes(group) || !text.includes((words[0] ?? '').slice(1, -1))) continue;
    const ends = new RegExp(`(^|[ .,])${escaped(what)}($|[,:.])`);
    const holes = (each: string) => (each.includes('%s') || each.includes('${')) && /[a-z]{4} /.test(each) && holed(each).test(what);
    if (titles.some((each) => ends.test(each) || holes(each))) return true;
  }
  return false;
}

describe.skipIf(!existsSync(facts))('behaviours of a conformant cluster that need no pods', () => {
  const behaviours = existsSync(facts) ? (parse(readFileSync(facts, 'utf8')) as readonly { readonly codename: string }[]) : [];

  it.each(areas)('have a test of their name: %s', (area) => {
    const titles = behaviours.map(({ codename }) => bare(codename)).filter((title) => title.startsWith(`[${area}] `));
    expect(titles.length).toBeGreaterThan(0);
    const tests = sources();
    expect(titles.filter((title) => !tests.some((source) => names(source, title)))).toEqual([]);
  });
});
