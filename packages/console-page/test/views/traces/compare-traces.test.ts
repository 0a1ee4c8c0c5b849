import { expect, it } from 'vitest';
import type { Trace } from '../../../src/views/object/trace/trace-rows.ts';
import { compareTraces } from '../../../src/views/traces/compare-traces.ts';

const trace = (criticalSteps: Trace['criticalSteps']) => ({ criticalSteps }) as Trace;

it('compares the steps of both critical paths by name, the largest difference first', () => {
  const a = trace([
    { what: 'patch deployments.apps', ms: 5 },
    { what: 'reconcile replicaset', ms: 2 },
    { what: 'PullImage', ms: 10 },
  ]);
  const b = trace([
    { what: 'patch deployments.apps', ms: 4 },
    { what: 'reconcile replicaset', ms: 3 },
    { what: 'reconcile replicaset', ms: 4 },
    { what: 'probe', ms: 100 },
  ]);
  expect(compareTraces(a, b)).toEqual([
    { what: 'probe', a: undefined, b: 100, difference: 100 },
    { what: 'PullImage', a: 10, b: undefined, difference: -10 },
    { what: 'reconcile replicaset', a: 2, b: 7, difference: 5 },
    { what: 'patch deployments.apps', a: 5, b: 4, difference: -1 },
  ]);
});
