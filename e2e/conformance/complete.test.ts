import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { nodeStages } from './node-environments.ts';
import { combinedBehaviors } from './combined-behaviors.ts';

/** The behaviors of a conformant cluster. The list is not part of the repository. */
const facts = fileURLToPath(new URL('../../../shared/spec/conformance-v1.36.yaml', import.meta.url));
const root = fileURLToPath(new URL('../../', import.meta.url));
const e2e = fileURLToPath(new URL('../', import.meta.url));
/** The others are in packages/apiserver/test/conformance. */
const areas = ['node', 'network', 'storage', 'cli', 'instrumentation', 'apps', 'scheduling', 'architecture'].map((area) => `sig-${area}`);
/** Folders with tests of behaviors that need no nodes of their own. */
const elsewhere = ['packages/apiserver/test/conformance', 'packages/scheduler/test/conformance'];

/** Removes the marks (`[Conformance]`, `[Serial]`), which describe how a behavior is run. */
const bare = (title: string) =>
  title
    .replaceAll(/ ?\[(?!sig-)[A-Z][\w:.-]*\]/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Returns the full names of all tests of these folders, as vitest collects them in one process, without running any. */
async function collected(): Promise<readonly string[]> {
  const directory = await mkdtemp(join(tmpdir(), 'oarlock-titles-'));
  try {
    const file = join(directory, 'titles.json');
    const vitest = join(root, 'node_modules/.bin/vitest');
    await promisify(execFile)(vitest, ['list', 'conformance/', 'journeys/proxies', '--pool=threads', '--no-isolate', `--json=${file}`], {
      cwd: e2e,
      timeout: 300_000,
    });
    const tests = JSON.parse(await readFile(file, 'utf8')) as readonly { readonly name: string }[];
    return tests.map(({ name }) => bare(name.replaceAll(' > ', ' ')));
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

interface Source {
  readonly text: string;
  readonly titles: readonly string[];
}
/** Returns the texts of tests that are not collected here, with their quoted names. */
function testSources(): readonly Source[] {
  const files = elsewhere.flatMap((folder) => readdirSync(root + folder).map((name) => `${root}${folder}/${name}`));
  return files.map((file) => {
    const text = readFileSync(file, 'utf8');
    const literals = [...text.matchAll(/'((?:[^'\\\n]|\\.)+)'|"([^"\n]+)"|`([^`\n]+)`/g)];
    return { text: bare(text), titles: literals.map(([, a, b, c]) => bare((a ?? b ?? c ?? '').replaceAll("\\'", "'"))) };
  });
}

/** Returns every way to split a behavior's name into subject and behavior. */
function* parts(behaviour: string): Generator<readonly [area: string, group: string, what: string]> {
  const [area = '', ...words] = behaviour.split(' ');
  for (let at = 1; at < words.length - 1; at++) yield [area.slice(1, -1), words.slice(0, at).join(' '), words.slice(at).join(' ')];
}
/** A title may continue after the name: `should do this (Always)`, `should do this; should do that`. */
const titleContains = (title: string, what: string) => new RegExp(`(^|[ .,;])${escaped(what)}($|[,:.;]| \\()`).test(title);
/** Titles that are templates, filled from the rows of a table. */
const mayContain = (title: string, what: string) =>
  /[a-z]{4} /.test(title) &&
  /%s|\$\{/.test(title) &&
  new RegExp(
    `^${title
      .split(/%s|\$\{[^}]*\}/)
      .map(escaped)
      .join('.+')}$`,
  ).test(what);

function isTested(behaviour: string, titles: readonly string[], sources: readonly Source[]): boolean {
  for (const [area, group, what] of parts(behaviour)) {
    if (titles.some((title) => title.includes(area) && title.includes(group) && titleContains(title, what))) return true;
    if (
      sources.some(
        (one) =>
          one.text.includes(area) &&
          group.split(' ').every((word) => one.text.includes(word)) &&
          one.titles.some((title) => titleContains(title, what) || mayContain(title, what)),
      )
    )
      return true;
  }
  return false;
}

describe('behaviors of a conformant cluster', () => {
  let titles: readonly string[] = [];
  beforeAll(async () => {
    titles = await collected();
  });

  it('that are covered together name existing tests', () => {
    expect(titles.length).toBeGreaterThan(0);
    expect(Object.keys(combinedBehaviors).filter((test) => !titles.some((title) => title.endsWith(test)))).toEqual([]);
  });

  it('that a runtime does not support name existing tests', () => {
    const left = Object.values(nodeStages).flatMap(({ cannot }) => Object.keys(cannot));
    expect(left.filter((test) => !titles.some((title) => title.endsWith(bare(test))))).toEqual([]);
  });

  describe.skipIf(!existsSync(facts))(`have a test of the same name${existsSync(facts) ? '' : ' (the list is not available)'}`, () => {
    const behaviors = existsSync(facts) ? (parse(readFileSync(facts, 'utf8')) as readonly { readonly codename: string }[]) : [];
    const names = behaviors.map(({ codename }) => bare(codename));
    const others = new Set(Object.values(combinedBehaviors).flat());

    it('and tests have no other names', () => {
      expect([...others].filter((name) => !names.includes(name))).toEqual([]);
    });
    it.each(areas)('%s', (area) => {
      const wanted = names.filter((name) => name.startsWith(`[${area}] `));
      expect(wanted.length).toBeGreaterThan(0);
      const sources = testSources();
      expect(wanted.filter((name) => !others.has(name) && !isTested(name, titles, sources))).toEqual([]);
    });
  });
});
