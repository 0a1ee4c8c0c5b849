import { describe, expect, it } from 'vitest';
import type { TopFacts } from '../../../src/status/top/top-facts.ts';
import { pressKey, screenLines, type ScreenState } from '../../../src/status/top/top-screen.ts';

const size = { columns: 60, rows: 8 };
const state: ScreenState = { view: 'pods', sort: 'name', offset: 0 };
const facts: TopFacts = {
  nodes: [{ name: 'a', status: 'Ready', pods: 9 }],
  pods: Array.from({ length: 9 }, (_, index) => ({
    ...{ namespace: 'd', name: `pod-${index}`, ready: 1, containers: 1, status: 'Running', restarts: index, node: 'a' },
  })),
  controlPlane: { ready: true, failedChecks: [] },
};

describe('pressKey', () => {
  it('selects views and orders, scrolls, and quits', () => {
    expect(pressKey(state, 'o', size)).toEqual({ ...state, view: 'nodes' });
    expect(pressKey({ ...state, offset: 3 }, 'r', size)).toEqual({ ...state, sort: 'restarts' });
    expect(pressKey(state, '\t', size)?.view).toBe('nodes');
    expect(pressKey(state, '\u001B[6~', size)?.offset).toBe(4);
    expect(pressKey(state, '\u001B[A', size)?.offset).toBe(0);
    expect(pressKey(state, 'z', size)).toEqual(state);
    for (const key of ['q', '\u0003']) expect(pressKey(state, key, size)).toBeUndefined();
  });
});

describe('screenLines', () => {
  it('fills the screen, and never exceeds it', () => {
    const lines = screenLines(facts, { ...state, sort: 'restarts', offset: 100 }, size);
    expect(lines).toHaveLength(8);
    expect(lines[0]).toBe('1/1 nodes ready, 9/9 pods running, API server ready');
    expect(lines.slice(3, 7).map((line) => line.slice(12, 17))).toEqual(['pod-3', 'pod-2', 'pod-1', 'pod-0']);
    expect(lines.every((line) => line.length <= 60)).toBe(true);
    expect(screenLines(facts, { ...state, view: 'nodes' }, { columns: 200, rows: 8 }).at(-1)).toMatch(/q quit$/);
    expect(screenLines(facts, state, { columns: 200, rows: 8 }).at(-1)).toMatch(/1-4 of 9$/);
  });
});
