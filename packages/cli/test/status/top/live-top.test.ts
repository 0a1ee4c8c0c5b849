import { pods } from '@oarlock/api/resources';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { afterEach, expect, it } from 'vitest';
import { liveTop, type Terminal } from '../../../src/status/top/live-top.ts';

const clock = new FakeClock();
const api = memoryApi({ clock });
afterEach(() => api.stop());

it('draws changes of watched objects together, reacts to keys, and restores the terminal', async () => {
  const output: string[] = [];
  let press: (key: string) => void = () => undefined;
  const terminal: Terminal = {
    size: () => ({ columns: 120, rows: 10 }),
    write: (text) => output.push(text),
    onKey: (listener) => {
      press = listener;
      return () => undefined;
    },
    onResize: () => () => undefined,
  };
  const { signal } = new AbortController();
  const end = liveTop({ client: api.client(), informers: api.informers, terminal, clock, sort: 'name', intervalMs: 5000, signal });
  api.seed(pods, { metadata: { namespace: 'd', name: 'web' }, spec: { containers: [] }, status: { phase: 'Pending' } });
  await clock.advance(1000);
  expect(output[0]).toBe('\u001B[?1049h\u001B[?25l');
  expect(output.at(-1)).toMatch(/0\/0 nodes ready, 0\/1 pods running[^]*d +web/);
  const draws = output.length;
  await clock.advance(400);
  expect(output).toHaveLength(draws);
  press('s');
  expect(output.at(-1)).toMatch(/keys in controller queues/);
  press('q');
  await end;
  expect(output.at(-1)).toBe('\u001B[?25h\u001B[?1049l');
});
