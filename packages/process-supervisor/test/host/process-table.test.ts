import { expect, it } from 'vitest';
import { processesOf } from '../../src/host/process-table.ts';

it("processesOf returns the leader's descendants and its session", () => {
  const one = (pid: number, parent: number, session: number) => ({ pid, parent, session, ticks: 0, residentPages: 0 });
  const all = [one(1, 0, 1), one(10, 1, 10), one(11, 10, 10), one(12, 11, 12), one(13, 1, 10), one(20, 1, 20)];
  expect(
    processesOf(10, all)
      .map(({ pid }) => pid)
      .sort(),
  ).toEqual([10, 11, 12, 13]);
});
