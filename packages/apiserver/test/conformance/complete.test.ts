import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

/** The behaviors of a conformant cluster. The file is not part of the repository. */
const facts = fileURLToPath(new URL('../../../../../shared/spec/conformance-v1.36.yaml', import.meta.url));
const root = fileURLToPath(new URL('../../../../', import.meta.url));
const areas = ['sig-api-machinery', 'sig-auth'];

/** Removes the tags (`[Conformance]`, `[Serial]`), which specify how a behavior is tested. */
const bare = (title: string) =>
  title
    .replaceAll(/ ?\[(?!sig-)[A-Z][\w:.-]*\]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** Converts a title of `it.each` to a pattern: its placeholders match the values of its rows. */
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

/** Returns true if the source has a test of this title, in one literal or in a `describe` and an `it`. */
function names({ text, titles }: Source, title: string): boolean {
  const words = title.split(' ');
  // the area, at least one word of the subject, and at least two words of the behavior
  for (let at = 2; at < words.length - 1; at++) {
    const [group, what] = [words.slice(1, at).join(' '), words.slice(at).join(' ')];
    if (!text.includes(group) || !text.includes((words[0] ?? '').slice(1, -1))) continue;
    const ends = new RegExp(`(^|[ .,])${escaped(what)}($|[,:.])`);
    const holes = (each: string) => (each.includes('%s') || each.includes('${')) && /[a-z]{4} /.test(each) && holed(each).test(what);
    if (titles.some((each) => ends.test(each) || holes(each))) return true;
  }
  return false;
}

describe.skipIf(!existsSync(facts))('conformance behaviors without pods', () => {
  const behaviours = existsSync(facts) ? (parse(readFileSync(facts, 'utf8')) as readonly { readonly codename: string }[]) : [];

  it.each(areas)('each has a test of its name: %s', (area) => {
    const titles = behaviours.map(({ codename }) => bare(codename)).filter((title) => title.startsWith(`[${area}] `));
    expect(titles.length).toBeGreaterThan(0);
    const tests = sources();
    expect(titles.filter((title) => !tests.some((source) => names(source, title)))).toEqual([]);
  });
});
