import type { SwappableInstance } from '@oarlock/kernel/placement';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { WiringError } from '@oarlock/kernel/errors';
import { slot } from '@oarlock/kernel/slot';
import { expect, it } from 'vitest';
import { z } from 'zod';

interface Greeter {
  greet(): string;
}
const Greeters = slot.chain<Greeter>('greeter/v1');
const Others = slot.chain<Greeter>('other/v1');
const happened: string[] = [];

const greeter = (
  version: string,
  more: { readonly start?: () => Promise<void>; readonly needs?: { readonly x: ReturnType<typeof slot.one<string>> } } = {},
) =>
  Greeters.plugin({
    id: 'greeter-test',
    config: z.strictObject({ name: z.string().default('you') }),
    ...(more.needs && { needs: more.needs }),
    create: ({ config }, { signal }) => ({
      greet: () => `${version} greets ${config.name}${signal.aborted ? ', and has ended' : ''}`,
      async start() {
        happened.push(`${version} starts`);
        await more.start?.();
      },
      async stop() {
        happened.push(`${version} stops`);
      },
    }),
  });

let drained: () => void;
/** Delays the end of the previous instance until the test calls `drained`. */
const front = (first: object): SwappableInstance => {
  let behind = first as Greeter;
  return {
    instance: { greet: () => behind.greet() } satisfies Greeter,
    swap(next) {
      behind = next as Greeter;
      return new Promise((resolve) => {
        drained = resolve;
      });
    },
  };
};
const shouting = (instance: object): Greeter => ({ greet: () => (instance as Greeter).greet().toUpperCase() });

async function started(): Promise<{ readonly host: PluginHost; readonly held: Greeter }> {
  happened.length = 0;
  const host = new PluginHost().add({ plugin: greeter('one'), makeSwappable: front, decorate: shouting });
  await host.start();
  const [held] = host.get(Greeters);
  if (held === undefined) throw new Error('nothing was created');
  return { host, held };
}

it('replace sends new calls to the new version and stops the previous one after its last call', async () => {
  const { host, held } = await started();
  expect(held.greet()).toBe('ONE GREETS YOU');
  const { retired } = await host.replace(Greeters, { name: 'greeter-test', plugin: greeter('two'), config: { name: 'ada' } });
  expect(held.greet()).toBe('TWO GREETS ADA');
  expect(host.plugins).toMatchObject([{ config: { name: 'ada' } }]);
  expect(happened).toEqual(['one starts', 'two starts']);
  drained();
  await retired;
  expect(happened).toEqual(['one starts', 'two starts', 'one stops']);
  await host.stop();
  expect(happened.at(-1)).toBe('two stops');
});

it('stop stops the current and all replaced versions', async () => {
  const { host } = await started();
  await host.replace(Greeters, { name: 'greeter-test', plugin: greeter('two'), config: {} });
  await host.replace(Greeters, { name: 'greeter-test', plugin: greeter('three'), config: {} });
  await host.stop();
  expect(happened.filter((each) => each.endsWith('stops')).sort()).toEqual(['one stops', 'three stops', 'two stops']);
});

it('replace keeps the previous version if the new one is invalid or does not start', async () => {
  const { host, held } = await started();
  const failing = greeter('two', {
    start: async () => {
      throw new Error('it is too late');
    },
  });
  const { needs: _, ...other } = Others.plugin({
    id: 'greeter-test',
    config: z.strictObject({}),
    create: () => ({ greet: () => 'other' }),
  });
  const codes = async (replacing: Promise<unknown>) =>
    replacing.then(
      () => [],
      (error: unknown) => (error instanceof WiringError ? error.faults.map(({ code }) => code) : [String(error)]),
    );
  expect(await codes(host.replace(Greeters, { name: 'greeter-test', plugin: greeter('two'), config: { nme: 'ada' } }))).toEqual([
    'ConfigInvalid',
  ]);
  expect(await codes(host.replace(Greeters, { name: 'greeter-test', plugin: failing, config: {} }))).toEqual(['StartFailed']);
  expect(await codes(host.replace(Greeters, { name: 'greeter-test', plugin: { ...other, needs: {} }, config: {} }))).toEqual(['WrongSlot']);
  const needy = greeter('two', { needs: { x: slot.one<string>('nowhere/v1') } });
  expect(await codes(host.replace(Greeters, { name: 'greeter-test', plugin: needy, config: {} }))).toEqual(['SlotEmpty']);
  expect(held.greet()).toBe('ONE GREETS YOU');
  expect(happened).toEqual(['one starts', 'two starts', 'two stops']);
  await host.stop();
});

it('replace rejects a plugin without a swappable instance', async () => {
  const host = new PluginHost().add({ plugin: greeter('one') });
  await host.start();
  await expect(host.replace(Greeters, { name: 'greeter-test', plugin: greeter('two'), config: {} })).rejects.toThrow(
    'greeter-test of greeter/v1 cannot be replaced',
  );
  await host.stop();
});
