import { PluginHealth } from '@oarlock/kernel/plugin-health';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { expect, it } from 'vitest';
import { attribute } from '../../src/hosting/late-errors.ts';

const healthOf = (name: string) =>
  new PluginHealth({ name, slot: 'audit/v1', clock: systemClock, log: silentLogger, stopping: new AbortController().signal });
const errorAt = (...files: readonly string[]) =>
  Object.assign(new Error('late'), { stack: ['Error: late', ...files.map((file) => `    at work (${file}:1:1)`)].join('\n') });

const [a, b] = [healthOf('a'), healthOf('b')];
const plugins = [
  { health: a, files: ['/src/a.ts', '/src/shared.ts'] },
  { health: b, files: ['/src/b.ts', '/src/shared.ts'] },
];

it('attributes a late error to the plugin whose file is the first in the stack', () => {
  expect(attribute(errorAt('/elsewhere.ts', '/src/b.ts', '/src/a.ts'), plugins)).toBe(b);
});

it('attributes a late error in a shared file to the plugin that runs', () => {
  expect(a.run(() => attribute(errorAt('/src/shared.ts'), plugins))).toBe(a);
  b.enter();
  expect(attribute(errorAt('/src/shared.ts'), plugins)).toBe(b);
});

it('attributes a late error to the plugin whose call failed with it, before all others', () => {
  const error = errorAt('/src/b.ts');
  a.report('error', error);
  expect(b.run(() => attribute(error, plugins))).toBe(a);
});

it('attributes no error of the cluster itself', () => {
  expect(attribute(errorAt('/packages/apiserver.ts'), plugins)).toBeUndefined();
  expect(attribute('a text', plugins)).toBeUndefined();
});
