import { PluginHost } from '@oarlock/kernel/plugin-host';
import { expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

it('rejects a config without labels, and one with an unknown key', () => {
  const codes = (config: unknown) =>
    new PluginHost()
      .add({ plugin, config })
      .check()
      .map(({ code }) => code);
  expect(codes({ labels: ['owner'] })).toEqual([]);
  expect(codes({ labels: [] })).toEqual(['ConfigInvalid']);
  expect(codes({ labels: ['owner'], label: 'owner' })).toEqual(['ConfigInvalid']);
});
