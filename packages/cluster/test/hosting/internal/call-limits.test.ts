import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Slot } from '@oarlock/kernel/plugin';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { sections } from '../../../src/cluster-file/sections.ts';
import { callLimitsOf } from '../../../src/hosting/internal/call-limits.ts';

/** The methods that end when their client or their signal ends them. */
const unlimited: Readonly<Record<string, readonly string[]>> = {
  runtime: ['exec', 'attach'],
  scheduling: ['whenSynced'],
};

/** The interfaces that a plugin of a slot implements, where these are more than the slot's own. */
const partsOf: Readonly<Record<string, readonly string[]>> = {
  cloud: ['CloudNodes', 'CloudRoutes', 'CloudLoadBalancers'],
  paths: ['PathAuthenticator'],
};

/** Returns the methods of a plugin of the slot whose declared result is, or may be, a promise. */
function promisesOf(name: string): readonly string[] {
  const file = fileURLToPath(new URL(`../../../../spi/src/${name}/${name}.ts`, import.meta.url));
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  const [, slotInterface = ''] = /= slot\.\w+<(\w+)>\(/.exec(source.text) ?? [];
  const wanted = [slotInterface, ...(partsOf[name] ?? [])];
  const found = source.statements.filter(ts.isInterfaceDeclaration).filter((declared) => wanted.includes(declared.name.text));
  expect(found.map((declared) => declared.name.text).sort()).toEqual(wanted.toSorted());
  return found
    .flatMap(({ members }) => [...members])
    .filter((member) => ts.isMethodSignature(member) && /\bPromise</.test(member.type?.getText(source) ?? ''))
    .map((member) => (member.name as ts.Identifier).text);
}

describe('time limits of calls', () => {
  it.each(sections.map(({ slot }) => [slot.id.split('/')[0] ?? '', slot as Slot<unknown>] as const))(
    'exist for every method of a %s plugin that returns a promise',
    (name, slot) => {
      const expected = [...Object.keys(callLimitsOf(slot)), ...(unlimited[name] ?? [])];
      expect([...new Set(promisesOf(name))].sort()).toEqual(expected.sort());
    },
  );
});
